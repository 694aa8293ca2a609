"""Prints rows of scores as a Markdown table: means over seeds, and whether they differ beyond doubt.

python table.py [OPTION...] < ROWS. A row of JSON has `row`, `column` and `score`; of one run of several its `seed` too,
and its `lr`, `batch_size` and `epochs`, of which those with the best mean count, of `by` where the rows have that.
With --beside ROW each cell has the difference to that row in its column too, with --average each row the average of its
columns; --digits are those after the point. With --rows, the rows that count are printed as they came, but for those of
runs that diverged.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from statistics import fmean, stdev
from typing import Any

Row = dict[str, Any]
Cells = dict[tuple[str, str], list[Row]]  # by row and column

SETTINGS = ("lr", "batch_size", "epochs")  # in which the runs of a cell may differ beside their seeds


def chosen(rows: Iterable[Row]) -> Cells:
    """Returns the rows of each cell, of its settings only those of the ones with the best mean.

    Settings with which a run diverged (its score is null) are taken only where there are no others.
    """
    grids: dict[tuple[str, str], dict[Any, list[Row]]] = {}
    for row in rows:
        settings = tuple(map(row.get, SETTINGS))
        grids.setdefault((row["row"], str(row["column"])), {}).setdefault(settings, []).append(row)
    return {name: max(grid.values(), key=merit) for name, grid in grids.items()}


def scores(rows: list[Row]) -> list[float]:
    return [row["score"] for row in rows if row["score"] is not None]


def merit(rows: list[Row]) -> tuple[bool, float]:
    """Returns what is higher for the better settings of two."""
    known = [row.get("by", row["score"]) for row in rows if row["score"] is not None]
    return len(known) == len(rows), fmean(known or [0.0])


def spread(values: list[float]) -> float | None:
    """Returns the sample standard deviation, None of a single value."""
    return stdev(values) if len(values) > 1 else None


def is_resolved(ours: list[float], theirs: list[float]) -> bool:
    """Returns whether two means differ by more than two standard errors of their difference.

    The square of that error is sd1²/n1 + sd2²/n2; of single values it is not known, and nothing is resolved.
    """
    one, other = spread(ours), spread(theirs)
    if one is None or other is None:
        return False
    error = (one**2 / len(ours) + other**2 / len(theirs)) ** 0.5
    return abs(fmean(ours) - fmean(theirs)) > 2 * error


def number(value: float, digits: int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def cell(rows: list[Row], beside: list[Row], digits: int) -> str:
    """Returns `84.20 ± 0.30 (-0.40, not resolved)`; `beside` is empty where there is nothing to compare with."""
    ours, theirs = scores(rows), scores(beside)
    if not ours:
        return "diverged" if rows else ""
    text = number(ours[0] if len(ours) == 1 else fmean(ours), digits)
    if (deviation := spread(ours)) is not None:
        text += f" ± {deviation:.{digits}f}"
    if theirs:
        doubt = "" if is_resolved(ours, theirs) else ", not resolved"
        text += f" ({fmean(ours) - fmean(theirs):+.{digits}f}{doubt})"
    lost, same = len(rows) - len(ours), sum(bool(row.get("failed")) for row in rows)
    text += f", {lost} diverged" if lost else ""
    return text + (f", {same} of one answer" if same else "")


def averaged(cells: Cells) -> Cells:
    """Returns the cells with a column more, the average of the others, where a row has them all."""
    columns = list(dict.fromkeys(column for _, column in cells))
    for name in dict.fromkeys(name for name, _ in cells):
        means = [fmean(found) for column in columns if (found := scores(cells.get((name, column), [])))]
        if len(means) == len(columns):
            cells[name, f"average of {len(columns)}"] = [{"score": fmean(means)}]
    return cells


def table(cells: Cells, beside: str | None, digits: int) -> Iterable[str]:
    """Yields the lines of the table, and below it what the figures are."""
    names, columns = (list(dict.fromkeys(name[at] for name in cells)) for at in (0, 1))
    yield f"| | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for name in names:
        ours = [cells.get((name, column), []) for column in columns]
        theirs = [cells.get((str(beside), column), []) if name != beside else [] for column in columns]
        yield f"| {name} | {' | '.join(map(cell, ours, theirs, [digits] * len(columns)))} |"
    if counts := sorted({len(rows) for rows in cells.values() if "seed" in rows[0]}):
        yield ""
        yield from explained(counts, beside)


def explained(counts: list[int], beside: str | None) -> Iterable[str]:
    """Yields what the figures are, and what they do not know."""
    seeds = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    yield f"Mean ± sample standard deviation over n = {seeds} seeds of fine-tuning," if counts != [1] else "One seed,"
    yield "at the learning rate (batch size, epochs) whose mean is best on the same dev records."
    if beside is not None and counts == [1]:
        yield f"In brackets the difference to {beside}, of which one seed does not tell what it is worth."
    elif beside is not None:
        yield f"In brackets the difference to {beside}; not resolved: within two of its standard errors,"
        yield "sqrt(sd1²/n1 + sd2²/n2). Of models of equal mean and spread 12 differences in 100 are beyond that with"
        yield "three seeds each at one rate, 8 with five (Student's t)."
    yield "Each model was pre-trained from one seed, and the dev records are one sample: how much these matter is not"
    yield "in the figures."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="ROW")
    parser.add_argument("--digits", type=int, default=2)
    parser.add_argument("--average", action="store_true")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    cells = chosen(map(json.loads, sys.stdin))
    if not cells:
        parser.error("no rows")
    if options.beside not in (None, *(name for name, _ in cells)):
        parser.error(f"--beside: there is no row {options.beside}")
    if options.rows:
        lines: Iterable[str] = (json.dumps(row) for rows in cells.values() for row in rows if row["score"] is not None)
    else:
        lines = table(averaged(cells) if options.average else cells, options.beside, options.digits)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
