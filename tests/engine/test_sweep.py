"""Several runs in one process: the grid and its table, the best that is kept, failures, early stops."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from typing import Any

import models
import pytest
import toys
import warm
from program import Result
from sweeps import COUNT, FINETUNE, SEED, STEPS, Home, notes, rows

RESTARTS = 2
GRID = {"lr": (5e-3, 1e-3), "batch_size": (16, 8), "epochs": (2, 0.5)}
CELLS = list(itertools.product(*GRID.values()))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, program: warm.Program) -> Home:
    return Home(tmp_path_factory.mktemp("home"), program)


@pytest.fixture(scope="module")
def grid(home: Home) -> Result:
    """Returns how a grid of two values for each setting ended; its folder is `grid`."""
    lr, batch_size, epochs = (",".join(map(str, values)) for values in GRID.values())
    cells = ["--lr", lr, "--batch-size", batch_size, "--epochs", epochs]
    result = home.finetune("grid", *cells, "--restarts", RESTARTS)
    assert result.status == 0, result.err
    return result


def kept_of(result: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of the best run, the first of equals: sound ones before those that failed."""
    scored = [row for row in result["runs"] if row["value"] is not None]
    return dict(max(scored, key=lambda row: (not row["failed"], row["value"])))


# -- the grid -------------------------------------------------------------------------------------------------------


def test_a_grid_is_each_combination_begun_from_each_seed(grid: Result, home: Home) -> None:
    (result,) = grid.records
    runs = result["runs"]
    assert [(row["lr"], row["batch_size"], row["epochs"]) for row in runs[::RESTARTS]] == CELLS
    assert [row["seed"] for row in runs] == [SEED, SEED + 1] * len(CELLS)
    assert [row["run"] for row in runs] == list(range(1, 17))
    assert [row["step"] for row in runs] == [math.ceil(COUNT * row["epochs"] / row["batch_size"]) for row in runs]
    assert {row["metric"] for row in runs} == {"accuracy"}
    assert all(row["value"] == row["dev"]["accuracy"] for row in runs)
    assert {row["failed"] for row in runs} == {True, False}  # the shortest have learned nothing


def test_the_table_is_the_same_on_stdout_in_the_notes_and_on_stderr(grid: Result, home: Home) -> None:
    (result,) = grid.records
    table = ("kept", "runs", "cells")
    assert {name: notes(home.path / "grid")[name] for name in table} == {name: result[name] for name in table}
    lines = grid.err.splitlines()
    header = next(at for at, line in enumerate(lines) if line.split()[:2] == ["run", "lr"])
    assert lines[header].split() == ["run", "lr", "batch", "epochs", "seed", "step", "accuracy"]
    for line, row in zip(lines[header + 1 : header + 17], result["runs"], strict=True):
        words = line.split()
        expected = [row[name] for name in ("run", "lr", "batch_size", "epochs", "seed", "step", "value")]
        assert [float(word) for word in words[:7]] == pytest.approx(expected, abs=5e-5)
        assert words[7:] == ["failed"] * row["failed"] + ["kept"] * (row["run"] == result["kept"])
    for line, cell in zip(lines[header + 17 :], result["cells"], strict=True):
        found = re.fullmatch(r"lr (\S+), batch (\d+), epochs (\S+): (.+) of (\d+) runs?, (\d+) failed", line)
        assert found, line
        named = [cell[name] for name in ("lr", "batch_size", "epochs", "count", "failed")]
        assert [float(found[at]) for at in (1, 2, 3, 5, 6)] == named
        mean = "no mean" if cell["mean"] is None else f"mean {cell['mean']:.4f}"
        assert found[4] == mean + ("" if cell["sd"] is None else f", sd {cell['sd']:.4f}")


def test_a_cell_has_the_mean_and_the_deviation_of_its_sound_runs(grid: Result) -> None:
    (result,) = grid.records
    assert [(cell["lr"], cell["batch_size"], cell["epochs"]) for cell in result["cells"]] == CELLS
    for number, cell in enumerate(result["cells"]):
        own = result["runs"][RESTARTS * number : RESTARTS * (number + 1)]
        values = [row["value"] for row in own if not row["failed"]]
        assert (cell["count"], cell["failed"]) == (len(values), RESTARTS - len(values))
        assert cell["mean"] == (pytest.approx(sum(values) / len(values)) if values else None)
        assert cell["sd"] == (pytest.approx(statistics.stdev(values)) if len(values) > 1 else None)
    assert any(cell["sd"] for cell in result["cells"])


