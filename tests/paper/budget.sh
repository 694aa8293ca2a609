#!/usr/bin/env bash
# From text to a trained model: SECONDS_OF_TRAINING of pre-training, MLM and NSP, the rate at 0 at their end; then the
# loss on held-out text and, by pseudo-likelihood, how often the good sentence of a minimal pair of BLiMP is likelier.
#
# TEXT='modern.txt.zst books.txt.zst' HELDOUT=heldout.txt.zst BLIMP=blimp.jsonl.zst WORK=folder tests/paper/budget.sh
# with ENGINE=transformers: a plain loop over transformers' model gets the same seconds, pairs, vocabulary and settings.
#
# How many steps fit is measured first, by CALIBRATION steps of a model that is thrown away, in which code is compiled
# too; with STEPS it is not measured. Seconds count from the end of the first step on, before which pairs begin to be
# read and compiled code is loaded; transformers' loop has all pairs in memory as ids by then. All runs in one WORK
# share the vocabulary and the pairs, which the first of them makes, and may run side by side, one a card: the model of
# each is WORK/ENGINE-SEED. On stdout comes one JSON line.
: "${BLIMP:?minimal pairs as BLiMP has them, in one file}" "${WORK:?a folder for all that is made}"
ENGINE=${ENGINE:-bertcli} SECONDS_OF_TRAINING=${SECONDS_OF_TRAINING:-240} CALIBRATION=${CALIBRATION:-500}
PRESET=${PRESET:-4x512} LR_PRETRAIN=${LR_PRETRAIN:-5e-4} WARMUP=${WARMUP:-0.05} LENGTHS=${LENGTHS:-128} SEED=${SEED:-0}
EVERY=${EVERY:-1}  # of BLiMP's pairs one in so many
COMPILE=${COMPILE:-default}  # torch.compile's mode for transformers' loop on a GPU
fitting=${STEPS-}
. "$(dirname "$0")/steps.sh"
[[ $ENGINE == @(bertcli|transformers) ]] || fail "ENGINE=$ENGINE: expected bertcli or transformers"
[[ $SECONDS_OF_TRAINING =~ ^[0-9]+(\.[0-9]+)?$ ]] || fail "SECONDS_OF_TRAINING=$SECONDS_OF_TRAINING: expected a number"
check_numbers EVERY CALIBRATION
((CALIBRATION > 1)) || fail "CALIBRATION=$CALIBRATION: expected 2 steps or more"
check_paths BLIMP "$BLIMP"  # which is read last
[[ $LENGTHS != *\ * ]] || fail "LENGTHS=$LENGTHS: expected one"
model=$WORK/$ENGINE-$SEED
settings=(--preset "$PRESET" --batch-size "$BATCH_PRETRAIN" --max-length "$LENGTHS" --lr "$LR_PRETRAIN")
settings+=(--warmup "$WARMUP" --seed "$SEED")

train_bertcli() {  # FOLDER STEPS
    bertcli pretrain "$PAIRS/$LENGTHS" -v "$VOCAB" -o "$1" --force --steps "$2" --save-every 0 "${settings[@]}" \
        $PRETRAIN_OPTIONS >&2
}

train_for_seconds_bertcli() {
    if [[ -z $fitting ]]; then
        train_bertcli "$model-calibration" "$CALIBRATION"
        fitting=$(python3 "$here/budget.py" steps "$model-calibration/log.jsonl" "$SECONDS_OF_TRAINING")
    fi
    train_bertcli "$model" "$fitting"
}

train_for_seconds_transformers() {
    PYTHONPATH=$here/../..${PYTHONPATH:+:$PYTHONPATH} python3 "$here/transformers_loop.py" \
        "$PAIRS/$LENGTHS" -v "$VOCAB" -o "$model" ${fitting:+--steps "$fitting"} --seconds "$SECONDS_OF_TRAINING" \
        --calibration "$CALIBRATION" "${settings[@]}" --compile "$COMPILE"
}

prepare_text
"train_for_seconds_$ENGINE"
bertcli predict "$PAIRS/heldout" -m "$model" | bertcli score pretraining > "$model/heldout.json"
bertcli read blimp "$BLIMP" --plain | awk -v every="$EVERY" 'NR % every == 0' |
    bertcli predict --pseudo-likelihood -m "$model" | bertcli score pairs > "$model/blimp.json"
python3 "$here/budget.py" told "$model"
