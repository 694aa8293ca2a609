"""`demo`: the whole pipe on a small corpus, each command shown as a user would type it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click

from bertcli.commands import options

STEPS = (
    ("Learn a vocabulary from twenty chapters.", "bertcli vocab corpus.txt --size 4000 > vocab.txt"),
    (
        "Cut them into pairs of segments, five times over, and hide 15% of the tokens; likewise ten held-out chapters.",
        "bertcli read text corpus.txt | bertcli pairs --max-length 64 --copies 5 | bertcli mask > train.jsonl.zst\n"
        "bertcli read text heldout.txt | bertcli pairs --max-length 64 | bertcli mask > heldout.jsonl.zst",
    ),
    (
        "Pre-train a small BERT on the pairs, and see what the first and the last step cost.",
        "bertcli pretrain train.jsonl.zst --dev heldout.jsonl.zst -o model \\\n"
        "    --preset tiny --steps 300 --batch-size 32 --lr 2e-3 --warmup 0.1 --dropout 0\n"
        "head -n 1 model/log.jsonl; tail -n 1 model/log.jsonl",
    ),
    ("Let it fill a gap.", "echo 'I was very [MASK] to see him.' | bertcli predict --top-k 3 --plain"),
    (
        "Fine-tune it to tell novels from other books, and ask it about chapters that it has never seen.",
        "bertcli finetune classification passages.jsonl -o classifier --lr 5e-4 --epochs 4\n"
        "bertcli predict heldout.jsonl -m classifier --plain > predicted.jsonl\n"
        "head -n 1 predicted.jsonl",
    ),
    ("Score the answers.", "bertcli score classification predicted.jsonl --positive fiction | tee score.json"),
)


@options.command(
    "demo",
    kind=options.Kind.STANDS_ALONE,
    reads="Nothing: the corpus, thirty chapters of public-domain books, ships inside.",
    writes="A folder with the text, the vocabulary, the pairs, two models and the predictions; on stdout what happens.",
    examples=[("bertcli demo -o demo", "From text to predictions and their score, in about two minutes.")],
)
@click.option(
    "-o",
    "--output",
    default="bertcli-demo",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The folder to work in.",
)
@click.option("--force", is_flag=True, help="Overwrite what an earlier demo left there.")
def command(output: Path, force: bool) -> None:
    """Run the whole pipe on a small corpus that ships inside.

    Each command is printed as you would type it, in the folder that is printed first, and then run: vocabulary,
    pairs, masks, pre-training, fine-tuning, prediction, score.
    """
    from bertcli import demo, target

    begun = time.monotonic()
    target.create_empty(output, force=force)
    for made in (output / "model", output / "classifier"):
        target.clear(made)
    demo.write(output)
    click.secho(f"$ cd {output}", bold=True)
    for title, lines in STEPS:
        show_and_run(title, lines, output)
    click.echo(f"\n{summary(output)}; {time.monotonic() - begun:.0f} seconds in all")


def show_and_run(title: str, lines: str, output: Path) -> None:
    """Print what a step is for and its shell lines, and run them; a line that fails ends the demo with its status."""
    shown = "\n$ ".join(line for line in lines.replace("\\\n", "\\\f").split("\n")).replace("\f", "\n")
    click.echo(f"\n# {title}")
    click.secho(f"$ {shown}", bold=True)
    sys.stdout.flush()
    own = {name: value for name, value in os.environ.items() if not name.startswith("BERTCLI_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", lines], cwd=output, env=own | {"PATH": path}, check=False)
    if done.returncode:
        raise click.exceptions.Exit(done.returncode)


def summary(output: Path) -> str:
    """Returns what was achieved, from the log of pre-training and the score."""
    log = (output / "model" / "log.jsonl").read_text(encoding="utf-8")
    first, *_, last = map(json.loads, log.splitlines())
    score = json.loads((output / "score.json").read_text(encoding="utf-8"))
    majority = max(label["gold"] for label in score["labels"].values()) / score["total"]
    return (
        f"MLM loss {first['mlm_loss']:.2f} at the first step, {last['mlm_loss']:.2f} at the last; "
        f"held-out accuracy {score['accuracy']:.3f}, majority class {majority:.3f}"
    )
