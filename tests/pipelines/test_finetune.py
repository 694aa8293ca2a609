"""From the official file of a task to the official file of answers: read, finetune, predict, score, write."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models
import pytest
import toys
from program import Result

Record = dict[str, Any]
TRAIN, DEV = 48, 17  # the latter a number that no batch divides


# -- the official layouts -------------------------------------------------------------------------------------------


def mrpc(count: int, seed: int) -> str:
    rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
    for number, record in enumerate(toys.records("classification", count, seed)):
        quality = int(record["label"] == "red")
        rows.append(f'{quality}\t{number}7\t{number}8\t{record["text"]}\tthe "second" sentence')
    return "".join(f"{row}\n" for row in rows)


def sts_b(count: int, seed: int) -> str:
    names = "index genre filename year old_index source1 source2 sentence1 sentence2 score"
    rows = [names.replace(" ", "\t")]
    for number, record in enumerate(toys.records("regression", count, seed)):
        score = min(5.0, max(0.0, record["label"]))
        rows.append(f"{number}\tnews\tfile\t2015\t{number}\tnone\tnone\t{record['text']}\tthe cat\t{score:.3f}")
    return "".join(f"{row}\n" for row in rows)


def conll(count: int, seed: int) -> str:
    lines = []
    for number, record in enumerate(toys.records("tagging", count, seed)):
        lines += ["-DOCSTART- -X- -X- O", ""] if number % 5 == 0 else []
        lines += [f"{word} NN I-NP {label}" for word, label in zip(record["words"], record["labels"], strict=True)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def squad(count: int, seed: int) -> str:
    paragraphs = []
    for record in toys.records("span", count, seed):
        answers = [{"text": answer["text"], "answer_start": answer["start"]} for answer in record["answers"]]
        question = {"id": f"q{record['id']}", "question": record["question"], "answers": answers}
        paragraphs.append({"context": record["context"], "qas": [question | {"is_impossible": not answers}]})
    return json.dumps({"version": "v2.0", "data": [{"title": "a", "paragraphs": paragraphs}]})


def swag(count: int, seed: int) -> str:
    file = io.StringIO()
    names = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
    table = csv.writer(file, lineterminator="\n")
    table.writerow([*names, "ending0", "ending1", "ending2", "ending3", "label"])
    for number, record in enumerate(toys.records("choice", count, seed)):
        endings = (record["choices"] * 2)[:4]
        table.writerow([number, "v, 1", 1, "", record["text"], "the", "gold", *endings, record["label"] % 4])
    return file.getvalue()


def reviews(count: int, seed: int) -> str:
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["review", "tags"])
    for record in toys.records("tagging", count, seed):
        tags = {"cat": "animal", "dog": "animal", "house": "thing, made", "stone": "thing"}
        found = dict.fromkeys(tags[word] for word in record["words"] if word in tags)
        table.writerow([", ".join(record["words"]), "|".join(found)])
    return file.getvalue()


@dataclass(frozen=True)
class Pipe:
    """A task's official files, how they are read and written, and what is expected in what is written."""

    file: Callable[[int, int], str]
    read: list[str]
    task: str
    metrics: set[str]
    write: list[str]
    rows: Callable[[str, list[Record]], tuple[list[Any], list[Any]]]  # what was written, and what it is to be


def submitted(text: str, records: list[Record]) -> tuple[list[Any], list[Any]]:
    header, *rows = [line.split("\t") for line in text.splitlines()]
    assert header == ["index", "prediction"]
    if isinstance(records[0]["prediction"], str):
        return rows, [[record["id"], record["prediction"]] for record in records]
    clipped = [min(5.0, max(0.0, record["prediction"])) for record in records]
    expected = [[record["id"], pytest.approx(value, abs=5e-4)] for record, value in zip(records, clipped, strict=True)]
    return [[index, float(value)] for index, value in rows], expected


def tagged(text: str, records: list[Record]) -> tuple[list[Any], list[Any]]:
    rows = [line.split(" ") for line in text.splitlines() if line and not line.startswith("-DOCSTART-")]
    words = [word for record in records for word in record["words"]]
    gold, predicted = ([label for record in records for label in record[name]] for name in ("labels", "prediction"))
    return [[row[0], *row[-2:]] for row in rows], [list(row) for row in zip(words, gold, predicted, strict=True)]


def answered(text: str, records: list[Record]) -> tuple[list[Any], list[Any]]:
    return list(json.loads(text).items()), [(record["id"], record["prediction"]) for record in records]


