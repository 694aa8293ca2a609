"""What came of the models that a table compares, as rows of JSON for table.py.

python rows.py WORK < CELLS: a cell is a line of ROW, COLUMN, MODEL, TASK and its options, parted by tabs; each run of
its fine-tuning gives a row with its score (of 100), learning rate, batch size, epochs and seed; and `by`, what the runs
are compared by, where that is another score.
python rows.py WORK --models < MODELS: of each model that was pre-trained there, a row for each thing there is to tell.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

Row = dict[str, Any]
PERCENT = ("tagging", "span")  # tasks whose scores are of 100 as they are; the others' are fractions
LOSSES = ("mlm_loss", "perplexity")  # and these, of whatever task


def of_runs(row: str, column: str, folder: Path) -> Iterator[Row]:
    """Yields the rows of a fine-tuned folder, or of a model that was only scored; that of a run that diverged is null.

    A column with the name of a score is of that one, others of the one that the runs are compared by.
    """
    path = folder / "bertcli.json"
    notes = json.loads(path.read_text()) if path.exists() else {"runs": [scored(folder)], "task": ""}
    scale = 1 if notes["task"] in PERCENT or column in LOSSES else 100
    for run in notes.get("runs") or [only_run(notes)]:
        value = run["dev"].get(column, run["value"])
        own = {name: run[name] for name in ("lr", "batch_size", "epochs", "seed", "failed") if name in run}
        own |= {"step": int(column)} if column.isdigit() else {}
        own |= {"by": run["value"]} if run["value"] not in (None, value) else {}
        yield {"row": row, "column": column, "score": None if value is None else scale * value} | own


def only_run(notes: Row) -> Row:
    """Returns the one run that a folder is of, as a table of several would have it."""
    settings = notes["settings"]
    return {"failed": False} | notes | settings | {"value": notes["dev"][settings["metric"]]}


def scored(folder: Path) -> Row:
    """Returns what `score` has printed beside the place where a fine-tuned folder would be."""
    scores = json.loads(Path(f"{folder}.json").read_text())
    return {"dev": scores, "value": scores.get("accuracy")}


def of_pretraining(name: str, folder: Path) -> Iterator[Row]:
    """Yields the rows of a pre-trained folder: size, what it has read and how fast, and its held-out scores."""
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    tokens, seconds = sum(line["tokens"] for line in log), log[-1]["seconds"]
    scores = json.loads((folder / "bertcli.json").read_text())["dev"]
    told = {"parameters": parameters(folder / "model.safetensors"), "steps": log[-1]["step"], "tokens": tokens}
    told |= {"seconds": round(seconds), "tokens a second": round(tokens / seconds)}
    told |= {other_kind(key, scores): value for key, value in scores.items() if isinstance(value, float)}
    for column, value in told.items():
        yield {"row": name, "column": column, "score": value}


def other_kind(key: str, scores: Row) -> str:
    """Returns a score's column; the perplexity of all tokens, each from those on its left, is another than MLM's."""
    return "lm_perplexity" if key == "perplexity" and "lm_loss" in scores else key


def parameters(path: Path) -> int:
    """Returns how many numbers the encoder and its pooler have, as the paper counts: without the heads."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return sum(prod(tensor["shape"]) for name, tensor in header.items() if name.startswith("bert."))


def main(work: str, only: str = "") -> None:
    for line in sys.stdin:
        if only:
            name = line.rstrip("\n")
            rows = iter(()) if name.startswith("/") else of_pretraining(name, Path(work, "models", name))
        else:
            row, column, model, *task = line.rstrip("\n").split("\t")
            rows = of_runs(row, column, Path(f"{work}/tuned/{model}/{' '.join(task)}"))
        for each in rows:
            print(json.dumps(each))


if __name__ == "__main__":
    main(*sys.argv[1:])
