#!/usr/bin/env bash
# Table 8: masking. Dev scores of models that differ in what became of the tokens to predict: percent that were hidden
# by [MASK], kept, replaced by a random one. conll-concat4 is the feature-based approach on the last four layers.
#
# TEXT=text HELDOUT=text GLUE=folder CONLL=folder tests/paper/table8.sh
FATES=${FATES:-80,10,10 100,0,0 80,0,20 80,20,0 0,20,80 0,0,100}  # the paper's columns: MASK, SAME, RND
TASKS=${TASKS:-mnli conll conll-concat4}
. "$(dirname "$0")/steps.sh"

cells() {
    local fates
    for fates in $FATES; do
        row "$fates" "$PRESET/mlm+nsp/$fates"
    done
}

compare --beside "${FATES%% *}"
