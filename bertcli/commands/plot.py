"""`plot`: curves of training logs, dev scores and tables, as a picture or in the terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import options
from bertcli.commands.streams import Streams, readable

if TYPE_CHECKING:
    from bertcli.plot.rows import Columns, Plan
    from bertcli.stream import Reader

USUAL = (80, 24)  # columns and lines, where no terminal says how many it has


def known_format(_: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Returns the file of a picture; raises click's error for a suffix that names no format."""
    if value:
        from bertcli.plot.picture import FORMATS

        if value.suffix not in FORMATS:
            raise click.BadParameter(f"{str(value)!r} does not end with one of {', '.join(FORMATS)}")
    return value


@options.command(
    "plot",
    kind=options.Kind.DRAWS,
    reads=(
        "Model folders, of which the log of their training (log.jsonl) and the dev scores (scores.jsonl), and tables: "
        'rows such as {"step", "accuracy"}, each with the keys that --x and --y name. Each is a curve; NAME= names it.'
    ),
    writes="A picture (SVG, PNG or PDF) with -o; else the curves as text on stdout, as wide as the terminal.",
    examples=[
        ("bertcli plot mlm.jsonl --y accuracy", "A table's curve in the terminal."),
        ("bertcli plot model -o loss.svg", "The loss of a training, from its log, as a picture."),
        ("bertcli plot model --y mlm_loss,nsp_loss,lr --smooth 0", "One panel below the other, every step by itself."),
        (
            "bertcli plot MLM=mlm.jsonl LTR=ltr.jsonl --y accuracy -o figure5.svg",
            "Figure 5 of the paper: two curves, with the mean and the spread of several seeds at each step.",
        ),
        ("grep '\"seed\": 1' mlm.jsonl | bertcli plot --y accuracy", "Some rows of a table."),
    ],
)
@click.argument("curves", nargs=-1, metavar="[[NAME=]PATH]...", type=click.Path(allow_dash=True))
@click.option("--x", metavar="KEY", default="step", show_default=True, help="What goes from left to right.")
@click.option(
    "--y",
    "ys",
    metavar="KEY[,...]",
    type=options.Several(click.STRING),
    default="loss",
    show_default=True,
    help="What goes up: a panel each, one below the other.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=known_format,
    help="The picture, whose suffix is its format: .svg, .png or .pdf. It needs pip install 'bertcli[plot]'.",
)
@click.option(
    "--smooth",
    type=options.Number(0),
    metavar="WIDTH",
    help="Average the rows of so wide a stretch of x, in its units; 0 averages those of one x alone.  [default: 0 up "
    "to 200 values of x, else what leaves at most 200 points]",
)
@click.option("--log-x", is_flag=True, help="A logarithmic scale from left to right.")
@click.option("--log-y", is_flag=True, help="A logarithmic scale upwards.")
@options.on_error
def command(curves: Sequence[str], output: Path | None, on_error: str, **plan: Any) -> None:
    """Draw the curves of training logs, dev scores and tables.

    PATH is a model folder or a file of JSON Lines, a table. Of a folder a key is taken from log.jsonl, which has a row
    a step, and from scores.jsonl, the dev scores, where the log has no such key; rows that lack a key are left out. To
    draw the dev scores of a key that both have, name the file scores.jsonl itself. `--x tokens` of a folder are all
    tokens up to a step. Each row of a table must have all keys.

    A curve is called by its NAME, or by its PATH. What is given under one NAME is one curve: runs of several seeds,
    say. Rows of the same x, in one file or in several, are drawn as their mean; a picture has one standard deviation as
    bars, or as a shade around more than 40 points. Of a long log the rows of a stretch of steps are averaged likewise,
    and the drawing says over how many; see `--smooth`.
    """
    from bertcli.plot import picture, terminal
    from bertcli.plot.chart import chart
    from bertcli.plot.rows import Plan

    inputs, asked = Inputs(curves or ["-"], on_error), Plan(**plan)
    drawn = chart(list(inputs.rows(asked)), asked, has_legend=inputs.have_names)
    inputs.streams.report_skipped()
    if output:
        picture.save(drawn, output)
    else:
        inputs.streams.write_plain(terminal.drawn(drawn, shutil.get_terminal_size(USUAL).columns).encode())


class Inputs:
    """The curves of a command line, their names, and the rows that are read for them."""

    def __init__(self, curves: Sequence[str], on_error: str) -> None:
        """Take the arguments; raises `NoInput`, or `UsageError` where two are stdin, before anything is read."""
        self._curves = list(map(parts_of, curves))
        self.have_names = len(curves) > 1 or self._curves[0][0] != readable(curves[0])
        self._given: dict[str, Any] = {"plain": True, "quiet": False, "on_error": on_error, "text": False}
        self.streams = Streams(tuple(files_of(path)[0] for _, path in self._curves), **self._given)
        self.streams.sources()

    def rows(self, plan: Plan) -> Iterator[tuple[str, Columns]]:
        """Yields each curve's name and rows; raises what `rows.read` does."""
        from bertcli.plot.rows import read

        for name, path in self._curves:
            sources = ((readable(file), self._reader(file)) for file in files_of(path))
            yield name, read(sources, plan, is_table=not os.path.isdir(path))

    def _reader(self, file: str) -> Reader:
        from bertcli.records import Anything

        streams = Streams((file,), **self._given)
        streams.skipped = self.streams.skipped
        return streams.reader(Anything)


def parts_of(curve: str) -> tuple[str, str]:
    """Returns the two of `NAME=PATH`, and the whole twice where it has no name, or is the path of what is there."""
    name, _, path = curve.partition("=")
    has_name = name and path and not os.path.exists(curve)
    return readable(name if has_name else curve), path if has_name else curve


def files_of(path: str) -> list[str]:
    """Returns the files that a curve's rows are in: of a model folder the log, and the dev scores if there are any."""
    if not os.path.isdir(path):
        return [path]
    log, scores = (os.path.join(path, name) for name in ("log.jsonl", "scores.jsonl"))
    return [log, scores] if os.path.exists(scores) else [log]
