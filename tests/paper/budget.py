"""What budget.sh reads off a log: how many steps fit into some seconds, and what a run has done in its own.

python tests/paper/budget.py steps LOG.jsonl SECONDS    the number of steps
python tests/paper/budget.py told MODEL                 one JSON line of the model's log.jsonl, heldout.json, blimp.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Returns the rows of a log in the order of their steps."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def steps(log: str, seconds: str) -> int:
    """Returns how many steps fit, by the second half of those in a log, for which everything has been compiled."""
    rows = rows_of(Path(log))
    middle, last = rows[len(rows) // 2 - 1], rows[-1]
    return 1 + int(float(seconds) * (last["step"] - middle["step"]) / (last["seconds"] - middle["seconds"]))


def told(model: str) -> str:
    """Returns what became of a run: its seconds count from the end of its first step on."""
    folder = Path(model)
    rows = rows_of(folder / "log.jsonl")
    heldout, blimp = (json.loads((folder / f"{name}.json").read_text()) for name in ("heldout", "blimp"))
    if "accuracy" not in blimp:
        raise SystemExit(f"{folder / 'blimp.json'}: no minimal pair was scored; try a lower EVERY")
    run = {
        "model": folder.name,
        "steps": rows[-1]["step"],
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(rows[-1]["seconds"] - rows[0]["seconds"], 1),
    }
    scores = {name: heldout[name] for name in ("mlm_loss", "perplexity", "mlm_accuracy", "nsp_accuracy")}
    return json.dumps({**run, **scores, "blimp_accuracy": blimp["accuracy"], "minimal_pairs": blimp["total"]})


if __name__ == "__main__":
    print({"steps": steps, "told": told}[sys.argv[1]](*sys.argv[2:]))
