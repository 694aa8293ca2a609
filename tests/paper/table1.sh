#!/usr/bin/env bash
# Table 1: GLUE. A model's dev score of each task, at the best of four learning rates, and their average: as the paper's,
# without WNLI, and with both of MNLI's dev sets. Tasks whose files are not there are left out, which stderr says.
#
# TEXT=text HELDOUT=text GLUE=folder tests/paper/table1.sh, or MODEL=folder GLUE=folder tests/paper/table1.sh
: "${GLUE:?the folder with CoLA/train.tsv and so on}"
TASKS=${TASKS:-mnli qqp-f1 qnli sst-2 cola sts-b mrpc-f1 rte}
SEEDS=${SEEDS:-1}
. "$(dirname "$0")/steps.sh"

present() {
    local task
    for task in $TASKS; do
        look_up "$task"
        if compgen -G "$GLUE/$train*" > /dev/null && compgen -G "$GLUE/$dev*" > /dev/null; then
            echo "$task"
        else
            echo "$(basename "$0"): $task is left out: $GLUE has no $train, or no $dev" >&2
        fi
    done
}
TASKS=$(present)
[[ -n $TASKS ]] || fail "$GLUE has no task's files"
mismatched=
if grep -qx mnli <<< "$TASKS"; then
    mismatched=$(only "$GLUE/MNLI/dev_mismatched.tsv")
    [[ -r $mismatched ]] || { echo "$(basename "$0"): mnli-mm is left out: there is no $mismatched" >&2 && mismatched=; }
fi
cells() { row BERT "$MODEL"; }
learned

# MNLI's mismatched genres are scored with the model that its matched ones have chosen.
score_mismatched() { bertcli read glue-mnli "$2" | bertcli predict -m "$1" | bertcli score classification; }
if [[ -z $mismatched ]]; then
    cells | report --average
else
    made "$WORK/tuned/$MODEL/mnli-mm.json" score_mismatched "$WORK/tuned/$MODEL/mnli" "$mismatched"
    { cells && cell BERT mnli-mm "$MODEL" mnli-mm; } | report --average
    echo "mnli-mm is of one run, that of mnli which is best on its dev records."
fi
