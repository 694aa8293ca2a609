# What the tables and figures of the paper share, to be sourced: text to pairs, pairs to models, models to scores.
#
# A script names in `cells` what is to be compared, and calls `compare`, which makes all that is missing under WORK and
# prints the tables. What is there is passed over, if the same command made it: a script that was cut short goes on when
# it is run again, and finds the models that another one has pre-trained. A model's name says what it is,
# PRESET/OBJECTIVE[/FATES], and is its folder under WORK/models; a path from / on is a model that is there already.
set -euo pipefail
set -a  # for the processes that run side by side too

# -- parameters: the paper's values, where it has them ------------------------------------------------------------

TEXT=${TEXT-} HELDOUT=${HELDOUT-}        # files of text, parted by blanks, to pre-train on, and to score models on
VOCAB=${VOCAB-} VOCAB_OPTIONS=${VOCAB_OPTIONS-}  # a vocabulary that is there already, or how to learn one (--cased)
GLUE=${GLUE-} CONLL=${CONLL-} SQUAD=${SQUAD-} SWAG=${SWAG-}  # folders of the tasks' files, which may be compressed
PRESET=${PRESET:-12x768}                 # the size: LAYERSxWIDTH, or pretrain's other presets
STEPS=${STEPS:-1000000} BATCH_PRETRAIN=${BATCH_PRETRAIN:-256} LR_PRETRAIN=${LR_PRETRAIN:-1e-4}
LENGTHS=${LENGTHS:-128 512}              # tokens a sequence; of two, the second for the last tenth of the steps
FRACTIONS=${FRACTIONS-3 5 10 20 40 60 80}  # percent of the steps after which a model is kept, for figure5.sh
PRETRAIN_OPTIONS=${PRETRAIN_OPTIONS-}    # pretrain's others, as they stand
SEEDS=${SEEDS:-5} LR=${LR:-5e-5,4e-5,3e-5,2e-5}  # of fine-tuning: each rate is run from so many seeds
BATCH=${BATCH-} EPOCHS=${EPOCHS-}        # of fine-tuning; otherwise the task's own
FINETUNE_OPTIONS=${FINETUNE_OPTIONS-}    # finetune's others
LR_FEATURES=${LR_FEATURES:-1e-3} EPOCHS_FEATURES=${EPOCHS_FEATURES:-20} UNITS=${UNITS:-768}  # of a BiLSTM on vectors
FEATURES_OPTIONS=${FEATURES_OPTIONS-}    # finetune's others for that
DOCUMENTS=${DOCUMENTS-}                  # --documents: words of CoNLL with the context of their documents, as the paper's
MODEL=${MODEL-}                          # of tables that have one: a folder that is there already, not pre-trained here
GPUS=${GPUS:-1} PRETRAIN_JOBS=${PRETRAIN_JOBS:-$GPUS} JOBS=${JOBS:-$GPUS}  # cards, and what runs on them side by side
CARDS=${CUDA_VISIBLE_DEVICES-$(seq -s , 0 $((GPUS - 1)))}  # those that are to be seen, where that is said
WORKERS=${WORKERS:-1}                    # processes that make pairs
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/made.sh"
check_numbers STEPS BATCH_PRETRAIN SEEDS UNITS GPUS PRETRAIN_JOBS JOBS WORKERS
check_paths VOCAB ${VOCAB:+"$VOCAB"}
check_paths MODEL ${MODEL:+"$MODEL"}
if [[ -z ${WORK-} ]]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK"
WORK=$(realpath "$WORK")
PAIRS=$WORK/pairs
MODEL=${MODEL:+$(realpath "$MODEL")}
MODEL=${MODEL:-$PRESET/mlm+nsp/80,10,10}

