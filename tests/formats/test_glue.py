"""GLUE's official files, real and broken, and its submissions."""

from __future__ import annotations

import io
import string
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.formats import READERS, WRITERS, answered, glue, predictions, reader, writer
from bertcli.lines import Lines, Source
from bertcli.records import Classification, Regression, checker

MNLI = [*"abcdefgh", "sentence1", "sentence2", *(f"label{n}" for n in range(1, 6)), "gold_label"]
STS_B = ["index", *"abcdef", "sentence1", "sentence2", "score"]
# The header of each task's files for training and for the test, and a label in the former.
HEADERS: dict[str, tuple[list[str], list[str], str]] = {
    "cola": ([], ["index", "sentence"], "1"),
    "sst-2": (["sentence", "label"], ["index", "sentence"], "0"),
    "mrpc": (
        ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["index", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        "1",
    ),
    "sts-b": (STS_B, STS_B[:-1], "3.2"),
    "qqp": (
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["id", "question1", "question2"],
        "0",
    ),
    "mnli": (["index", *MNLI[1:]], ["index", *MNLI[1:10]], "neutral"),
    "qnli": (["index", "question", "sentence", "label"], ["index", "question", "sentence"], "not_entailment"),
    "rte": (["index", "sentence1", "sentence2", "label"], ["index", "sentence1", "sentence2"], "entailment"),
    "wnli": (["index", "sentence1", "sentence2", "label"], ["index", "sentence1", "sentence2"], "1"),
    "ax": (
        ["Lexical Semantics", "Logic", "Domain", "Premise", "Hypothesis", "Label"],
        ["index", "sentence1", "sentence2"],
        "contradiction",
    ),
}


def lines_of(data: str | bytes, **options: str) -> Lines:
    data = data.encode() if isinstance(data, str) else data
    return Lines(Source(io.BytesIO(data), "in"), **options)  # type: ignore[arg-type]


def rows(name: str, data: str, **options: str) -> list[dict[str, Any]]:
    return list(reader(name)(lines_of(data, **options)))


def test_every_task_is_read_and_written() -> None:
    for formats in (READERS, WRITERS):
        assert [name for name in formats if name.startswith("glue-")] == [f"glue-{task}" for task in glue.TASKS]


# -- official files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", HEADERS)
def test_columns_are_told_by_the_header(task: str) -> None:
    for header in filter(None, HEADERS[task][:2]):
        cells = {name: f' "the {name} ' for name in header}
        names = next(each for each in glue.TASKS[task].layouts if set(each.texts) <= set(header))
        label = HEADERS[task][2]
        cells |= {name: label for name in header if name == names.label}
        cells |= {name: "7" for name in header if name in ("index", "id")}
        (found,) = rows(f"glue-{task}", "\ufeff" + "\t".join(header) + "\r\n" + "\t".join(cells.values()) + "\r\n\r\n")
        expected = {"id": "7" if {"index", "id"} & set(header) else "0"}
        expected |= dict(zip(("text", "text_pair"), (f'"the {name}' for name in names.texts), strict=False))
        if names.label in header:
            expected["label"] = float(label) if task == "sts-b" else label  # type: ignore[assignment]
        assert found == expected
        checker(Regression if task == "sts-b" else Classification)(found)


def test_cola_has_no_header() -> None:
    assert rows("glue-cola", 'gj04\t1\t\ta "fine" film\ngj04\t0\t*\tbad\n') == [
        {"id": "0", "text": 'a "fine" film', "label": "1"},
        {"id": "1", "text": "bad", "label": "0"},
    ]
    assert rows("glue-cola", "index\tsentence\n7\ta\n") == [{"id": "7", "text": "a"}]


def test_mnli_of_other_widths_and_orders() -> None:
    line = "gold_label\tsentence1\tpairID\tsentence2\nneutral\ta\tp\tb\n"
    assert rows("glue-mnli", line) == [{"id": "0", "text": "a", "text_pair": "b", "label": "neutral"}]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("glue-sst-2", "sentence\tlabel\na\t1\nb\n", "in:3: found 1, expected 2 columns"),
        ("glue-sst-2", "sentence\tlabel\na\tb\t1\n", "in:2: found 3, expected 2 columns"),
        ("glue-sst-2", "sentence\tlabel\na\t2\n", "in:2: field 'label': found '2', expected 0 or 1"),
        ("glue-sst-2", "sentence\tlabel\na\t\n", "in:2: field 'label': found '', expected 0 or 1"),
        ("glue-cola", "gj04\t1\t\ta\ngj04\t*\ta\n", "in:2: found 3, expected 4 columns"),
        ("glue-cola", "index\tsentence\n1\n", "in:2: found 1, expected 2 columns"),
        (
            "glue-qnli",
            "index\tquestion\tsentence\tlabel\n\n0\ta\tb\tentailment\n1\ta\tentailment\n",
            "in:4: found 3, expected 4 columns",
        ),
        (
            "glue-mnli",
            "sentence1\tsentence2\tgold_label\na\tb\t-\n",
            "in:2: field 'label': found '-', expected contradiction or entailment or neutral",
        ),
        *(
            (
                "glue-sts-b",
                f"sentence1\tsentence2\tscore\na\tb\t{score}\n",
                f"in:2: field 'label': found {score!r}, expected a number from 0 to 5",
            )
            for score in ("nan", "inf", "5.001", "-0.1", "", "a", "1_0")
        ),
        (
            "glue-rte",
            "a\tb\t1\n",
            r"in:1: the first line tells no layout; found 'a\tb\t1', "
            "expected a header with 'sentence1' and 'sentence2'",
        ),
        (
            "glue-cola",
            "\nname\tlabel\n",
            r"in:2: the first line tells no layout; found 'name\tlabel', "
            "expected a header with 'sentence', or 4 columns without one",
        ),
    ],
)
def test_a_bad_row_is_named(name: str, data: str, said: str) -> None:
    with pytest.raises(BadData) as error:
        rows(name, data)
    assert str(error.value) == said