def tabled(text: str, records: list[Record]) -> tuple[list[Any], list[Any]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    told = ["|".join(p) if isinstance(p, list) else str(p) for p in (record["prediction"] for record in records)]
    expected = [[record["text"], prediction] for record, prediction in zip(records, told, strict=True)]
    return [[row["text"], row["prediction"]] for row in rows], expected


CSV = ["csv", "--several", "|"]
PIPES = {
    "glue-mrpc": Pipe(mrpc, ["glue-mrpc"], "classification", {"accuracy", "f1"}, ["glue-mrpc"], submitted),
    "glue-sts-b": Pipe(sts_b, ["glue-sts-b"], "regression", {"pearson", "spearman"}, ["glue-sts-b"], submitted),
    "conll": Pipe(conll, ["conll"], "tagging", {"precision", "recall", "f1"}, ["conll"], tagged),
    "documents": Pipe(conll, ["conll", "--documents"], "tagging", {"precision", "recall", "f1"}, ["conll"], tagged),
    "squad": Pipe(squad, ["squad"], "span", {"exact", "f1", "no_answer_f1"}, ["squad"], answered),
    "swag": Pipe(swag, ["swag"], "choice", {"accuracy"}, ["csv"], tabled),
    "csv": Pipe(
        reviews, [*CSV, "--text", "review", "--label", "tags"], "classification", {"accuracy", "micro_f1"}, CSV, tabled
    ),
}
FINETUNE = ["-m", "start", "--device", "cpu", "--epochs", "1", "--lr", "3e-3", "--batch-size", "8"]


def without(records: list[Record], *names: str) -> list[Record]:
    """Returns records that lack some fields."""
    return [{name: value for name, value in record.items() if name not in names} for record in records]


@pytest.fixture
def files(tmp_path: Path) -> Callable[[Pipe], None]:
    """Writes the official files of a pipe, and a start."""

    def files(pipe: Pipe) -> None:
        toys.start(tmp_path / "start")
        (tmp_path / "train").write_text(pipe.file(TRAIN, 0))
        (tmp_path / "dev").write_text(pipe.file(DEV, 1))

    return files


@pytest.mark.parametrize("name", PIPES)
def test_a_row_for_each_record_in_order(
    bertcli: Callable[..., Result], files: Callable[[Pipe], None], tmp_path: Path, name: str
) -> None:
    pipe = PIPES[name]
    files(pipe)
    train, dev = (bertcli("read", *pipe.read, file, "--plain") for file in ("train", "dev"))
    (tmp_path / "dev.jsonl").write_bytes(dev.out)
    learned = bertcli("finetune", pipe.task, *FINETUNE, "-o", "model", "--dev", "dev.jsonl", stdin=train.out)
    assert learned.status == 0, learned.err
    predicted = bertcli("predict", "dev.jsonl", "-m", "model", "--plain", "--device", "cpu")
    assert predicted.status == 0, predicted.err
    assert without(predicted.records, "prediction", "details") == dev.records

    (scores,) = bertcli("score", pipe.task, stdin=predicted.out).records
    assert pipe.metrics <= scores.keys()
    assert scores == learned.records[0]["dev"]

    written = bertcli("write", *pipe.write, stdin=predicted.out)
    assert written.status == 0, written.err
    found, expected = pipe.rows(written.out.decode(), predicted.records)
    assert found == expected
    assert len(found) >= DEV

    # No answer is needed to get one.
    bare = without(dev.records, "label", "labels", "answers")
    again = bertcli("predict", "-m", "model", "--plain", "--device", "cpu", stdin=models.lines(bare)).records
    assert [record["prediction"] for record in again] == [record["prediction"] for record in predicted.records]


def test_a_submission_read_back_has_the_same_score(
    shell: Callable[..., Result], files: Callable[[Pipe], None], tmp_path: Path
) -> None:
    """As a user types it, through pipes of compressed records."""
    files(PIPES["glue-mrpc"])
    learned = shell("bertcli read glue-mrpc train | bertcli finetune classification -o model " + " ".join(FINETUNE))
    assert learned.status == 0, learned.err
    written = shell(
        "bertcli read glue-mrpc dev | bertcli predict -m model | tee predicted | bertcli write glue-mrpc > MRPC.tsv"
    )
    assert written.status == 0, written.err
    rows = (tmp_path / "MRPC.tsv").read_text().splitlines()
    assert [row.split("\t")[0] for row in rows] == ["index", *map(str, range(DEV))]
    scored = shell(
        "bertcli read glue-mrpc dev --predictions MRPC.tsv | bertcli score classification && "
        "bertcli score classification predicted"
    )
    submitted, predicted = scored.records
    assert submitted == predicted
    assert submitted["total"] == DEV


def test_the_other_files_of_squad(bertcli: Callable[..., Result], files: Callable[[Pipe], None]) -> None:
    files(PIPES["squad"])
    train, dev = (bertcli("read", "squad", file, "--plain") for file in ("train", "dev"))
    learned = bertcli("finetune", "span", *FINETUNE, "-o", "model", stdin=train.out)
    assert learned.status == 0, learned.err
    predicted = bertcli("predict", "-m", "model", "--nbest", 4, "--plain", "--device", "cpu", stdin=dev.out)
    nbest, odds = (json.loads(bertcli("write", f"squad-{n}", stdin=predicted.out).out) for n in ("nbest", "odds"))
    assert list(nbest) == list(odds) == [record["id"] for record in dev.records]
    for record in predicted.records:
        details = record["details"]
        assert odds[record["id"]] == pytest.approx(details["null_score"] - details["score"])
        told = [(each["text"], each["probability"]) for each in nbest[record["id"]]]
        assert told == [(each["text"], pytest.approx(each["probability"])) for each in details["nbest"]]
