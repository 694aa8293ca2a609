# bash completion for bertcli; rendered by python -m bertcli.manual
_bertcli() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
    local before=("${COMP_WORDS[@]:1:COMP_CWORD - 1}") command= options= words= argument= word
    for word in "${before[@]}"; do
        [[ $word == -* ]] || { command=$word; break; }
    done
    case "$command:$previous" in
        vocab:--on-error) words="stop skip" ;;
        vocab:--size) compopt +o default ;;
        vocab:--alphabet) compopt +o default ;;
        vocab:--min-count) compopt +o default ;;
        vocab:--special) words="first google" ;;
        vocab:--extend) words="" ;;
        vocab:--workers) compopt +o default ;;
        vocab:*) options="--plain --quiet -q --on-error --text --size --alphabet --min-count --special --extend --workers --cased --uncased --strip-accents --no-strip-accents --split-cjk --no-split-cjk -h --help" argument="" ;;
        read:--document) words="blank-line file line" ;;
        read:--split) words="lines rules sentencex" ;;
        read:--predictions) words="" ;;
        read:--evidence) words="" ;;
        read:--words) compopt +o default ;;
        read:--seed) compopt +o default ;;
        read:--scheme) words="IOB1 IOB2 BIOES" ;;
        read:--text) words="" ;;
        read:--text-pair) words="" ;;
        read:--label) words="" ;;
        read:--id) words="" ;;
        read:--several) words="" ;;
        read:--delimiter) words="" ;;
        read:--on-error) words="stop skip" ;;
        read:*) options="--document --split --predictions --evidence --words --seed --documents --scheme --text --text-pair --label --id --number --several --no-header --delimiter --plain --quiet -q --on-error -h --help" argument="text glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad triviaqa swag conll csv tsv" ;;
        tokenize:--on-error) words="stop skip" ;;
        tokenize:--field) words="" ;;
        tokenize:--workers) compopt +o default ;;
        tokenize:-v | tokenize:--vocab) words="" ;;
        tokenize:*) options="--plain --quiet -q --on-error --text --field --workers -v --vocab --cased --uncased --strip-accents --no-strip-accents --split-cjk --no-split-cjk -h --help" argument="" ;;
        pairs:--on-error) words="stop skip" ;;
        pairs:--max-length) compopt +o default ;;
        pairs:--short) compopt +o default ;;
        pairs:--copies) compopt +o default ;;
        pairs:--window) compopt +o default ;;
        pairs:--pool) words="" ;;
        pairs:--split) words="lines rules sentencex" ;;
        pairs:--workers) compopt +o default ;;
        pairs:--seed) compopt +o default ;;
        pairs:-v | pairs:--vocab) words="" ;;
        pairs:*) options="--plain --quiet -q --on-error --max-length --short --copies --window --pool --single --split --workers --seed -v --vocab --cased --uncased --strip-accents --no-strip-accents --split-cjk --no-split-cjk -h --help" argument="" ;;
        mask:--on-error) words="stop skip" ;;
        mask:--rate) compopt +o default ;;
        mask:--fates) words="" ;;
        mask:--ngram) compopt +o default ;;
        mask:--max-masks) compopt +o default ;;
        mask:--copies) compopt +o default ;;
        mask:--seed) compopt +o default ;;
        mask:--workers) compopt +o default ;;
        mask:-v | mask:--vocab) words="" ;;
        mask:*) options="--plain --quiet -q --on-error --rate --fates --whole-word --bernoulli --ngram --max-masks --copies --seed --workers -v --vocab -h --help" argument="" ;;
        pretrain:--on-error) words="stop skip" ;;
        pretrain:-v | pretrain:--vocab) words="" ;;
        pretrain:--preset) words="tiny mini small medium base large" ;;
        pretrain:--num-layers) compopt +o default ;;
        pretrain:--hidden-size) compopt +o default ;;
        pretrain:--num-heads) compopt +o default ;;
        pretrain:--start) words="" ;;
        pretrain:--objective) words="mlm+nsp mlm" ;;
        pretrain:--max-length) compopt +o default ;;
        pretrain:--rate) compopt +o default ;;
        pretrain:--fates) words="" ;;
        pretrain:--ngram) compopt +o default ;;
        pretrain:--max-masks) compopt +o default ;;
        pretrain:--dev) words="" ;;
        pretrain:--eval-every) compopt +o default ;;
        pretrain:--steps) compopt +o default ;;
        pretrain:--stop-at) compopt +o default ;;
        pretrain:-o | pretrain:--output) words="" ;;
        pretrain:--save-every) compopt +o default ;;
        pretrain:--keep) compopt +o default ;;
        pretrain:--save-at) words="" ;;
        pretrain:--spool) words="" ;;
        pretrain:--lr) compopt +o default ;;
        pretrain:--warmup) compopt +o default ;;
        pretrain:--schedule) words="linear google constant" ;;
        pretrain:--optimizer) words="adamw lamb" ;;
        pretrain:--batch-size) compopt +o default ;;
        pretrain:--dropout) compopt +o default ;;
        pretrain:--seed) compopt +o default ;;
        pretrain:--device) words="" ;;
        pretrain:--precision) words="auto fp32 bf16" ;;
        pretrain:--max-tokens) compopt +o default ;;
        pretrain:--kernels) words="auto off" ;;
        pretrain:--compile) words="auto on off" ;;
        pretrain:--cuda-graphs) words="auto off" ;;
        pretrain:--workers) compopt +o default ;;
        pretrain:*) options="--plain --quiet -q --on-error -v --vocab --cased --uncased --strip-accents --no-strip-accents --split-cjk --no-split-cjk --preset --num-layers --hidden-size --num-heads --start --objective --max-length --rate --fates --whole-word --bernoulli --ngram --max-masks --dev --eval-every --steps --stop-at -o --output --force --resume --save-every --keep --save-at --spool --lr --warmup --schedule --optimizer --bias-correction --no-bias-correction --batch-size --dropout --seed --device --precision --max-tokens --kernels --compile --gradient-checkpointing --cuda-graphs --deterministic --workers -h --help" argument="" ;;
        finetune:--on-error) words="stop skip" ;;
        finetune:-m | finetune:--model) words="" ;;
        finetune:--dev) words="" ;;
        finetune:--restarts) compopt +o default ;;
        finetune:--early-stop) compopt +o default ;;
        finetune:--metric) words="" ;;
        finetune:--class-weights) words="" ;;
        finetune:--positive) words="" ;;
        finetune:--stride) compopt +o default ;;
        finetune:--max-question) compopt +o default ;;
        finetune:--max-answer) compopt +o default ;;
        finetune:--max-length) compopt +o default ;;
        finetune:--epochs) compopt +o default ;;
        finetune:-o | finetune:--output) words="" ;;
        finetune:--save-every) compopt +o default ;;
        finetune:--keep) compopt +o default ;;
        finetune:--save-at) words="" ;;
        finetune:--spool) words="" ;;
        finetune:--lr) compopt +o default ;;
        finetune:--warmup) compopt +o default ;;
        finetune:--schedule) words="linear google constant" ;;
        finetune:--optimizer) words="adamw lamb" ;;
        finetune:--batch-size) compopt +o default ;;
        finetune:--dropout) compopt +o default ;;
        finetune:--seed) compopt +o default ;;
        finetune:--device) words="" ;;
        finetune:--precision) words="auto fp32 bf16" ;;
        finetune:--max-tokens) compopt +o default ;;
        finetune:--kernels) words="auto off" ;;
        finetune:--compile) words="auto on off" ;;
        finetune:--cuda-graphs) words="auto off" ;;
        finetune:--workers) compopt +o default ;;
        finetune:*) options="--plain --quiet -q --on-error -m --model --dev --restarts --early-stop --metric --class-weights --positive --cut --stride --max-question --max-answer --max-length --epochs -o --output --force --resume --save-every --keep --save-at --spool --lr --warmup --schedule --optimizer --bias-correction --no-bias-correction --batch-size --dropout --seed --device --precision --max-tokens --kernels --compile --gradient-checkpointing --cuda-graphs --deterministic --workers -h --help" argument="classification regression tagging span choice" ;;
        predict:--on-error) words="stop skip" ;;
        predict:-m | predict:--model) words="" ;;
        predict:--max-length) compopt +o default ;;
        predict:--top-k) compopt +o default ;;
        predict:--nbest) compopt +o default ;;
        predict:--null-threshold) compopt +o default ;;
        predict:--stride) compopt +o default ;;
        predict:--max-question) compopt +o default ;;
        predict:--max-answer) compopt +o default ;;
        predict:--workers) compopt +o default ;;
        predict:--device) words="" ;;
        predict:--precision) words="auto fp32 bf16" ;;
        predict:--max-tokens) compopt +o default ;;
        predict:--kernels) words="auto off" ;;
        predict:--compile) words="auto on off" ;;
        predict:*) options="--plain --quiet -q --on-error --text -m --model --max-length --top-k --nbest --null-threshold --stride --max-question --max-answer --workers --device --precision --max-tokens --kernels --compile -h --help" argument="" ;;
        embed:--on-error) words="stop skip" ;;
        embed:-m | embed:--model) words="" ;;
        embed:--layers) words="" ;;
        embed:--pool) words="words tokens cls mean" ;;
        embed:--dtype) words="float16 float32" ;;
        embed:--vectors) words="base64 list" ;;
        embed:--max-length) compopt +o default ;;
        embed:--field) words="" ;;
        embed:--workers) compopt +o default ;;
        embed:--device) words="" ;;
        embed:--precision) words="auto fp32 bf16" ;;
        embed:--max-tokens) compopt +o default ;;
        embed:--kernels) words="auto off" ;;
        embed:--compile) words="auto on off" ;;
        embed:*) options="--plain --quiet -q --on-error --text -m --model --layers --pool --dtype --vectors --max-length --field --workers --device --precision --max-tokens --kernels --compile -h --help" argument="" ;;
        score:--positive) words="" ;;
        score:--on-error) words="stop skip" ;;
        score:*) options="--positive --plain --quiet -q --on-error -h --help" argument="classification regression tagging span choice pretraining" ;;
        write:--several) words="" ;;
        write:--delimiter) words="" ;;
        write:--on-error) words="stop skip" ;;
        write:*) options="--several --delimiter --plain --quiet -q --on-error -h --help" argument="glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad squad-nbest squad-odds conll csv tsv npy safetensors" ;;
        show:*) options="--json -h --help" argument="" ;;
        demo:-o | demo:--output) words="" ;;
        demo:*) options="-o --output --force -h --help" argument="" ;;
        *) options="--version -h --help" words="vocab read tokenize pairs mask pretrain finetune predict embed score write show demo" ;;
    esac
    for word in "${before[@]:1}"; do
        # Once the argument is there, what follows are files.
        [[ " $argument " == *" $word "* ]] && argument=
    done
    [[ $current == -* ]] && words=$options argument=
    COMPREPLY=($(compgen -W "$words $argument" -- "$current"))
}
complete -o default -F _bertcli bertcli