def test_a_skipped_row_keeps_its_number() -> None:
    found = rows("glue-sst-2", "sentence\tlabel\na\t1\nb\n\nc\t0\n", on_error="skip")
    assert [(row["id"], row["text"]) for row in found] == [("0", "a"), ("2", "c")]


def test_a_file_without_a_layout_is_not_skipped_row_by_row() -> None:
    with pytest.raises(BadData, match="in:1: the first line tells no layout"):
        rows("glue-rte", "a\tb\nc\td\n", on_error="skip")


@pytest.mark.parametrize(
    ("file", "count", "labels"),
    [
        ("CoLA/train", 8551, {"1": 6023, "0": 2528}),
        ("CoLA/dev", 1043, {"1": 721, "0": 322}),
        ("CoLA/test", 1063, None),
        ("SST-2/dev", 872, {"1": 444, "0": 428}),
        ("SST-2/test", 1821, None),
        ("MRPC/train", 3668, {"1": 2474, "0": 1194}),
        ("MRPC/dev", 408, {"1": 279, "0": 129}),
        ("MRPC/test", 1725, None),
        ("STS-B/train", 5749, 2.7010),
        ("STS-B/dev", 1500, 2.3639),
        ("STS-B/test", 1379, None),
        ("RTE/train", 2490, {"entailment": 1249, "not_entailment": 1241}),
        ("RTE/dev", 277, {"entailment": 146, "not_entailment": 131}),
        ("RTE/test", 3000, None),
        ("WNLI/train", 635, {"0": 323, "1": 312}),
        ("WNLI/dev", 71, {"0": 40, "1": 31}),
        ("WNLI/test", 146, None),
        ("QNLI/dev", 5463, {"entailment": 2702, "not_entailment": 2761}),
        ("QNLI/test", 5463, None),
        ("AX/diagnostic", 1104, None),
        ("SICK/train", 4500, {"contradiction": 665, "entailment": 1299, "neutral": 2536}),
        ("SICK/dev_matched", 4927, {"contradiction": 720, "entailment": 1414, "neutral": 2793}),
        ("SICK/dev_mismatched", 500, {"contradiction": 74, "entailment": 144, "neutral": 282}),
    ],
)
def test_official_files(shared: Path, file: str, count: int, labels: dict[str, int] | float | None) -> None:
    path = shared / "glue" / f"{file}.tsv.zst"
    task = {"sick": "mnli"}.get(file.split("/")[0].lower(), file.split("/")[0].lower())
    with path.open("rb", buffering=0) as raw:
        found = list(reader(f"glue-{task}")(Lines(Source(raw, path.name))))  # type: ignore[arg-type]
    assert [row["id"] for row in found] == [str(n) for n in range(count)]
    gold = [row["label"] for row in found if "label" in row]
    if isinstance(labels, float):
        assert (len(gold), round(sum(gold) / count, 4)) == (count, labels)
    else:
        assert Counter(gold) == (labels or {})
    for row in found:
        checker(Regression if task == "sts-b" else Classification)(row)
    columns = {"SST-2/dev": "1", "CoLA/train": "4", "CoLA/dev": "4", "CoLA/test": "2", "SST-2/test": "2"}
    usual = {"mrpc": "4,5", "sts-b": "8,9", "mnli": "9,10"}.get(task, "2,3")
    command = f"zstd -dc {path} | cut -f {columns.get(file, usual)} | tail -n {count}"
    cut = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True).stdout
    texts = ["\t".join([row["text"], *([row["text_pair"]] if "text_pair" in row else [])]) for row in found]
    assert texts == ["\t".join(map(str.strip, line.split("\t"))) for line in cut.split("\n")[: len(found)]]