def test_the_best_on_dev_is_kept(grid: Result, home: Home) -> None:
    (result,) = grid.records
    kept, own = kept_of(result), notes(home.path / "grid")
    assert result["kept"] == kept["run"]
    assert result["dev"] == own["dev"] == kept["dev"] == home.rescored("grid")
    assert result["step"] == own["step"] == kept["step"]
    assert [own["settings"][name] for name in (*GRID, "seed")] == [kept[name] for name in (*GRID, "seed")]
    assert not (home.path / "grid" / "checkpoint").exists()


def test_each_run_has_a_log_and_that_of_the_kept_one_is_the_folders(grid: Result, home: Home) -> None:
    (result,) = grid.records
    logs = home.path / "grid" / "runs"
    assert sorted(path.name for path in logs.iterdir()) == sorted(f"{number}.jsonl" for number in range(1, 17))
    for row in result["runs"]:
        assert [each["step"] for each in rows(logs / f"{row['run']}.jsonl")] == list(range(1, row["step"] + 1))
    kept = logs / f"{kept_of(result)['run']}.jsonl"
    assert (home.path / "grid" / "log.jsonl").read_bytes() == kept.read_bytes()


@pytest.mark.parametrize("number", ["kept", 2, 12])
def test_a_run_of_a_grid_is_the_single_run_bit_for_bit(grid: Result, home: Home, number: int | str) -> None:
    (result,) = grid.records
    row = kept_of(result) if number == "kept" else result["runs"][int(number) - 1]
    cell = ["--lr", row["lr"], "--batch-size", row["batch_size"], "--epochs", row["epochs"], "--seed", row["seed"]]
    alone = home.finetune(f"alone-{number}", *cell)
    assert alone.records[0]["dev"] == row["dev"]
    assert "runs" not in alone.records[0]
    log = home.path / "grid" / "runs" / f"{row['run']}.jsonl"
    assert rows(home.path / f"alone-{number}" / "log.jsonl") == rows(log)
    if number == "kept":
        swept, single = ((home.path / name / "model.safetensors").read_bytes() for name in ("grid", "alone-kept"))
        assert swept == single


@pytest.mark.parametrize("task", toys.TASKS)
def test_runs_of_each_task_know_nothing_of_each_other(home: Home, task: str) -> None:
    """Nor what a task has fitted to the answers of another run, as span its threshold."""
    for name, count, seed in (("train", 48, 0), ("dev", 24, 1)):
        (home.path / f"{task}-{name}.jsonl").write_bytes(models.lines(toys.records(task, count, seed)))
    line = ["finetune", task, f"{task}-train.jsonl", *FINETUNE, "--dev", f"{task}-dev.jsonl", "--epochs", "1.5"]
    swept = home.program.run([*line, "-o", f"{task}-swept", "--restarts", "2", "--max-length", "32"], home.path)
    assert swept.status == 0, swept.err
    (table,) = swept.records
    for row in table["runs"]:
        out = f"{task}-{row['seed']}"
        single = home.program.run([*line, "-o", out, "--seed", str(row["seed"]), "--max-length", "32"], home.path)
        assert single.records[0]["dev"] == row["dev"]
        if row["run"] == table["kept"]:
            ours, its = home.path / f"{task}-swept", home.path / out
            told = notes(ours)
            assert {name: told[name] for name in notes(its)} == notes(its) | {"command": told["command"]}
            assert (ours / "model.safetensors").read_bytes() == (its / "model.safetensors").read_bytes()


def test_records_are_read_once_by_a_pipe(home: Home) -> None:
    file = home.finetune("file", "--restarts", 3, "--epochs", 1)
    pipe = home.finetune("pipe", "--restarts", 3, "--epochs", 1, stdin=(home.path / "train.jsonl").read_bytes())
    assert pipe.status == 0, pipe.err
    assert pipe.records[0]["runs"] == file.records[0]["runs"]
    assert pipe.err.count(f"{COUNT} records") == 1
    file_weights, pipe_weights = ((home.path / name / "model.safetensors").read_bytes() for name in ("file", "pipe"))
    assert file_weights == pipe_weights


