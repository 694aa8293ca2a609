"""The paper's tables and figures as pipelines, each from text to its table, with models of the smallest size."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import official
import pytest
import warm
from hypothesis import assume, example, given
from hypothesis import strategies as st
from paper import table
from program import ROOT, Result, run
from safetensors.torch import load_file
from scipy import stats

PAPER = ROOT / "tests" / "paper"

Row = dict[str, Any]
SMALL = {
    "PRESET": "4x16x2",
    "STEPS": "10",
    "BATCH_PRETRAIN": "4",
    "LENGTHS": "24 32",
    "FRACTIONS": "5 20 50",  # the first one of no step
    "VOCAB_OPTIONS": "--size 120",
    "SEEDS": "2",
    "LR": "1e-3,1e-2",
    "EPOCHS": "1",
    "EPOCHS_FEATURES": "1",
    "UNITS": "8",
    "JOBS": "2",
    "PRETRAIN_JOBS": "2",
}


# -- scripts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with text and with the files of all tasks."""
    return official.build(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder in which scripts run, with a WORK for all that need no other."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def script(program: warm.Program, data: Path, home: Path) -> Callable[..., Result]:
    """Runs a script on the data; others of its parameters may be given."""
    given = {name.upper(): str(data / name) for name in ("glue", "conll", "squad", "swag")}
    given |= {"TEXT": str(data / "train.txt"), "HELDOUT": str(data / "heldout.txt"), "WORK": str(home / "work")}

    def script(name: str, **parameters: object) -> Result:
        own = {key: str(value) for key, value in parameters.items()}
        return program.script([f"{PAPER}/{name}"], home, **{**given, **SMALL, **own})

    return script


def tables(out: bytes) -> list[dict[str, dict[str, str]]]:
    """Returns the tables of an output, the cells of each by row and column."""
    found = []
    for block in out.decode().split("\n\n"):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines() if line[0] == "|"]
        if rows:
            (_, *columns), _, *rows = rows
            found.append({name: dict(zip(columns, cells, strict=True)) for name, *cells in rows})
    return found


def value(cell: str) -> float:
    return float(cell.split()[0].rstrip(",").replace(",", ""))