# A task's name, the parameter that is its folder, the files to learn from and to score on, their format, what finetune
# calls the task, the score, the paper's batch and epochs, other options. Of MRPC and QQP Table 1 has F1, the others
# accuracy; CoNLL's batch and epochs are not in the paper. conll-LAYERS is a BiLSTM on those layers' vectors. TASK:ROWS
# learns from the first so many records.
tasks() {
    cat <<END
cola    GLUE  CoLA/train.tsv   CoLA/dev.tsv           glue-cola  classification matthews 32 3
sst-2   GLUE  SST-2/train.tsv  SST-2/dev.tsv          glue-sst-2 classification accuracy 32 3
mrpc    GLUE  MRPC/train.tsv   MRPC/dev.tsv           glue-mrpc  classification accuracy 32 3
mrpc-f1 GLUE  MRPC/train.tsv   MRPC/dev.tsv           glue-mrpc  classification f1       32 3
sts-b   GLUE  STS-B/train.tsv  STS-B/dev.tsv          glue-sts-b regression     spearman 32 3
qqp     GLUE  QQP/train.tsv    QQP/dev.tsv            glue-qqp   classification accuracy 32 3
qqp-f1  GLUE  QQP/train.tsv    QQP/dev.tsv            glue-qqp   classification f1       32 3
mnli    GLUE  MNLI/train.tsv   MNLI/dev_matched.tsv   glue-mnli  classification accuracy 32 3
qnli    GLUE  QNLI/train.tsv   QNLI/dev.tsv           glue-qnli  classification accuracy 32 3
rte     GLUE  RTE/train.tsv    RTE/dev.tsv            glue-rte   classification accuracy 32 3
wnli    GLUE  WNLI/train.tsv   WNLI/dev.tsv           glue-wnli  classification accuracy 32 3
sick    GLUE  SICK/train.tsv   SICK/dev_matched.tsv   glue-mnli  classification accuracy 32 3
squad   SQUAD train-v1.1.json  dev-v1.1.json          squad      span           f1       32 3
squad2  SQUAD train-v2.0.json  dev-v2.0.json          squad      span           f1       48 2
swag    SWAG  train.csv        val.csv                swag       choice         accuracy 16 3
conll   CONLL train.txt        valid.txt              conll      tagging        f1       32 3 --max-length ${LENGTHS##* }
END
}

# -- steps --------------------------------------------------------------------------------------------------------

# side_by_side N FUNCTION: calls it with the fields of each line of stdin, which tabs part, as they come, N at a time, on
# the cards in turn. Returns 1 where a call has failed, after the others.
side_by_side() {
    xargs -r -d '\n' -n 1 -P "$1" --process-slot-var SLOT bash -euo pipefail -c '
        IFS=, read -ra cards <<< "$CARDS,"
        IFS=$'"'\t'"' read -ra fields <<< "$1"
        CUDA_VISIBLE_DEVICES=${cards[SLOT % ${#cards[@]}]} "$0" "${fields[@]}"' "$2" || return 1
}

folder() {
    case $1 in /*) echo "$1" ;; *) echo "$WORK/models/$1" ;; esac
}

vocabulary() { bertcli vocab "$@" --workers "$WORKERS"; }
pairs() { bertcli read text "${@:3}" | bertcli pairs -v "$1" --max-length "$2" --workers "$WORKERS"; }
masked() { pairs "$@" | bertcli mask -v "$1" --fates 80,10,10; }
read_records() { bertcli read "${@:2}" --plain | sed -n "1,$1p"; }

check_text() {
    local name
    for name in TEXT HELDOUT; do
        [[ -n ${!name} ]] || fail "$name: files of text, parted by blanks, to pre-train on and to score models on"
        check_paths "$name" ${!name}
    done
}

# The text that models are pre-trained on, and the pairs, masked once, that all of them are scored on.
prepare_text() {
    check_text
    [[ -n $VOCAB ]] || made "$WORK/vocab.txt" vocabulary $TEXT $VOCAB_OPTIONS
    VOCAB=$(realpath "${VOCAB:-$WORK/vocab.txt}")
    local length
    for length in $LENGTHS; do
        made "$PAIRS/$length" pairs "$VOCAB" "$length" $TEXT
    done
    made "$PAIRS/heldout" masked "$VOCAB" "${LENGTHS%% *}" $HELDOUT
}

# look_up TASK: sets root, train, dev, format, kind, score, batch, epochs and options; and records, what it learns from.
look_up() {
    records=$1
    [[ $1 != conll-* ]] || records=conll${1#"${1%%:*}"}
    [[ $1 != *:* || ${1#*:} =~ ^[1-9][0-9]*$ ]] || fail "$1: expected TASK or TASK:ROWS, a number from 1"
    read -r root train dev format kind score batch epochs options < <(tasks | sed -n "s/^${records%%:*} //p") ||
        fail "there is no task $1, only $(tasks | cut -d ' ' -f 1 | paste -sd ' ')"
    records=$WORK/tasks/$records
}

# only PATH: prints the one file of that name, which may be compressed.
only() {
    local files=("$1"*)
    ((${#files[@]} == 1)) || fail "found ${files[*]}, expected one of them"
    echo "${files[0]}"
}

prepare_task() {
    local rows='$' part file
    look_up "$1"
    [[ -n ${!root} ]] || fail "$root: the folder with $train and $dev, for $1"
    [[ $1 != *:* ]] || rows=${1##*:}
    [[ $format != conll ]] || format="conll $DOCUMENTS"
    for part in train dev; do
        file=$(only "${!root}/${!part}")
        made "$records.$part" read_records "$rows" $format "$file"
        rows='$'
    done
}

prepare_tasks() {
    local task given
    if given=$(cells | cut -f 4- | grep -m 1 $'^conll-.*\t'); then
        fail "${given//$'\t'/ }: vectors are learned from by a BiLSTM of UNITS, without other options"
    fi
    for task in $(cells | cut -f 4 | sort -u); do
        prepare_task "$task"
    done
}

# pretrained MODEL: pre-trains it, unless it is one that is there already, and prints its name.
pretrained() {
    local preset objective fates
    IFS=/ read -r preset objective fates <<< "$1"
    [[ $1 == /* ]] ||
        pretrain "$WORK/models/$1" --preset "$preset" --objective "$objective" ${fates:+--fates "$fates"}
    echo "$1"
}

# pretrain FOLDER OPTION...: on sequences of the first length, then, if there is another, on those of that.
pretrain() {
    local kept
    kept=$(steps_kept | paste -sd ,)
    made "$1.json" in_phases "$@" -v "$VOCAB" --dev "$PAIRS/heldout" --steps "$STEPS" --batch-size "$BATCH_PRETRAIN" \
        --lr "$LR_PRETRAIN" ${kept:+--save-at "$kept"} $PRETRAIN_OPTIONS
}
in_phases() {
    local short=${LENGTHS%% *} long=${LENGTHS##* }
    { [[ $short == "$long" ]] || made "$1.$short" phase "$short" "$@" --stop-at $((STEPS - STEPS / 10)); } &&
        phase "$long" "$@"
}
phase() { bertcli pretrain "$PAIRS/$1" --max-length "$1" -o "${@:2}" --resume; }

steps_kept() {
    local each
    for each in $FRACTIONS; do
        echo $((STEPS * each / 100))
    done | sort -nu | sed '/^0$/d'
}

# finetuned MODEL TASK [OPTION...]: learns a task, from several seeds at each learning rate.
finetuned() {
    look_up "$2"
    local out=$WORK/tuned/$1/${*:2}
    local common=(-o "$out" --restarts "$SEEDS" --batch-size "${BATCH:-$batch}" --resume)
    if [[ $2 == conll-* ]]; then
        local layers=${2#conll-}
        made "$out.json" on_vectors "$(folder "$1")" "${layers%%:*}" "$records" "${common[@]}" \
            --lr "$LR_FEATURES" --epochs "$EPOCHS_FEATURES" --bilstm-units "$UNITS" $FEATURES_OPTIONS
    else
        made "$out.json" bertcli finetune "$kind" "$records.train" --dev "$records.dev" -m "$(folder "$1")" \
            "${common[@]}" --lr "$LR" --epochs "${EPOCHS:-$epochs}" --metric "$score" $options "${@:3}" $FINETUNE_OPTIONS
    fi
}

# on_vectors MODEL LAYERS RECORDS OPTION...: the feature-based approach. Vectors to score on have to be in a file.
on_vectors() {
    bertcli embed "$3.dev" -m "$1" --layers "$2" > "$out.dev" &&
        bertcli embed "$3.train" -m "$1" --layers "$2" |
        bertcli finetune tagging --features --dev "$out.dev" "${@:4}" && rm "$out.dev"
}

# -- a comparison -------------------------------------------------------------------------------------------------

# cell ROW COLUMN MODEL TASK [OPTION...]: one of the table's, for `cells`. row ROW MODEL [OPTION...]: one of each task.
cell() { (IFS=$'\t' && echo "$*"); }
row() {
    local task
    for task in $TASKS; do
        cell "$1" "$task" "$2" "$task" "${@:3}"
    done
}

# finetunings: what is to be learned from each model that stdin names, as soon as it does.
finetunings() {
    local model
    while read -r model; do
        cells | cut -f 3- |
            awk -F '\t' -v model="$model" '($1 == model || index($1, model "/steps/") == 1) && !seen[$0]++'
    done
}

# learned: makes all that `cells` names; first the tasks, for text takes long, and a folder that is wrong is told at once.
learned() {
    [[ -z $(ours) ]] || check_text
    prepare_tasks
    if [[ -n $(ours) ]]; then
        prepare_text
    fi
    models | side_by_side "$PRETRAIN_JOBS" pretrained | finetunings | side_by_side "$JOBS" finetuned
}

models() { cells | cut -f 3 | sed 's|/steps/.*||' | awk '!seen[$0]++'; }
ours() { models | sed '/^\//d'; }

# report OPTION...: prints the table of the cells on stdin, with table.py's options, after that of what was pre-trained.
report() {
    if [[ -n $(ours) ]]; then
        ours | python3 "$here/rows.py" "$WORK" --models | python3 "$here/table.py" --digits 3
        echo
    fi
    python3 "$here/rows.py" "$WORK" | python3 "$here/table.py" "$@"
}

compare() {
    learned
    cells | report "$@"
}
