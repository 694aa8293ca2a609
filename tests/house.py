"""A folder with every file that the examples of the commands name, made by the program itself."""

from __future__ import annotations

from pathlib import Path

from program import run

LINES = r"""
for n in {1..60}; do
    echo "The morning of day $n was bright and the road was long."
    echo "Nobody saw the $n ships that left the harbour before noon."
    echo "Was it number $n, or was it the one after?"; echo
done > corpus.txt
printf 'sentence\tlabel\n' > train.tsv
for n in {1..20}; do printf "day $n was fine \t1\nnight $n was too long , and cold \t0\n"; done >> train.tsv

bertcli read text corpus.txt --plain > docs.jsonl
bertcli vocab corpus.txt train.tsv --size 300 > vocab.txt
printf 'sailors sail sailboats\n%.0s' 1 2 3 | bertcli vocab --extend vocab.txt > extended.txt
bertcli pairs docs.jsonl --max-length 64 > pairs.jsonl.zst
bertcli mask pairs.jsonl.zst > train.jsonl.zst
bertcli read glue-sst-2 train.tsv --plain > labelled.jsonl
bertcli write glue-sst-2 labelled.jsonl > SST-2.tsv
printf 'review,stars\n"fine, and short",4.5\nlong,1\n' > reviews.csv
tail -n 16 labelled.jsonl > dev.jsonl
for n in {1..20}; do printf 'Day O\n%s O\nin O\nOslo B-LOC\n\n' $n; done > eng.train
tail -n 20 eng.train > eng.testa
for n in {1..4}; do
    echo '{"sentence_good": "The road was long.", "sentence_bad": "The road were long.",' \
        '"linguistics_term": "agreement", "UID": "number", "pairID": "'$n'"}'
done > blimp.jsonl
for n in {1..15}; do for seed in 1 2; do
    echo '{"seed": '$seed', "step": '$n'00, "accuracy": 0.'$((6$seed + 2 * n))'}' >> mlm.jsonl
    echo '{"seed": '$seed', "step": '$n'00, "accuracy": 0.'$((6$seed + n))'}' >> ltr.jsonl
done; done

bertcli pretrain train.jsonl.zst -o model --num-layers 4 --hidden-size 32 --num-heads 2 --steps 2 --batch-size 8
bertcli finetune classification labelled.jsonl -o classifier --epochs 1
bertcli finetune classification labelled.jsonl -o other --epochs 1 --seed 1
bertcli predict dev.jsonl -m classifier > predicted.jsonl.zst
"""


def build(folder: Path) -> Path:
    """Returns the folder, filled."""
    made = run(["bash", "-e", "-o", "pipefail", "-c", LINES], cwd=folder)
    assert made.status == 0, made.err
    return folder