MASKING = ["80,10,10", "0,20,80", "0,0,100"]
LAYERS = ["fine-tuned", "embeddings", "second-to-last", "last", "weighted4", "concat4", "weighted-all"]
GLUE = ["mnli", "sst-2", "sts-b", "mrpc-f1", "mnli-mm", "average of 5"]
SIZES = ["2x16x2", "4x16x2"]
FEW_NAMES = ["conll:5", "conll-concat4:5"]
TABLES: dict[str, tuple[dict[str, str], list[str], list[str]]] = {  # parameters, and the rows and columns that come
    "table1.sh": ({}, ["BERT"], GLUE),
    "table2.sh": ({}, ["BERT"], ["exact", "f1"]),
    "table3.sh": ({}, ["BERT"], ["exact", "f1"]),
    "table4.sh": ({}, ["BERT"], ["swag"]),
    "table5.sh": ({"TASKS": "sst-2"}, ["BERT", "No NSP", "LTR & No NSP", "+ BiLSTM"], ["sst-2"]),
    "table6.sh": ({"PRESETS": " ".join(SIZES), "TASKS": "sst-2"}, SIZES, ["sst-2"]),
    "table7.sh": ({"DOCUMENTS": "--documents", "WORK": "documents"}, LAYERS, ["dev F1"]),
    "table8.sh": ({"FATES": " ".join(MASKING), "TASKS": " ".join(FEW_NAMES)}, MASKING, FEW_NAMES),
    "figure5.sh": ({"TASK": "sst-2"}, ["MLM", "LTR"], ["2", "5", "10"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_each_cell_has_its_figure(script: Callable[..., Result], name: str) -> None:
    parameters, rows, columns = TABLES[name]
    done = script(name, **parameters)
    assert done.status == 0, done.err
    pretrained, scores = tables(done.out)
    assert {row: list(cells) for row, cells in scores.items()} == dict.fromkeys(rows, columns)
    assert all(abs(value(cell)) <= 100 for cells in scores.values() for cell in cells.values())
    for cells in pretrained.values():
        assert cells["steps"] == SMALL["STEPS"]
        assert value(cells["lm_loss"] if cells.get("lm_loss") else cells["mlm_loss"]) > 0


@pytest.mark.parametrize(
    ("name", "task", "column", "of_100"),
    [("table1.sh", "sts-b", "spearman", 100), ("table2.sh", "squad", "f1", 1), ("table2.sh", "squad", "exact", 1)],
)
def test_figures_are_those_of_the_folders(
    script: Callable[..., Result], home: Path, name: str, task: str, column: str, of_100: int
) -> None:
    pretrained, scores = tables(script(name, **TABLES[name][0]).out)
    row, model = list(scores)[-1], "4x16x2/mlm+nsp/80,10,10"
    rates: dict[float, list[Row]] = {}
    for each in json.loads((home / f"work/tuned/{model}/{task}/bertcli.json").read_text())["runs"]:
        rates.setdefault(each["lr"], []).append(each)
    best = max(rates.values(), key=lambda runs: statistics.fmean(run["value"] for run in runs))
    assert [len(own) for own in rates.values()] == [2, 2]
    figures = [of_100 * run["dev"][column] for run in best]
    shown = scores[row].get(column) or scores[row][task]
    assert shown.split(",")[0] == f"{statistics.fmean(figures):.2f} ± {statistics.stdev(figures):.2f}"
    folder = home / "work/models" / model
    dev = json.loads((folder / "bertcli.json").read_text())["dev"]
    assert value(pretrained[model]["perplexity"]) == pytest.approx(dev["perplexity"], abs=1e-3)
    weights = load_file(folder / "model.safetensors")
    encoder = sum(tensor.numel() for key, tensor in weights.items() if key.startswith("bert."))
    assert value(pretrained[model]["parameters"]) == encoder


def test_a_figure_is_drawn(script: Callable[..., Result], home: Path) -> None:
    assert script("figure5.sh", TASK="sst-2", FIGURE="drawn.svg").status == 0
    picture = (home / "drawn.svg").read_text()
    assert "MLM" in picture
    assert "LTR" in picture


def test_a_grid_is_searched(script: Callable[..., Result], home: Path, data: Path, tmp_path: Path) -> None:
    script("table4.sh")
    for part in ("train", "dev"):
        shutil.copy(data / f"glue/MRPC/{part}.tsv", tmp_path / f"MRPC-{part}.tsv")
    done = script("grid.sh", MODEL=home / "work/models/4x16x2/mlm+nsp/80,10,10", DATA=tmp_path, EPOCHS="1,2")
    assert done.status == 0, done.err
    assert 0 <= json.loads(done.out.splitlines()[-1])["f1"] <= 1


def test_what_is_there_is_not_made_again(script: Callable[..., Result], tmp_path: Path) -> None:
    parameters = {"PRESETS": "2x16x2", "TASKS": "sst-2:6 mrpc", "WORK": tmp_path}
    first = script("table6.sh", **parameters)
    assert first.status == 0, first.err
    assert len((tmp_path / "tasks" / "sst-2:6.train").read_text().splitlines()) == 6
    again = script("table6.sh", **parameters, WORKERS="2", JOBS="1")
    assert (again.out, again.err) == (first.out, "")
    tuned = tmp_path / "tuned/2x16x2/mlm+nsp/80,10,10"
    (tuned / "mrpc.json").unlink()  # as if the machine had been lost before the last step
    once_more = script("table6.sh", **parameters)
    assert once_more.out == first.out
    assert re.fullmatch(r"made tuned/2x16x2/mlm\+nsp/80,10,10/mrpc.json in \d+ s\n", once_more.err)
    other = script("table6.sh", **parameters, SEEDS="1")
    assert (other.status, other.out) == (1, b"")
    assert "sst-2:6.json is of other parameters ('2', not '1'); name another WORK" in other.err


def test_files_are_told_apart_by_where_they_are_and_what_they_are(
    script: Callable[..., Result], data: Path, tmp_path: Path
) -> None:
    shutil.copytree(data / "glue" / "SST-2", tmp_path / "glue/SST-2")
    (tmp_path / "link").symlink_to("glue")
    own = {"PRESETS": "2x16x2", "TASKS": "sst-2:6", "SEEDS": 1, "LR": "1e-3"}
    first = script("table6.sh", **own, GLUE=tmp_path / "glue", WORK=tmp_path / "work")
    assert first.status == 0, first.err
    (tmp_path / "work").rename(tmp_path / "moved")
    again = script("table6.sh", **own, GLUE=f"{tmp_path}/link/", WORK=tmp_path / "moved")
    assert (again.out, again.err) == (first.out, "")
    with (tmp_path / "glue/SST-2/dev.tsv").open("a") as file:
        file.write("more of it\t1\n")
    refused = script("table6.sh", **own, GLUE=tmp_path / "glue", WORK=tmp_path / "moved")
    assert (refused.status, refused.out) == (2, b"")
    assert "tasks/sst-2:6.dev is of other parameters" in refused.err


def test_scripts_side_by_side_share_what_they_make(script: Callable[..., Result], tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(script, "table6.sh", PRESETS="2x16x2", TASKS="sst-2", WORK=tmp_path) for _ in range(2)]
        one, other = (each.result() for each in both)
    assert one.status == other.status == 0, one.err + other.err
    assert one.out == other.out
    made = [line.split()[1] for line in (one.err + other.err).splitlines()]
    assert len(made) == len(set(made)) == 8


def test_a_command_that_fails_is_no_score(script: Callable[..., Result], tmp_path: Path) -> None:
    failed = script("table6.sh", PRESETS="2x16x2", TASKS="sst-2", LR="1e-3,high", WORK=tmp_path)
    assert (failed.status, failed.out) == (1, b"")
    assert "'high' is not a valid number" in failed.err
    failed = script("table6.sh", PRESETS="2x16x2", TASKS="sst-2", TEXT=tmp_path / "none", WORK=tmp_path / "2")
    assert (failed.status, failed.out) == (2, b"")
    assert f"TEXT: {tmp_path}/none is not there" in failed.err


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("table5.sh", {"TEXT": "", "TASKS": "sst-2"}, "TEXT: files of text, parted by blanks, to pre-train on"),
        ("table5.sh", {"GLUE": "", "TASKS": "sst-2", "WORK": "new"}, "GLUE: the folder with SST-2/train.tsv and SST-2"),
        ("budget.sh", {"BLIMP": "none", "WORK": "new"}, "BLIMP: none is not there"),
        ("table5.sh", {"TASKS": "sst-2:few"}, "sst-2:few: expected TASK or TASK:ROWS"),
        ("table5.sh", {"TASKS": "sst2"}, "there is no task sst2, only cola sst-2 mrpc"),
        ("table5.sh", {"TASKS": "conll-concat4:5", "WORK": "new"}, "conll-concat4:5 --bilstm --bilstm-units 8: vec"),
        ("table5.sh", {"STEPS": "1e3"}, "STEPS=1e3: expected a whole number from 1"),
        ("table5.sh", {"HELDOUT": "here none", "TASKS": "sst-2"}, "HELDOUT: here is not there"),
        ("figure5.sh", {"FIGURE": "none/a.svg"}, "FIGURE=none/a.svg: no such folder"),
        ("table1.sh", {"GLUE": "", "TASKS": ""}, "GLUE: the folder with CoLA/train.tsv"),
        ("table8.sh", {"MODEL": "/nowhere/model"}, "MODEL: /nowhere/model is not there"),
        ("adapt.sh", {"TASKS": "sst-2", "TEXT": "", "MODEL": "."}, "TEXT: files of text"),
        ("adapt.sh", {"TASKS": "sst-2"}, "MODEL: the folder of a pre-trained model"),
    ],
)
def test_a_parameter_that_is_wrong_is_one_line(
    script: Callable[..., Result], name: str, parameters: dict[str, str], told: str
) -> None:
    failed = script(name, **parameters)
    assert failed.status != 0
    assert failed.out == b""
    assert told in failed.err
    assert "made pairs" not in failed.err  # which takes longest
    assert len([line for line in failed.err.splitlines() if not line.startswith("made ")]) == 1


def test_a_file_that_is_there_twice_is_not_learned_from_twice(
    script: Callable[..., Result], data: Path, tmp_path: Path
) -> None:
    shutil.copytree(data / "glue" / "SST-2", tmp_path / "SST-2")
    shutil.copy(tmp_path / "SST-2/dev.tsv", tmp_path / "SST-2/dev.tsv.bak")
    failed = script("table6.sh", PRESETS="2x16x2", TASKS="sst-2", GLUE=tmp_path, WORK=tmp_path / "work")
    assert (failed.status, failed.out) == (2, b"")
    assert f"found {tmp_path}/SST-2/dev.tsv {tmp_path}/SST-2/dev.tsv.bak, expected one of them" in failed.err


def test_mismatched_genres_are_of_one_file(script: Callable[..., Result], data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "glue" / "MNLI", tmp_path / "MNLI")
    own = {"GLUE": tmp_path, "TASKS": "mnli", "PRESET": "2x16x2", "WORK": tmp_path / "work"}
    shutil.copy(tmp_path / "MNLI/dev_mismatched.tsv", tmp_path / "MNLI/dev_mismatched.tsv.bak")
    failed = script("table1.sh", **own)
    assert (failed.status, failed.out) == (2, b"")
    assert "dev_mismatched.tsv.bak, expected one of them" in failed.err
    for file in tmp_path.glob("MNLI/dev_mismatched*"):
        file.unlink()
    done = script("table1.sh", **own)
    assert "mnli-mm is left out" in done.err
    assert list(tables(done.out)[1]["BERT"]) == ["mnli", "average of 1"]


def test_a_model_adapts_to_a_domain(script: Callable[..., Result], home: Path, data: Path, tmp_path: Path) -> None:
    script("table4.sh")
    domain = tmp_path / "domain.txt"
    domain.write_text((data / "train.txt").read_text().replace("harbour", "quay"))
    own = {"MODEL": home / "work/models/4x16x2/mlm+nsp/80,10,10", "WORK": tmp_path / "a work", "TASKS": "sst-2"}
    own |= {"TEXT": domain, "HELDOUT": domain, "VOCAB_OPTIONS": "--size 140"}
    done = script("adapt.sh", **own, STEPS=60, LR_PRETRAIN="1e-2", LENGTHS=24)
    assert done.status == 0, done.err
    held_out, scores = tables(done.out)
    assert value(held_out["after"]["mlm_loss"]) < value(held_out["before"]["mlm_loss"])
    assert list(scores) == ["before", "before, vocabulary grown", "after"]
    assert "quay" in (tmp_path / "a work/adapt/adapted/vocab.txt").read_text().split()


def test_a_model_without_a_head_has_no_loss_before(script: Callable[..., Result], home: Path, tmp_path: Path) -> None:
    script("table4.sh")
    shutil.copytree(home / "work/models/4x16x2/mlm+nsp/80,10,10", tmp_path / "a bare one")
    config = json.loads((tmp_path / "a bare one/config.json").read_text())
    (tmp_path / "a bare one/config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    done = script(
        "adapt.sh", MODEL=tmp_path / "a bare one", WORK=tmp_path / "work", TASKS="sst-2:6", STEPS=2, LENGTHS=24
    )
    assert done.status == 0, done.err
    held_out, scores = tables(done.out)
    assert list(held_out) == ["after"]
    assert list(scores) == ["before", "before, vocabulary grown", "after"]


def test_a_script_sees_how_a_command_ended(program: warm.Program, tmp_path: Path) -> None:
    """The client of the warm server, by which all other tests here run."""
    lines = """
        bertcli show nowhere 2> message; echo $?
        printf '%s\\n' [PAD] [UNK] [CLS] [SEP] [MASK] a > vocab.txt
        yes '{"text": "a"}' | bertcli tokenize --plain --quiet | head -n 1 | wc -l; echo ${PIPESTATUS[1]}
        BERTCLI_PLAIN=1 bertcli read text <<< a
        (trap '' PIPE; bertcli vocab > /dev/full 2> message <<< a; echo $?)
    """
    done = program.script(["bash", "-c", lines], tmp_path)
    assert done.out.decode().splitlines() == ["66", "1", "141", '{"id":"0","sentences":["a"]}', "74"]


@pytest.mark.parametrize(
    ("visible", "cards"),
    [
        ("unset CUDA_VISIBLE_DEVICES", ["0", "1"]),
        ("CUDA_VISIBLE_DEVICES=5,7", ["5", "7"]),
        ("CUDA_VISIBLE_DEVICES=", [""]),
    ],
)
def test_jobs_take_the_cards_in_turn(visible: str, cards: list[str], tmp_path: Path) -> None:
    line = f"{visible}; GPUS=2; . {PAPER}/steps.sh; shown() {{ sleep 0.3; echo $CUDA_VISIBLE_DEVICES/$#; }}"
    done = run(["bash", "-c", f"{line}; printf '%b\\n' a 'b c\\td' e f | side_by_side 4 shown"], cwd=tmp_path)
    lines = ["a", "b c\td", "e", "f"]
    expected = [f"{cards[slot % len(cards)]}/{len(each.split(chr(9)))}" for slot, each in enumerate(lines)]
    assert sorted(done.out.decode().split()) == sorted(expected), done.err


def test_a_slurm_job_is_put_back_as_long_as_it_gets_further(tmp_path: Path) -> None:
    stubs = {
        "scontrol": 'echo "$*" >> calls; echo host',
        "srun": 'mkdir -p "model/checkpoint/$STEP"; exit 75',
    }
    for name, lines in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    job = {"SLURM_JOB_NODELIST": "host", "SLURM_NNODES": "1", "SLURM_GPUS_ON_NODE": "1", "SLURM_JOB_ID": "9"}
    own = {"VOCAB": "v", "TRAIN": "t", "OUT": "model", "PATH": f"{tmp_path}:{os.environ['PATH']}", **job}
    for step in ("700", "1000", "1000"):
        done = subprocess.run([f"{PAPER}/slurm.sh"], env={**own, "STEP": step}, cwd=tmp_path, check=False)
        assert done.returncode == 75
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["show hostnames host", "requeue 9"] * 2 + ["show hostnames host"]


# -- the table --------------------------------------------------------------------------------------------------------


def rows(row: str, column: str, scores: Iterable[float | None], lr: float = 1e-4, **own: object) -> list[Row]:
    return [{"row": row, "column": column, "score": s, "lr": lr, "seed": n, **own} for n, s in enumerate(scores)]


def printed(given: list[Row], *options: str) -> Result:
    text = "".join(json.dumps(row) + "\n" for row in given)
    return run(["python", f"{PAPER}/table.py", *options], text.encode())


def test_a_cell_is_of_the_learning_rate_with_the_best_mean() -> None:
    given = [
        *rows("base", "sst-2", [80, 81, 82], lr=1e-4),
        *rows("base", "sst-2", [70, 71, 99], lr=3e-4),  # the best run, but not the best mean
        *rows("base", "sst-2", [99, None, 99], lr=1e-3),
        *rows("base", "rte", [None, None], lr=1e-3),
        *rows("other", "rte", [50.5, 50.5], failed=True),
    ]
    done = printed(given)
    assert tables(done.out) == [
        {
            "base": {"sst-2": "81.00 ± 1.00", "rte": "diverged"},
            "other": {"sst-2": "", "rte": "50.50 ± 0.00, 2 of one answer"},
        }
    ]
    assert b"n = 2 to 3 seeds" in done.out
    kept = [json.loads(line) for line in printed(given, "--rows").out.splitlines()]
    assert kept == given[:3] + given[11:]  # none of those that diverged


def test_runs_that_differ_in_more_than_their_seeds_are_not_one_cell() -> None:
    grid = [row for size in (48, 16, 32) for row in rows("base", "x", [size, size + 1], epochs=2, batch_size=size)]
    assert tables(printed(grid).out) == [{"base": {"x": "48.50 ± 0.71"}}]


def test_all_scores_of_a_task_are_of_one_learning_rate() -> None:
    f1 = [*rows("base", "f1", [88, 90], lr=1e-4), *rows("base", "f1", [85, 87], lr=3e-4)]
    exact = [*rows("base", "exact", [80, 80], lr=1e-4, by=89), *rows("base", "exact", [81, 83], lr=3e-4, by=86)]
    assert tables(printed(f1 + exact).out) == [{"base": {"f1": "89.00 ± 1.41", "exact": "80.00 ± 0.00"}}]


def test_an_average_is_of_all_columns() -> None:
    """Those of the paper's Table 1 give its averages."""
    figures = {
        "BERT-base": [84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4],
        "BERT-large": [86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1],
    }
    cells = [row for name, scores in figures.items() for n, s in enumerate(scores) for row in rows(name, f"{n}", [s])]
    (found,) = tables(printed([*cells, *rows("part", "0", [50.0])], "--average", "--digits", "1").out)
    assert {name: cells["average of 9"] for name, cells in found.items()} == {
        "BERT-base": "79.6",
        "BERT-large": "82.1",
        "part": "",
    }


SCORES = st.lists(st.integers(0, 1000).map(lambda n: n / 10), min_size=2, max_size=6)


@given(SCORES, SCORES)
@example([80.0, 81.0], [80.0, 81.0])
@example([80.0, 80.0], [80.0, 80.0])
@example([90.0, 90.0], [80.0, 80.0])
def test_a_difference_is_resolved_beyond_two_standard_errors(ours: list[float], theirs: list[float]) -> None:
    """As Welch's t has them."""
    moments = [of(scores) for scores in (ours, theirs) for of in (statistics.fmean, statistics.stdev, len)]
    with np.errstate(all="ignore"):  # where nothing varies
        t = stats.ttest_ind_from_stats(*moments, equal_var=False).statistic
    assume(not math.isclose(abs(t), 2))
    assert table.is_resolved(ours, theirs) == (abs(t) > 2)


def test_a_difference_is_shown_beside_the_mean() -> None:
    given = [*rows("base", "x", [80, 81, 82]), *rows("far", "x", [70, 71, 72]), *rows("near", "x", [80, 81, 80])]
    done = printed([*given, *rows("one", "x", [20.0])], "--beside", "base")
    (found,) = tables(done.out)
    assert [cells["x"] for cells in found.values()] == [
        "81.00 ± 1.00",
        "71.00 ± 1.00 (-10.00)",
        "80.33 ± 0.58 (-0.67, not resolved)",
        "20.00 (-61.00, not resolved)",
    ]
    assert b"pre-trained from one seed" in done.out
    alone = printed(rows("base", "x", [80]) + rows("far", "x", [70]), "--beside", "base")
    assert b"one seed does not tell" in alone.out
    assert b"standard errors" not in alone.out
    assert printed([]).status == 2
    refused = printed(given, "--beside", "bass")
    assert (refused.status, refused.err.splitlines()[-1]) == (2, "table.py: error: --beside: there is no row bass")
