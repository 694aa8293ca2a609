"""Curves: their points are the means of the rows, drawn alike each time, as a picture and as text."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import termios
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result, environment

from bertcli.errors import BadData, CannotCreate, IOFailed, UsageError
from bertcli.lines import Source
from bertcli.plot import picture, terminal
from bertcli.plot.chart import MOST, Chart, chart, number, numbers, ticks
from bertcli.plot.rows import Columns, Plan, read
from bertcli.records import Anything
from bertcli.stream import Reader

Row = dict[str, Any]
NUMBERS = st.floats(allow_nan=False, min_value=-1e99, max_value=1e99)
SVG = "{http://www.w3.org/2000/svg}"


def jsonl(rows: Sequence[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def source(rows: Sequence[Row], name: str = "rows") -> tuple[str, Reader]:
    return name, Reader([Source(io.BytesIO(jsonl(rows)), name)], Anything)


def table(rows: Sequence[Row], plan: Plan = Plan()) -> Columns:  # noqa: B008  # frozen
    return read([source(rows)], plan, is_table=True)


def drawn(rows: Sequence[Row], **plan: Any) -> Chart:
    asked = Plan(**plan)
    return chart([("rows", table(rows, asked))], asked, has_legend=False)


def two_curves(seeds: int = 3) -> Chart:
    steps = (30, 50, 100, 200, 400, 600, 800, 1000)
    plan = Plan(ys=("accuracy", "f1"))
    named = []
    for name, base in (("MLM", 78.0), ("LTR", 79.0)):
        rows = [
            {"step": 1000 * step, "accuracy": base + seed + step**0.3, "f1": base / step}
            for step in steps
            for seed in range(seeds)
        ]
        named.append((name, table(rows, plan)))
    return chart(named, plan)


# -- points ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(-1e6, 1e6)), min_size=1, max_size=60))
def test_a_point_is_the_mean_of_the_rows_of_one_x_with_their_deviation(pairs: list[tuple[int, float]]) -> None:
    (panel,) = drawn([{"step": x, "loss": y} for x, y in pairs]).panels
    (curve,) = panel.curves
    groups = {x: [y for each, y in pairs if each == x] for x in sorted({x for x, _ in pairs})}
    assert curve.x.tolist() == list(groups)
    assert curve.y == pytest.approx([statistics.fmean(ys) for ys in groups.values()], abs=1e-6)
    deviations = [statistics.stdev(ys) if len(ys) > 1 else 0 for ys in groups.values()]
    assert curve.spread == pytest.approx(deviations, abs=1e-6)
    assert panel.note == ("mean" if len(pairs) > len(groups) else "")


@given(st.integers(1, 3000), st.sampled_from([1, 7, 100]), st.booleans())
@settings(max_examples=40)
def test_what_is_smoothed_keeps_its_sum_and_says_so(count: int, every: int, is_log: bool) -> None:
    xs = np.arange(1, count + 1) * every
    ys = np.sin(xs)
    plan = Plan(log_x=is_log)
    (panel,) = chart([("a", {"loss": (xs.astype(float), ys)})], plan).panels
    (curve,) = panel.curves
    assert len(curve.x) <= MOST + 1
    assert (np.diff(curve.x) > 0).all()
    assert (curve.x[0], curve.x[-1]) == pytest.approx((xs[0], xs[-1]), rel=0.1) or count > MOST
    if count <= MOST:
        assert (panel.note, curve.y.tolist()) == ("", ys.tolist())
    elif not is_log:
        (width,) = re.fullmatch(r"mean over ([\d,]+) steps", panel.note).groups()  # type: ignore[union-attr]
        stretches = np.arange(count) * every // int(width.replace(",", ""))
        for point in range(len(curve.x) - 2):  # the last may be longer
            assert curve.y[point] == pytest.approx(ys[stretches == point].mean())
    else:
        assert re.fullmatch(r"mean over 0\.\d+ decades of step", panel.note)


def test_a_width_that_is_asked_for_is_that_of_all_curves() -> None:
    rows = [{"step": step, "loss": step % 10} for step in range(1, 101)]
    (panel,) = drawn(rows, smooth=10).panels
    assert panel.note == "mean over 10 steps"
    assert panel.curves[0].x.tolist() == [10 * n + 5.5 for n in range(10)]
    assert set(panel.curves[0].y.tolist()) == {4.5}
    (panel,) = drawn(rows * 2, smooth=1).panels
    assert (panel.note, len(panel.curves[0].x)) == ("mean", 100)
    (panel,) = drawn([{"step": step, "loss": 1} for step in range(1000)], smooth=0).panels
    assert (panel.note, len(panel.curves[0].x)) == ("", 1000)


def test_a_few_rows_at_the_end_make_no_point_of_their_own() -> None:
    rows = [{"step": step, "loss": 1 if step < 1001 else 100} for step in range(1, 1002)]
    (curve,) = drawn(rows, smooth=100).panels[0].curves
    assert len(curve.x) == 10
    assert curve.y[-1] == pytest.approx((100 + 100) / 101)


# -- rows -----------------------------------------------------------------------------------------------------------

LOG = [{"step": step, "loss": 9 / step, "mlm_loss": 8 / step, "tokens": 100 * step} for step in range(1, 6)]
SCORES = [{"step": 2, "mlm_loss": 7, "perplexity": 90}, {"step": 4, "mlm_loss": 6, "perplexity": 80, "total": 3}]


def run(plan: Plan) -> Columns:
    return read([source(LOG, "log.jsonl"), source(SCORES, "scores.jsonl")], plan, is_table=False)


def test_a_key_of_a_run_is_the_logs_and_else_its_dev_scores() -> None:
    columns = run(Plan(ys=("mlm_loss", "perplexity")))
    assert columns["mlm_loss"][1].tolist() == [8 / step for step in range(1, 6)]
    assert [column.tolist() for column in columns["perplexity"]] == [[2, 4], [90, 80]]


def test_scores_are_not_asked_for_what_the_log_has() -> None:
    def sources() -> Any:
        yield source(LOG)
        raise AssertionError("asked for")

    assert read(sources(), Plan(), is_table=False).keys() == {"loss"}


def test_tokens_of_a_run_are_all_until_then_and_of_a_table_as_they_stand() -> None:
    assert run(Plan(x="tokens"))["loss"][0].tolist() == [100, 300, 600, 1000, 1500]
    assert run(Plan(ys=["tokens"]))["tokens"][1].tolist() == [100, 200, 300, 400, 500]
    assert table(LOG, Plan(x="tokens"))["loss"][0].tolist() == [100, 200, 300, 400, 500]
    some = [row if row["step"] % 2 else {"step": row["step"], "tokens": row["tokens"]} for row in LOG]
    assert read([source(some)], Plan(x="tokens"), is_table=False)["loss"][0].tolist() == [100, 600, 1500]


@pytest.mark.parametrize(
    ("row", "plan", "said"),
    [
        ({"step": 2}, {}, r"rows:2: field 'loss': found nothing, expected a number; the row's keys are step"),
        ({"loss": 2}, {}, "rows:2: field 'step': found nothing"),
        ({"step": 2, "loss": "2"}, {}, "rows:2: field 'loss': found '2', expected a number"),
        ({"step": 2, "loss": True}, {}, "rows:2: field 'loss': found true"),
        ({"step": 2, "loss": 10**400}, {}, r"rows:2: field 'loss': found 10+…, expected a number between"),
        ({"step": 2, "loss": -1e300}, {}, "rows:2: field 'loss': found .*, expected a number between"),
        ({"step": 0, "loss": 2}, {"log_x": True}, "rows:2: field 'step': found 0, expected a number above 0"),
        ({"step": 2, "loss": -1}, {"log_y": True}, "rows:2: field 'loss': found -1, expected a number above 0"),
    ],
)
def test_a_row_that_cannot_be_drawn(row: Row, plan: dict[str, bool], said: str) -> None:
    with pytest.raises(BadData, match=f"^{said}"):
        table([{"step": 1, "loss": 1}, row], Plan(**plan))


# -- ticks ----------------------------------------------------------------------------------------------------------


@given(NUMBERS, NUMBERS, st.integers(2, 12))
def test_ticks_are_round_and_within(one: float, other: float, most: int) -> None:
    low, high = min(one, other), max(one, other)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high, most, is_log=False)
    assert 2 <= len(found) <= most + 3
    slack = 1e-9 * max(abs(low), abs(high))
    assert all(low - slack <= each <= high + slack for each in found)
    assert len(set(numbers(found))) == len(found)


@given(st.floats(-99, 99), st.floats(0.01, 50), st.integers(2, 12))
def test_ticks_of_a_logarithmic_scale(low: float, more: float, most: int) -> None:
    found = ticks(10**low, 10 ** min(low + more, 99.5), most, is_log=True)
    assert 2 <= len(found) <= 2 * most + 3
    assert found == sorted(found)
    assert 10**low * 0.999 <= found[0]
    assert found[-1] <= 10 ** (low + more) * 1.001


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.05, "0.05"), (2e-5, "2e-5"), (999, "999"), (200_000.0, "200k"), (1.5e6, "1.5M"), (-2e9, "-2G")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_numbers_that_differ_late_have_more_digits() -> None:
    assert numbers([1e5, 100_000.1, 100_000.2]) == ["100k", "100.0001k", "100.0002k"]


# -- pictures -------------------------------------------------------------------------------------------------------


def test_a_picture_has_the_points_the_bars_and_the_names() -> None:
    shown = two_curves()
    with picture.settings():
        made = picture.figure(shown)
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["MLM", "LTR"]
    for panel, axes in zip(shown.panels, made.axes, strict=True):
        assert axes.get_ylabel() == panel.label
        lines = [line for line in axes.lines if line.get_linestyle() != "None"]
        assert len({line.get_color() for line in lines}) == len({line.get_linestyle() for line in lines}) == 2
        for line, curve in zip(lines, panel.curves, strict=True):
            assert np.array_equal(line.get_xydata(), np.stack([curve.x, curve.y], axis=1))
    bars = [each.get_segments() for each in made.axes[0].collections]
    for segments, curve in zip(bars, shown.panels[0].curves, strict=True):
        assert np.allclose([end[1] - begin[1] for begin, end in segments], 2 * curve.spread)


def test_a_legend_covers_no_curve_and_nothing_stands_on_another(tmp_path: Path) -> None:
    with picture.settings():
        made = picture.figure(two_curves())
        made.savefig(tmp_path / "a.png")
        boxes = [axes.get_tightbbox() for axes in made.axes]
        boxes += [made.legends[0].get_window_extent()]
    upper = [box for number, box in enumerate(boxes) for other in boxes[:number] if box.overlaps(other)]
    assert upper == []
    assert all(made.bbox.x0 <= box.x0 and box.x1 <= made.bbox.x1 for box in boxes)


def test_svg_has_the_points_where_they_belong(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"step": step, "loss": step**2} for step in range(1, 8)]))
    assert bertcli("plot", "$a_b & <c>=a.jsonl", "-o", "a.svg").status == 0
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"step", "loss", "$a_b & <c>", "1", "7", "40"} <= set(texts)
    (path,) = {each.get("d") for each in root.iter(f"{SVG}path") if "stroke: #0072b2" in each.get("style", "")} - {
        each.get("d") for each in root.iter(f"{SVG}path") if "clip-path" not in each.attrib
    }
    points = np.array(re.findall(r"[ML] (\S+) (\S+)", path or ""), float)
    assert len(points) == 7
    x, y = points.T
    assert np.allclose(np.diff(x), np.diff(x)[0])
    assert np.allclose((y - y[0]) / (y[-1] - y[0]), (np.arange(1, 8) ** 2 - 1) / 48, atol=1e-6)


@pytest.mark.parametrize("suffix", picture.FORMATS)
def test_one_input_gives_the_same_bytes_whoever_draws(
    bertcli: Callable[..., Result], tmp_path: Path, suffix: str
) -> None:
    rows = [{"step": step, "loss": 1 / (step + seed)} for step in range(1, 30) for seed in range(3)]
    (tmp_path / "a.jsonl").write_bytes(jsonl(rows))
    line = ["plot", "a.jsonl", "-o"]
    assert bertcli(*line, f"one{suffix}").status == 0
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nbackend: tkagg\nno.such: setting\n")
    variables = environment() | {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "7", "MPLBACKEND": "none"}
    command = [sys.executable, "-m", "bertcli", *line, f"other{suffix}"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"other{suffix}").read_bytes()


def test_a_picture_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.svg"
    picture.save(two_curves(), file)
    before = file.read_bytes()

    def fail(_: Any, path: Path, **__: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(IOFailed, match=r"a\.svg: No space left on device"):
        picture.save(two_curves(), file)
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    assert file.read_bytes() == before


def test_a_picture_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.svg").mkdir()
    for name in ("nowhere/a.svg", "b.svg"):
        with pytest.raises(CannotCreate, match=f"{name}: "):
            picture.save(two_curves(), tmp_path / name)
    os.mkfifo(tmp_path / "c.svg")
    with pytest.raises(CannotCreate, match=r"c\.svg: no file that a picture could replace"):
        picture.save(two_curves(), tmp_path / "c.svg")
    assert (tmp_path / "c.svg").is_fifo()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'bertcli\[plot\]'") as missing:
        picture.save(two_curves(), tmp_path / "a.svg")
    assert missing.value.status == 2


# -- text -----------------------------------------------------------------------------------------------------------


def test_text_has_the_names_the_axes_and_each_curve() -> None:
    lines = terminal.drawn(two_curves(), 80).splitlines()
    assert lines[:2] == ["o MLM", "x LTR"]
    assert [line for line in lines if line.startswith(("accuracy", "f1"))] == ["accuracy · mean", "f1 · mean"]
    assert [line.split() for line in lines if "200k" in line] == [["200k", "400k", "600k", "800k", "1M"]] * 2
    assert lines[-1].strip() == "step"
    assert max(map(len, lines)) <= 80
    upper = lines[lines.index("accuracy · mean") + 1 :][: terminal.LINES]
    assert {"84", "86"} <= {line.partition(" ┤")[0] for line in upper}
    assert sum(line.count("o") + line.count("x") for line in upper) >= 14  # of 16, where one is on another


def test_a_curve_goes_where_its_numbers_go() -> None:
    text = terminal.drawn(drawn([{"step": step, "loss": step} for step in range(1, 101)]), 60)
    lines = [re.split("[│┤]", line)[-1] for line in text.splitlines()[1 : 1 + terminal.LINES]]
    columns = [[at for at, sign in enumerate(line) if sign != " "] for line in lines]
    flat = [at for line in reversed(columns) for at in line]
    assert flat == sorted(flat)
    assert set(flat) == set(range(len(lines[0])))


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 1e-300, 1e-3, 5, 1e300]),
    st.integers(1, 120),
)
@pytest.mark.filterwarnings("error")
def test_whatever_the_numbers_a_page_is_drawn(
    pairs: list[tuple[float, float]], log_x: bool, log_y: bool, smooth: float | None, width: int
) -> None:
    rows = [
        {"step": abs(x) + 1e-9 if log_x else x, "loss": abs(y) + 1e-9 if log_y else y, "\x1b[2J": 1} for x, y in pairs
    ]
    text = terminal.drawn(drawn(rows, smooth=smooth, log_x=log_x, log_y=log_y), width)
    assert all(len(line) <= max(width, terminal.NARROWEST) for line in text.splitlines())
    assert "\x1b" not in text


@given(st.floats(1e-9, 1e99), st.integers(0, 9), st.booleans())
@pytest.mark.filterwarnings("error")
def test_numbers_that_hardly_differ_are_drawn(least: float, more: int, is_log: bool) -> None:
    rows = [{"step": each, "loss": each} for each in (least, least * (1 + more * 2.0**-52))]
    assert "o" in terminal.drawn(drawn(rows, log_x=is_log, log_y=is_log), 80)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), st.booleans())
@settings(max_examples=10)
@pytest.mark.filterwarnings("error")
def test_whatever_the_numbers_a_picture_is_drawn(pairs: list[tuple[float, float]], is_log: bool) -> None:
    rows = [{"step": abs(x) + 1e-9 if is_log else x, "loss": abs(y) + 1e-9 if is_log else y} for x, y in pairs]
    with picture.settings():
        picture.figure(drawn(rows, log_x=is_log, log_y=is_log)).savefig(io.BytesIO(), format="svg")


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Returns a folder with a run and with tables of two seeds."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "log.jsonl").write_bytes(jsonl(LOG))
    (tmp_path / "model" / "scores.jsonl").write_bytes(jsonl(SCORES))
    for seed in (0, 1):
        (tmp_path / f"seed={seed}.jsonl").write_bytes(jsonl([{"step": n, "f1": n + seed} for n in (1, 2, 3)]))
    return tmp_path


def test_paths_of_one_name_are_one_curve(bertcli: Callable[..., Result], home: Path) -> None:
    (home / "both.jsonl").write_bytes((home / "seed=0.jsonl").read_bytes() + (home / "seed=1.jsonl").read_bytes())
    apart = bertcli("plot", "--y", "f1", "a=seed=0.jsonl", "a=seed=1.jsonl")
    assert apart == bertcli("plot", "--y", "f1", "a=both.jsonl")
    assert apart.out.decode().startswith("o a\n\nf1 · mean\n")


def test_a_curve_without_a_name_has_its_paths(bertcli: Callable[..., Result], home: Path) -> None:
    (home / "other").mkdir()
    (home / "other" / "model").symlink_to(home / "model")
    for paths, names in (
        (["seed=0.jsonl", "seed=1.jsonl"], ["o seed=0.jsonl", "x seed=1.jsonl"]),
        (["model", "other/model/"], ["o model", "x other/model/"]),
        (["model/", "LTR=other/model"], ["o model/", "x LTR"]),
        (["-", "é=seed=0.jsonl"], ["o -", "x é"]),
    ):
        y = "loss" if "model" in paths[0] else "f1"
        shown = bertcli("plot", *paths, "--y", y, stdin=(home / "seed=1.jsonl").read_bytes())
        assert shown.out.decode().splitlines()[:2] == names, shown.err


def test_a_single_curve_needs_no_name(bertcli: Callable[..., Result], home: Path) -> None:
    assert bertcli("plot", "model").out.decode().startswith("loss\n")


def test_a_key_that_no_row_has_is_told_with_those_that_there_are(bertcli: Callable[..., Result], home: Path) -> None:
    for line, said in (
        (["model", "--y", "loss,f1"], "no row has 'step' and 'f1'; there are loss, mlm_loss, perplexity, step, "),
        (["model", "--y", "perplexity", "--x", "tokens"], "no row has 'tokens' and 'perplexity'; there are loss, "),
    ):
        result = bertcli("plot", *line)
        assert (result.status, result.out) == (65, b"")
        assert result.err.startswith(f"bertcli plot: model/log.jsonl and model/scores.jsonl: {said}")
    (home / "model" / "log.jsonl").write_bytes(b"")
    (home / "model" / "scores.jsonl").unlink()
    result = bertcli("plot", "model")
    assert (result.status, result.err) == (65, "bertcli plot: model/log.jsonl: no rows\n")


def test_a_row_of_a_run_that_is_being_written_can_be_skipped(bertcli: Callable[..., Result], home: Path) -> None:
    whole = bertcli("plot", "model").out
    with (home / "model" / "log.jsonl").open("ab") as log:
        log.write(b'{"step": 6, "lo')
    assert bertcli("plot", "model").err.startswith("bertcli plot: model/log.jsonl:6: ")
    skipped = bertcli("plot", "model", "--on-error", "skip")
    assert (skipped.status, skipped.out) == (0, whole)
    assert "bad lines skipped: 1" in skipped.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "a.jpg"], "'a.jpg' does not end with one of .svg, .png, .pdf"),
        (["-o", "svg"], "'svg' does not end with one of"),
        (["--smooth", "-1"], "'--smooth'"),
        (["--smooth", "nan"], "'--smooth'"),
        (["--y", "loss,loss"], "has a value twice"),
    ],
)
def test_what_cannot_be_meant(bertcli: Callable[..., Result], home: Path, options: list[str], said: str) -> None:
    result = bertcli("plot", "model", *options)
    assert (result.status, result.out) == (2, b"")
    assert said in result.err


def test_a_terminal_is_filled(home: Path) -> None:
    outer, inner = pty.openpty()
    termios.tcsetwinsize(inner, (24, 101))
    line = [sys.executable, "-m", "bertcli", "plot", "a=model", "b=model"]
    variables = {name: value for name, value in environment().items() if name != "COLUMNS"}
    with subprocess.Popen(line, stdout=inner, cwd=home, env=variables) as process:
        os.close(inner)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(outer, 65536):
                shown += data
    os.close(outer)
    assert process.returncode == 0
    assert max(map(len, shown.decode().splitlines())) == 101
