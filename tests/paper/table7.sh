#!/usr/bin/env bash
# Table 7, its feature-based rows: CoNLL-2003 dev F1 of a BiLSTM on a frozen model's vectors, by what these are of; mean
# and standard deviation over RESTARTS seeds, after the last epoch. ROWS run side by side, JOBS of them at a time.
#
# MODEL=folder DATA=folder/with/train.txt/and/valid.txt tests/paper/table7.sh
set -euo pipefail
: "${MODEL:?a model folder}" "${DATA:?the folder with train.txt and valid.txt, which may be compressed}"
ROWS=${ROWS:-embeddings second-to-last last weighted4 concat4 weighted-all}
RESTARTS=${RESTARTS:-3} EPOCHS=${EPOCHS:-20} LR=${LR:-1e-3} BATCH=${BATCH:-32} DROPOUT=${DROPOUT:-0.1}
UNITS=${UNITS:-768} JOBS=${JOBS:-1} WORKERS=${WORKERS:-1} DOCUMENTS=${DOCUMENTS-}  # DOCUMENTS=--documents: all context
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BERTCLI_MODEL=$MODEL DATA RESTARTS EPOCHS LR BATCH DROPOUT UNITS WORKERS DOCUMENTS work

row() {
    local layers=$1 part
    for part in train valid; do
        bertcli read conll "$DATA/$part.txt"* $DOCUMENTS | bertcli embed --layers "$layers" > "$work/$layers.$part"
    done
    bertcli finetune tagging "$work/$layers.train" --features --dev "$work/$layers.valid" -o "$work/$layers" \
        --bilstm-units "$UNITS" --epochs "$EPOCHS" --lr "$LR" --batch-size "$BATCH" --dropout "$DROPOUT" \
        --restarts "$RESTARTS" --workers "$WORKERS" > "$work/$layers.json" 2> "$work/$layers.err" ||
        { cat "$work/$layers.err" >&2; return 1; }
    echo "$layers: $(tail -n 1 "$work/$layers.err")"
}

export -f row
printf '%s\n' $ROWS | xargs -P "$JOBS" -I LAYERS bash -euo pipefail -c 'row LAYERS'
