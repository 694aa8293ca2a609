#!/usr/bin/env bash
# Figure 5: steps. Dev scores of the masked and of the left-to-right language model after shares of their pre-training,
# as a table, and drawn in FIGURE.
#
# TEXT=text HELDOUT=text GLUE=folder tests/paper/figure5.sh
TASK=${TASK:-mnli} FIGURE=${FIGURE:-figure5.svg}
. "$(dirname "$0")/steps.sh"
[[ -d $(dirname "$FIGURE") ]] || fail "FIGURE=$FIGURE: no such folder"
rows=$WORK/figure5/$TASK
mkdir -p "$rows"

cells() { line MLM "$PRESET/mlm+nsp/80,10,10" && line LTR "$PRESET/ltr"; }
line() {
    local step
    for step in $(steps_kept); do
        cell "$1" "$step" "$2/steps/$step" "$TASK"
    done
    cell "$1" "$STEPS" "$2" "$TASK"
}
drawn() {
    line "$@" | python3 "$here/rows.py" "$WORK" | python3 "$here/table.py" --rows > "$rows/$1.jsonl"
}

compare
drawn MLM "$PRESET/mlm+nsp/80,10,10"
drawn LTR "$PRESET/ltr"
bertcli plot MLM="$rows/MLM.jsonl" LTR="$rows/LTR.jsonl" --x step --y score -o "$FIGURE"
