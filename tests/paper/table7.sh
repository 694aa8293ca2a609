#!/usr/bin/env bash
# Table 7: CoNLL-2003 dev F1 of a model that is fine-tuned, and of a BiLSTM on the vectors of a frozen one, by what these
# are of. Words have the context of their documents; with DOCUMENTS= that of their sentence.
#
# TEXT=text HELDOUT=text CONLL=folder tests/paper/table7.sh, or MODEL=folder CONLL=folder tests/paper/table7.sh
ROWS=${ROWS:-fine-tuned embeddings second-to-last last weighted4 concat4 weighted-all}
DOCUMENTS=${DOCUMENTS---documents}
. "$(dirname "$0")/steps.sh"

cells() {
    local each task
    for each in $ROWS; do
        task=conll-$each
        cell "$each" "dev F1" "$MODEL" "${task%-fine-tuned}"
    done
}
compare
