#!/usr/bin/env bash
# Section A.3's search on MRPC: a grid over batch size, learning rate and epochs, each cell begun several times, in one
# call; the best on dev is kept, and the table of runs and cells is printed.
#
# MODEL=folder DATA=folder/with/MRPC-train.tsv/and/MRPC-dev.tsv tests/paper/grid.sh
set -euo pipefail
: "${MODEL:?a model folder}" "${DATA:?the folder with MRPC-train.tsv and MRPC-dev.tsv, which may be compressed}"
BATCH=${BATCH:-16,32} LR=${LR:-5e-5,1e-4} EPOCHS=${EPOCHS:-2,3} RESTARTS=${RESTARTS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bertcli read glue-mrpc "$DATA"/MRPC-dev.tsv* > "$work/dev.jsonl.zst"
time bertcli read glue-mrpc "$DATA"/MRPC-train.tsv* |
    bertcli finetune classification -m "$MODEL" -o "$work/mrpc" --dev "$work/dev.jsonl.zst" --metric f1 \
        --batch-size "$BATCH" --lr "$LR" --epochs "$EPOCHS" --restarts "$RESTARTS" 2>&1 >"$work/result.json" |
    grep -v 'dev accuracy\|starting from\|parameters\|is complete'
bertcli predict "$work/dev.jsonl.zst" -m "$work/mrpc" | bertcli score classification
