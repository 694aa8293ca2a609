"""A chart as a picture, by matplotlib: the same bytes for the same chart, whatever the user's own settings are."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcli import publish
from bertcli.errors import CannotCreate, IOFailed, UsageError
from bertcli.plot.chart import Chart, Curve, Panel, numbers, ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

FORMATS: dict[str, dict[str, Any]] = {  # without the time at which it was made
    ".svg": {"metadata": {"Date": None}},
    ".png": {"dpi": 200},
    ".pdf": {"metadata": {"CreationDate": None}},
}
WIDTH, HEIGHT, LINE = 7.0, 2.9, 0.25  # inches: the whole, a panel, a line of the legend
LEGEND, TICKS = 80, 7  # characters on a line of the legend; ticks of an axis, about
# Okabe's and Ito's, whom the colour-blind tell apart, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")
FEW = 40  # points, each of which has its mark and its bar; of more the spread is a shade
SETTINGS: dict[str, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # of which, as of SVG's `none`, the text can be searched
    "svg.fonttype": "none",
    "svg.hashsalt": "bertcli",
    "text.parse_math": False,  # a dollar in a name is a dollar
}


def save(chart: Chart, file: Path) -> None:
    """Write a chart to a file in the format that its suffix, one of `FORMATS`, names: whole or not at all.

    Raises `CannotCreate`, also where there is something else than a file, `IOFailed`, and `UsageError` where matplotlib
    is not installed.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise CannotCreate(f"{file}: no file that a picture could replace")
    with settings():
        drawn = figure(chart)
        try:
            with publish.replacing(file) as temporary:
                drawn.savefig(temporary, format=file.suffix[1:], **FORMATS[file.suffix])
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise CannotCreate(f"{file}: {error.strerror}") from error
        except OSError as error:
            raise IOFailed(f"{file}: {error.strerror or error}") from error


@contextmanager
def settings() -> Iterator[None]:
    """Lets matplotlib be as it comes but for `SETTINGS`. Raises `UsageError` where it is not installed."""
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL)  # it tells of its caches, and of settings that go unused
    os.environ.pop("MPLBACKEND", None)  # of a window, which nothing here opens; one that it does not know is an error
    try:
        import matplotlib
    except ImportError:
        raise UsageError("-o needs the package matplotlib: pip install 'bertcli[plot]'") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        parameters: Any = matplotlib.rcParams  # typed by a list of all their names
        parameters.update(SETTINGS)
        yield


def figure(chart: Chart) -> Figure:
    """Returns a chart as matplotlib's figure, which no display has to show; to be made within `settings`."""
    from matplotlib.figure import Figure

    columns = max(1, min(len(chart.names), LEGEND // (max(map(len, chart.names), default=0) + 8)))
    lines = -(-len(chart.names) // columns)
    drawn = Figure((WIDTH, HEIGHT * len(chart.panels) + LINE * lines), layout="constrained")
    every = drawn.subplots(len(chart.panels), sharex=True, squeeze=False)[:, 0]
    handles = [draw(axes, panel, chart) for axes, panel in zip(every, chart.panels, strict=True)]
    for axes in every:
        set_ticks(axes, chart)
    every[-1].set_xlabel(chart.label)
    drawn.align_ylabels()
    if chart.names:
        drawn.legend(handles[0], chart.names, loc="outside lower center", ncols=columns, frameon=False)
    return drawn


def draw(axes: Axes, panel: Panel, chart: Chart) -> list[Line2D]:
    """Returns the lines of a panel's curves, drawn into its axes."""
    axes.set_xscale("log" if chart.log_x else "linear")
    axes.set_yscale("log" if chart.log_y else "linear")
    axes.set_ylabel(panel.label)
    spread = " ± one standard deviation" if panel.note else ""
    axes.set_title(panel.note + spread, loc="left", fontsize="small", color="0.35")
    return [draw_curve(axes, at, curve) for at, curve in enumerate(panel.curves)]


def draw_curve(axes: Axes, at: int, curve: Curve) -> Line2D:
    """Returns the line of the curve of a number, drawn with its spread."""
    colour, line, has_few = COLOURS[at % len(COLOURS)], LINES[at % len(LINES)], len(curve.x) <= FEW
    (drawn,) = axes.plot(curve.x, curve.y, color=colour, linestyle=line, marker="o" if has_few else "")
    if not has_few:
        low, high = curve.y - curve.spread, curve.y + curve.spread
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.15, linewidth=0)
    elif curve.spread.any():
        axes.errorbar(curve.x, curve.y, curve.spread, fmt="none", ecolor=colour, elinewidth=1, capsize=3)
    return drawn


def set_ticks(axes: Axes, chart: Chart) -> None:
    """Give axes whose limits are known the ticks that a terminal has too."""
    for axis, limits, is_log in (
        (axes.xaxis, axes.get_xlim(), chart.log_x),
        (axes.yaxis, axes.get_ylim(), chart.log_y),
    ):
        at = ticks(*limits, TICKS, is_log=is_log)
        axis.set_ticks(at, numbers(at))
        axis.set_ticks([], minor=True)
