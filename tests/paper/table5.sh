#!/usr/bin/env bash
# Table 5: pre-training tasks. Dev scores of models that differ in what they have learned from the same text, and of the
# left-to-right one with a BiLSTM on it, which fine-tuning alone teaches.
#
# TEXT=text HELDOUT=text GLUE=folder SQUAD=folder tests/paper/table5.sh
TASKS=${TASKS:-mnli qnli mrpc sst-2 squad}
. "$(dirname "$0")/steps.sh"

cells() {
    row "BERT" "$PRESET/mlm+nsp/80,10,10"
    row "No NSP" "$PRESET/mlm/80,10,10"
    row "LTR & No NSP" "$PRESET/ltr"
    row "+ BiLSTM" "$PRESET/ltr" --bilstm --bilstm-units "$UNITS"
}

compare --beside BERT
