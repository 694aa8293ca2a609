#!/usr/bin/env bash
#SBATCH --job-name=bertcli
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=USR1@300
# Pre-training under SLURM: one task a machine, in which torchrun starts a process for each GPU.
#
# Five minutes before its time is over the job gets SIGUSR1: all ranks stop after the same step, and rank 0 saves. A job
# that has saved and is not finished is put back into the queue; --resume then goes on where it stopped. OUT and TRAIN
# are on a disk that all machines share; what holds for several machines besides is told in multinode.sh.
#
# VOCAB=vocab.txt TRAIN=train.jsonl.zst OUT=model sbatch tests/paper/slurm.sh
set -euo pipefail
: "${VOCAB:?a vocabulary}" "${TRAIN:?masked pairs}" "${OUT:?the model folder}"
newest() {
    [[ ! -d $OUT/checkpoint ]] ||
        find "$OUT/checkpoint" -maxdepth 1 -name '[0-9]*' -printf '%f\n' | sort -n | tail -n 1
}
before=$(newest)
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

status=0
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=240  # seconds to save in
srun --kill-on-bad-exit=0 torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$SLURM_GPUS_ON_NODE" \
    --rdzv-backend c10d --rdzv-endpoint "$head:${PORT:-29500}" --rdzv-id "$SLURM_JOB_ID" \
    --signals-to-handle SIGTERM,SIGINT,SIGUSR1 \
    -m bertcli pretrain "$TRAIN" -v "$VOCAB" -o "$OUT" --spool "${SLURM_TMPDIR:-/tmp}" --resume \
    --preset "${PRESET:-base}" --batch-size "${BATCH:-4096}" --steps "${STEPS:-100000}" --lr "${LR:-4e-4}" || status=$?

# A job that was stopped, or lost a machine, goes on; one that got no further would get no further again.
if [[ -d $OUT/checkpoint && $(newest) != "$before" ]]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
