#!/usr/bin/env bash
# Domain adaptation: a model's vocabulary grows by the domain's words, and the model goes on learning from its text.
# Before and after: the loss of the masked language model on held-out text of the domain, and the scores of TASKS. A
# model without its head, such as a BertModel, has no loss before.
#
# MODEL=folder TEXT=text HELDOUT=text TASKS=sst-2 GLUE=folder tests/paper/adapt.sh
: "${MODEL:?the folder of a pre-trained model}" "${TASKS:?what to score it on}"
STEPS=${STEPS:-10000} BATCH_PRETRAIN=${BATCH_PRETRAIN:-32} LR_PRETRAIN=${LR_PRETRAIN:-2e-5} LENGTHS=${LENGTHS:-128}
FRACTIONS=
. "$(dirname "$0")/steps.sh"
PAIRS=$WORK/adapt/pairs VOCAB=$WORK/adapt/grown ADAPTED=$WORK/adapt/adapted
cells() { row before "$MODEL" && row "before, vocabulary grown" "$VOCAB" && row after "$ADAPTED"; }

check_text
prepare_tasks
made "$WORK/adapt/vocab.txt" vocabulary $TEXT --extend "$MODEL" $VOCAB_OPTIONS
made "$VOCAB.json" bertcli convert "$MODEL" --extend-vocab "$WORK/adapt/vocab.txt" -o "$VOCAB" --force
prepare_text

# The model as it was would be asked for other pieces: that with the grown vocabulary stands for it.
scored() { bertcli predict "$PAIRS/heldout" -m "$1" --top-k 1 | bertcli score pretraining; }
held_out() { cell "$1" mlm_loss "$2" heldout && cell "$1" perplexity "$2" heldout; }
predicts() { grep -Eq '"Bert(ForPreTraining|ForMaskedLM|LMHeadModel)"' "$1/config.json"; }
score() { ! predicts "$1" || made "$WORK/tuned/$1/heldout.json" scored "$1"; }
score "$VOCAB"
pretrain "$ADAPTED" --start "$VOCAB"
score "$ADAPTED"
{ { ! predicts "$VOCAB" || held_out before "$VOCAB"; } && held_out after "$ADAPTED"; } | report --digits 3

echo
compare --beside before
