#!/usr/bin/env bash
# Table 1, SST-2: fine-tune a model on the first ROWS rows of the official training file, score it on the whole dev
# file, and let transformers read the folder and answer the same rows.
#
# MODEL=folder DATA=folder/with/train.tsv/and/dev.tsv tests/paper/sst2.sh
set -euo pipefail
: "${MODEL:?a model folder}" "${DATA:?the folder with train.tsv and dev.tsv, which may be compressed}"
ROWS=${ROWS:-4000} EPOCHS=${EPOCHS:-2} LR=${LR:-1e-4} BATCH=${BATCH:-32} SEED=${SEED:-0}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bertcli read glue-sst-2 "$DATA"/train.tsv* --plain > "$work/train.jsonl"
bertcli read glue-sst-2 "$DATA"/dev.tsv* --plain > "$work/dev.jsonl"

time head -n "$ROWS" "$work/train.jsonl" |
    bertcli finetune classification -m "$MODEL" -o "$work/sst2" \
        --epochs "$EPOCHS" --lr "$LR" --batch-size "$BATCH" --seed "$SEED" --dev "$work/dev.jsonl"

time bertcli predict "$work/dev.jsonl" -m "$work/sst2" --plain > "$work/predicted.jsonl"
bertcli score classification "$work/predicted.jsonl"
python "$here/agree.py" "$work/sst2" "$work/predicted.jsonl"