def test_options_of_other_formats_do_not_belong_here(invoke: Callable[..., Result]) -> None:
    for option, owner in (("--split", "text"), ("--label", "csv and tsv"), ("--evidence", "triviaqa")):
        result = invoke("read", "glue-cola", option, "rules")
        assert result.status == 2
        assert f"{option} is an option of {owner}, not of glue-cola" in result.err


# -- submissions ----------------------------------------------------------------------------------------


def submission(task: str, records: list[dict[str, Any]]) -> bytes:
    return b"".join(writer(f"glue-{task}")(records))


def test_a_submission() -> None:
    records = [
        {"id": "0", "prediction": "entailment", "label": "not_entailment"},
        {"id": 12, "label": "not_entailment"},
    ]
    assert submission("rte", records) == b"index\tprediction\n0\tentailment\n12\tnot_entailment\n"
    scores = [{"id": str(n), "prediction": p} for n, p in enumerate([-0.0001, 5.2, 3, 2.34567, -0.0])]
    assert " ".join(submission("sts-b", scores).decode().split()) == (
        "index prediction 0 0.000 1 5.000 2 3.000 3 2.346 4 0.000"
    )
    assert submission("rte", []) == b""


@pytest.mark.parametrize(
    ("task", "bad", "said"),
    [
        ("rte", {"prediction": "1"}, "field 'prediction': found '1', expected entailment or not_entailment"),
        ("rte", {"label": ["1"]}, "field 'label': found a list, expected entailment or not_entailment"),
        ("sst-2", {"prediction": 1}, "field 'prediction': found 1, expected 0 or 1"),
        ("sts-b", {"prediction": "1"}, "field 'prediction': found '1', expected a number"),
        ("sts-b", {"prediction": True}, "field 'prediction': found true, expected a number"),
        ("cola", {"text": "a"}, "field 'prediction': found nothing, expected a prediction, or else a label"),
        ("cola", {"id": "0", "label": "1"}, "field 'id': found '0', expected each index once"),
        ("cola", {"id": "a:0", "label": "1"}, "field 'id': found 'a:0', expected the index of a row, a whole number"),
        ("cola", {"id": None, "label": "1"}, "field 'id': found nothing, expected the index of a row, a whole number"),
    ],
)
def test_what_cannot_be_submitted(task: str, bad: dict[str, Any], said: str) -> None:
    good = {"id": "0", "label": {"rte": "entailment", "sts-b": 1.5}.get(task, "1")}
    with pytest.raises(BadData) as error:
        submission(task, [good, {"id": "1", **bad}])
    assert str(error.value) == said


