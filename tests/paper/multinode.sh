#!/usr/bin/env bash
# Pre-training on several machines, without a scheduler: start this on each of them, with the same files and options.
#
# The first machine is HEAD, which all others can reach at PORT; HEAD itself has NODE=0, the others 1, 2 … torchrun
# starts a process for each GPU. On each machine one of them reads: every machine has to be given the same files, or the
# same stream, in the same order; each record is trained on by one rank, once an epoch, and machines that read different
# records end with an error. --batch-size is that of all GPUs of all machines together. Rank 0 alone, on HEAD, writes OUT.
# For --resume the others have to see OUT too, as on a shared disk; SPOOL, where ids are kept, is best on a local one.
#
# HEAD=name NODES=2 NODE=0 VOCAB=vocab.txt TRAIN=train.jsonl.zst OUT=model tests/paper/multinode.sh
set -euo pipefail
: "${HEAD:?the first machine}" "${NODES:?how many machines}" "${NODE:?which of them this is, from 0}"
: "${VOCAB:?a vocabulary}" "${TRAIN:?masked pairs}" "${OUT:?the model folder}"
GPUS=${GPUS:-gpu} PORT=${PORT:-29500} SPOOL=${SPOOL:-${TMPDIR:-/tmp}}

torchrun --nnodes "$NODES" --node-rank "$NODE" --nproc-per-node "$GPUS" --master-addr "$HEAD" --master-port "$PORT" \
    -m bertcli pretrain "$TRAIN" -v "$VOCAB" -o "$OUT" --spool "$SPOOL" --resume \
    --preset "${PRESET:-base}" --batch-size "${BATCH:-2048}" --steps "${STEPS:-100000}" --lr "${LR:-4e-4}"