@pytest.mark.parametrize("metric", ["spearman", "mse"])
def test_the_metric_says_what_is_best(home: Home, metric: str) -> None:
    """Of errors the smallest is."""
    for name, seed in (("numbers", 0), ("numbers-dev", 1)):
        (home.path / f"{name}.jsonl").write_bytes(models.lines(toys.records("regression", 64, seed)))
    line = ["finetune", "regression", "numbers.jsonl", "-o", metric, *FINETUNE]
    options = ["--dev", "numbers-dev.jsonl", "--lr", "1e-4,1e-2,1e-3", "--metric", metric]
    result = home.program.run([*line, *options], home.path)
    assert result.status == 0, result.err
    (table,) = result.records
    values = [row["value"] for row in table["runs"]]
    assert [row["dev"][metric] for row in table["runs"]] == values
    best = (min if metric == "mse" else max)(values)
    assert table["dev"][metric] == best
    assert notes(home.path / metric)["dev"] == table["dev"]
    assert table["runs"][table["kept"] - 1]["value"] == best
    (kept,) = [line for line in result.err.splitlines() if line.endswith("kept")]
    assert float(kept.split()[6]) == pytest.approx(best, abs=5e-5)


# -- failures -------------------------------------------------------------------------------------------------------


def test_a_run_with_one_answer_for_all_has_failed(home: Home) -> None:
    result = home.finetune("constant", "--lr", "1e-12,5e-3")
    (table,) = result.records
    assert [row["failed"] for row in table["runs"]] == [True, False]
    labels = table["runs"][0]["dev"]["labels"]
    assert sorted(label["predicted"] for label in labels.values()) == [0, 60]
    assert [(cell["mean"], cell["count"], cell["failed"]) for cell in table["cells"]] == [
        (None, 0, 1),
        (table["runs"][1]["value"], 1, 0),
    ]
    assert "run 1 has failed: all dev records get the same answer" in result.err
    assert re.search(r"^ +1 .* failed$", result.err, re.MULTILINE)
    assert table["dev"] == home.rescored("constant") == table["runs"][1]["dev"]


def test_a_failed_run_is_kept_only_where_all_have(home: Home) -> None:
    result = home.finetune("failed", "--lr", "1e-12,2e-12,1e30")
    assert result.status == 0, result.err
    (table,) = result.records
    assert [row["failed"] for row in table["runs"]] == [True] * 3
    assert [cell["mean"] for cell in table["cells"]] == [None] * 3
    kept = kept_of(table)
    assert kept["value"] == max(row["value"] for row in table["runs"][:2])
    assert table["dev"] == kept["dev"] == home.rescored("failed")


def test_a_failed_run_with_the_better_score_is_not_kept(home: Home) -> None:
    """Where dev has the labels turned round, who learns nothing is ahead."""
    turn = dict(zip(models.COLOURS, reversed(models.COLOURS), strict=True))
    records = toys.records("classification", 60, seed=1)
    (home.path / "turned.jsonl").write_bytes(models.lines([each | {"label": turn[each["label"]]} for each in records]))
    result = home.finetune("turned", "--lr", "5e-3,1e-12", "--dev", "turned.jsonl")
    (table,) = result.records
    sound, failed = table["runs"]
    assert (sound["failed"], failed["failed"]) == (False, True)
    assert failed["value"] > sound["value"]
    assert table["dev"] == notes(home.path / "turned")["dev"] == sound["dev"]