@given(st.data(), st.sampled_from(sorted(glue.TASKS)))
def test_reading_writing_and_reading_gives_the_same_labels(data: st.DataObject, task: str) -> None:
    labels = glue.TASKS[task].labels
    one = st.sampled_from(labels) if labels else st.integers(0, 5000).map(lambda n: str(n / 1000))
    gold = data.draw(st.lists(one, max_size=9))
    texts = st.text(string.ascii_letters + ' "é', max_size=5)
    header, names = HEADERS[task][0], glue.TASKS[task].layouts[-1]
    file = "\t".join(header) + "\n" if header else ""
    for index, label in enumerate(gold):
        cells = {name: data.draw(texts) for name in header or names.headerless} | {names.label: label}
        cells |= {name: str(index) for name in header if name in ("index", "id")}
        file += "\t".join(cells.values()) + "\n"
    records = rows(f"glue-{task}", file)
    assert [record["label"] for record in records] == [label if labels else float(label) for label in gold]
    written = submission(task, [{**record, "text": ""} for record in records])
    answers = predictions(f"glue-{task}", lines_of(written))
    again = list(answered(reader(f"glue-{task}"), answers, "out", lines_of(file)))
    assert again == [{**record, "prediction": record["label"]} for record in records]
    assert submission(task, again) == written


DEV = "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n4\tc\td\tnot_entailment\n"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("index\tprediction\n0\tentailment\n", "dev.tsv:3: field 'id': found '4', expected an id that RTE.tsv has"),
        (
            "index\tprediction\n0\tentailment\n4\tentailment\n5\tentailment\n",
            "RTE.tsv: no record has the id '5'",
        ),
        (
            "index\tprediction\n0\tentailment\n0\tentailment\n",
            "RTE.tsv:3: field 'index': found '0', expected each index once",
        ),
        (
            "index\tprediction\n0\t1\n",
            "RTE.tsv:2: field 'prediction': found '1', expected entailment or not_entailment",
        ),
        (
            "0\tentailment\n",
            r"RTE.tsv:1: found '0\tentailment', expected a header with 'index' and 'prediction'",
        ),
    ],
)
def test_predictions_that_do_not_fit(shell: Callable[..., Result], tmp_path: Path, answers: str, said: str) -> None:
    (tmp_path / "dev.tsv").write_text(DEV)
    (tmp_path / "RTE.tsv").write_text(answers)
    result = shell("bertcli read glue-rte dev.tsv --predictions RTE.tsv")
    assert (result.status, result.err) == (65, f"bertcli read: {said}\n")


def test_a_submission_is_scored(shell: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text(DEV)
    line = "printf 'prediction\\tindex\\nentailment\\t4\\nentailment\\t0\\n'"
    read = f"{line} | bertcli read glue-rte dev.tsv --predictions -"
    assert [(record["id"], record["prediction"]) for record in shell(read).records] == [
        ("0", "entailment"),
        ("4", "entailment"),
    ]
    assert shell(f"{read} | bertcli score classification").records[0]["accuracy"] == 0.5
    result = shell(f"{line} | bertcli read glue-rte dev.tsv dev.tsv --predictions -")
    assert (result.status, "--predictions are those of one file" in result.err) == (2, True)


def test_predictions_of_skipped_records_are_skipped_too(shell: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text(DEV.replace("not_entailment", "maybe"))
    (tmp_path / "RTE.tsv").write_text("index\tprediction\n0\tentailment\n4\tentailment\n")
    result = shell("bertcli read glue-rte dev.tsv --predictions RTE.tsv --on-error skip")
    assert ([record["id"] for record in result.records], result.status) == (["0"], 0)
    assert result.err.startswith("bad lines skipped: 2; the first: dev.tsv:3: field 'label'")
