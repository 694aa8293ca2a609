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
set -euo pipefail
: "${TEXT:?files of text, blank lines between documents}" "${HELDOUT:?files of text that is not learned from}"
: "${BLIMP:?minimal pairs as BLiMP has them, in one file}" "${WORK:?a folder for all that is made}"
ENGINE=${ENGINE:-bertcli} SECONDS_OF_TRAINING=${SECONDS_OF_TRAINING:-240} CALIBRATION=${CALIBRATION:-500}
PRESET=${PRESET:-4x512} BATCH=${BATCH:-256} LENGTH=${LENGTH:-128} LR=${LR:-1e-3} WARMUP=${WARMUP:-0.01} SEED=${SEED:-0}
PIECES=${PIECES:-30000} COPIES=${COPIES:-1} WORKERS=${WORKERS:-$(nproc)}
EVERY=${EVERY:-1}  # of BLiMP's pairs one in so many
COMPILE=${COMPILE:-default}  # torch.compile's mode for transformers' loop on a GPU
here=$(cd "$(dirname "$0")" && pwd)
. "$here/made.sh"
[[ $ENGINE == @(bertcli|transformers) ]] || fail "ENGINE=$ENGINE: expected bertcli or transformers"
[[ -r $BLIMP ]] || fail "BLIMP=$BLIMP: no such file"  # it is read last
model=$WORK/$ENGINE-$SEED
mkdir -p "$WORK"

pieces_of() { bertcli vocab "${@:2}" --size "$1" --workers "$WORKERS"; }  # SIZE FILE...

pairs_of() {  # VOCAB LENGTH COPIES FILE...
    bertcli read text "${@:4}" |
        bertcli pairs -v "$1" --max-length "$2" --copies "$3" --workers "$WORKERS" --seed 0 --plain
}

masked_of() { pairs_of "$@" | bertcli mask -v "$1" --seed 0 --plain; }

train_bertcli() {  # FOLDER STEPS
    bertcli pretrain "$WORK/pairs.jsonl" -v "$VOCAB" -o "$1" --force --steps "$2" --save-every 0 --preset "$PRESET" \
        --batch-size "$BATCH" --max-length "$LENGTH" --lr "$LR" --warmup "$WARMUP" --seed "$SEED" >&2
}

train_for_seconds_bertcli() {
    if [[ -z ${STEPS-} ]]; then
        train_bertcli "$model-calibration" "$CALIBRATION"
        STEPS=$(python3 "$here/budget.py" steps "$model-calibration/log.jsonl" "$SECONDS_OF_TRAINING")
    fi
    train_bertcli "$model" "$STEPS"
}

train_for_seconds_transformers() {
    PYTHONPATH=$here/../..${PYTHONPATH:+:$PYTHONPATH} python3 "$here/transformers_loop.py" \
        "$WORK/pairs.jsonl" -v "$VOCAB" -o "$model" ${STEPS:+--steps "$STEPS"} --seconds "$SECONDS_OF_TRAINING" \
        --calibration "$CALIBRATION" --preset "$PRESET" --batch-size "$BATCH" --max-length "$LENGTH" --lr "$LR" \
        --warmup "$WARMUP" --seed "$SEED" --compile "$COMPILE"
}

if [[ -z ${VOCAB-} ]]; then
    VOCAB=$WORK/vocab.txt
    made "$VOCAB" pieces_of "$PIECES" $TEXT
fi
made "$WORK/pairs.jsonl" pairs_of "$VOCAB" "$LENGTH" "$COPIES" $TEXT
made "$WORK/heldout.jsonl" masked_of "$VOCAB" "$LENGTH" 1 $HELDOUT
"train_for_seconds_$ENGINE"
bertcli predict "$WORK/heldout.jsonl" -m "$model" | bertcli score pretraining > "$model/heldout.json"
bertcli read blimp "$BLIMP" --plain | awk -v every="$EVERY" 'NR % every == 0' |
    bertcli predict --pseudo-likelihood -m "$model" | bertcli score pairs > "$model/blimp.json"
python3 "$here/budget.py" told "$model"