@pytest.mark.parametrize("options", [[], ["--epochs", 5], ["--batch-size", COUNT, "--epochs", 1]])
def test_a_run_that_diverges_has_failed_and_the_others_go_on(home: Home, options: list[object]) -> None:
    """Whether it is seen by the loss, or first by the answers to dev, as with one step."""
    name = f"diverged-{len(options)}"
    result = home.finetune(name, "--lr", "1e30,5e-3", *options)
    assert result.status == 0, result.err
    (table,) = result.records
    first, second = table["runs"]
    assert (first["failed"], first["value"], first["dev"]) == (True, None, {})
    assert second["value"] is not None
    assert table["dev"] == second["dev"]
    assert "run 1 has failed: " in result.err
    assert re.search(r"^ +1 .* the loss is no finite number  failed$", result.err, re.MULTILINE)
    alone = home.finetune(f"{name}-alone", "--lr", 1e30, *options)
    assert (alone.status, alone.out) == (1, b"")
    assert "try a lower --lr" in alone.err


def test_where_all_runs_diverge_there_is_no_model(home: Home) -> None:
    result = home.finetune("none", "--lr", "1e30,1e31")
    assert (result.status, result.out) == (1, b"")
    assert "the loss of every run is no finite number; try a lower --lr" in result.err
    assert not (home.path / "none" / "config.json").exists()


# -- early stops ----------------------------------------------------------------------------------------------------


def scored_epochs(err: str) -> list[tuple[int, float]]:
    """Returns what was said of dev after each epoch: the step, and the accuracy."""
    return [(int(step), float(value)) for step, value in re.findall(r"^step (\d+): dev accuracy ([\d.]+)", err, re.M)]


def test_an_early_stop_keeps_the_best_epoch(home: Home) -> None:
    ends = [STEPS * epoch for epoch in range(1, 13)]
    saved = ["--save-at", ",".join(map(str, ends)), "--save-every", 4]
    result = home.finetune("early", "--early-stop", 2, "--epochs", 12, *saved)
    assert result.status == 0, result.err
    (told,) = result.records
    epochs = scored_epochs(result.err)
    best = max(epochs, key=lambda epoch: epoch[1])[0]  # the first of equals
    assert [step for step, _ in epochs] == ends[: len(epochs)]
    assert len(epochs) == ends.index(best) + 3 < 12
    assert [row["step"] for row in rows(home.path / "early" / "log.jsonl")] == list(range(1, epochs[-1][0] + 1))
    assert notes(home.path / "early")["step"] == best
    assert told["dev"] == notes(home.path / "early")["dev"] == home.rescored("early")
    log = rows(home.path / "early" / "log.jsonl")
    assert (told["step"], told["loss"]) == (best, log[best - 1]["loss"])
    assert f"step {epochs[-1][0]}: no better dev score for 2 epochs: the one of step {best} stays" in result.err
    at_best = (home.path / "early" / "steps" / str(best) / "model.safetensors").read_bytes()
    assert (home.path / "early" / "model.safetensors").read_bytes() == at_best
    assert at_best != (home.path / "early" / "steps" / str(epochs[-1][0]) / "model.safetensors").read_bytes()
    assert not (home.path / "early" / "checkpoint").exists()
    assert home.finetune("early", "--early-stop", 2, "--epochs", 12, "--resume").status == 0


def test_patience_that_is_not_tried_still_keeps_the_best_epoch(home: Home) -> None:
    result = home.finetune("patient", "--early-stop", 50, "--epochs", 8)
    epochs = scored_epochs(result.err)
    assert [step for step, _ in epochs] == [STEPS * epoch for epoch in range(1, 9)]
    best = max(epochs, key=lambda epoch: epoch[1])[0]
    assert notes(home.path / "patient")["step"] == best < 48
    assert f"the one of step {best} stays" in result.err
    assert not (home.path / "patient" / "checkpoint").exists()


def test_early_stops_among_several_runs(home: Home) -> None:
    result = home.finetune("early-runs", "--early-stop", 1, "--epochs", 20, "--lr", "1e-3,5e-3")
    (table,) = result.records
    for row in table["runs"]:
        steps = [each["step"] for each in rows(home.path / "early-runs" / "runs" / f"{row['run']}.jsonl")]
        assert steps[-1] == row["step"] + STEPS < 20 * STEPS
        log = rows(home.path / "early-runs" / "runs" / f"{row['run']}.jsonl")
        assert row["loss"] == log[row["step"] - 1]["loss"]
    assert table["dev"] == kept_of(table)["dev"] == home.rescored("early-runs")
    assert notes(home.path / "early-runs")["step"] == kept_of(table)["step"]
