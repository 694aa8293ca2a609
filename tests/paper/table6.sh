#!/usr/bin/env bash
# Table 6: sizes. Held-out perplexity of the masked language model, and dev scores, of models of PRESETS that have all
# learned from the same text for the same number of steps.
#
# TEXT=text HELDOUT=text GLUE=folder tests/paper/table6.sh
PRESETS=${PRESETS:-3x768 6x768x3 6x768 12x768 12x1024 24x1024}
TASKS=${TASKS:-mnli mrpc sst-2}
. "$(dirname "$0")/steps.sh"

cells() {
    local preset
    for preset in $PRESETS; do
        row "$preset" "$preset/mlm+nsp/80,10,10"
    done
}

compare
