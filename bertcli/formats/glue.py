"""GLUE's TSV files, in the official layouts of its tasks, and its submissions (paper §4.1).

Tabs part the columns, nothing is quoted, and white space round a column is dropped. Which column holds what is told
by the names in the header, so that a file may have others: MNLI's parses, more annotators' labels.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bertcli.errors import BadData
from bertcli.formats import Fault, rows, stop
from bertcli.lines import Lines
from bertcli.records import Record, as_text

LOW, HIGH = 0, 5  # of STS-B's scores

# -- the tasks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The header's names for the columns of one layout: the text or two, the label, which test files lack.

    `headerless` are those of a file that has none.
    """

    texts: tuple[str, ...]
    label: str = "label"
    headerless: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns what a file of this layout begins with, as messages show it."""
        named = f"a header with {' and '.join(map(repr, self.texts))}"
        return f"{named}, or {len(self.headerless)} columns without one" if self.headerless else named


@dataclass(frozen=True)
class Task:
    """The layouts of a task's files, and its labels; without any, the label is a number from 0 to 5."""

    labels: tuple[str, ...]
    layouts: tuple[Names, ...]

    def answer(self, value: Any, field: str) -> str | float:
        """Returns a label or a number; raises `BadData` for one that the task does not have."""
        if self.labels:
            if value not in self.labels:
                raise BadData(field=field, found=value, expected=" or ".join(self.labels))
        elif type(value) not in (int, float):
            raise BadData(field=field, found=value, expected="a number")
        found: str | float = value
        return found


BINARY, ENTAILMENT = ("0", "1"), ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")
SENTENCES = ("sentence1", "sentence2")
TASKS = {
    "cola": Task(BINARY, (Names(("sentence",), headerless=("source", "label", "original", "sentence")),)),
    "sst-2": Task(BINARY, (Names(("sentence",)),)),
    "mrpc": Task(BINARY, (Names(("#1 String", "#2 String"), "Quality"),)),
    "sts-b": Task((), (Names(SENTENCES, "score"),)),
    "qqp": Task(BINARY, (Names(("question1", "question2"), "is_duplicate"),)),
    "mnli": Task(INFERENCE, (Names(SENTENCES, "gold_label"),)),
    "qnli": Task(ENTAILMENT, (Names(("question", "sentence")),)),
    "rte": Task(ENTAILMENT, (Names(SENTENCES),)),
    "wnli": Task(BINARY, (Names(SENTENCES),)),
    # The second is that of the file with labels, published when the test was over.
    "ax": Task(INFERENCE, (Names(SENTENCES), Names(("Premise", "Hypothesis"), "Label"))),
}
INDICES = ("index", "id")  # QQP's files for training have the latter


# -- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Which columns of one file hold what, counted from 0."""

    task: Task
    columns: int
    has_header: bool
    texts: tuple[int, ...]
    label: int | None
    index: int | None

    def record(self, cells: list[str], index: str) -> Record:
        """Returns the record of a row."""
        cells = [cell.strip() for cell in cells]
        found: Record = {"id": index if self.index is None else cells[self.index]}
        found |= zip(("text", "text_pair"), (cells[place] for place in self.texts), strict=False)
        if self.label is not None:
            found["label"] = _answer(self.task, cells[self.label], "label")
        return found


def read(lines: Lines, task: str) -> Iterator[Record]:
    """Yields a task's records, classification's or for sts-b regression's.

    Their `id` is the file's own index or else the row's, from "0". The first row tells the layout; of a file without
    labels the records have none. Raises `BadData` where a row has other columns, or a label that is not the task's.
    """
    return rows.records(lines, rows.tsv(lines), functools.partial(_layout, TASKS[task]))


def _layout(task: Task, first: list[str]) -> Layout:
    first = [cell.strip() for cell in first]
    for names in task.layouts:
        for header, has_header in ((first, True), (list(names.headerless), False)):
            if len(header) == len(first) and set(names.texts) <= set(header):
                texts = tuple(map(header.index, names.texts))
                label, index = _place(header, names.label), _place(header, *INDICES)
                return Layout(task, len(first), has_header, texts, label, index)
    expected = " or ".join(map(str, task.layouts))
    raise BadData("the first line tells no layout", found="\t".join(first), expected=expected)


def _place(header: list[str], *names: str) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _answer(task: Task, cell: str, field: str) -> str | float:
    return task.answer(cell, field) if task.labels else rows.number(cell, field, LOW, HIGH)


# -- submissions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Submission:
    """The layout of a file of answers: its columns, and which of them are the index and the prediction."""

    task: Task
    columns: int
    index: int
    prediction: int
    has_header = True

    def record(self, cells: list[str], _: str) -> Record:
        """Returns the record of a row; of sts-b it may lie outside the scale."""
        answer = cells[self.prediction].strip()
        known = self.task.answer(answer, "prediction") if self.task.labels else rows.number(answer, "prediction")
        return {"id": cells[self.index].strip(), "prediction": known}


def predictions(lines: Lines, task: str) -> dict[str, Any]:
    """Returns the predictions of a submission by index; raises `BadData` for an index that is there twice."""
    found: dict[str, Any] = {}
    for record in rows.records(lines, rows.tsv(lines), functools.partial(_submission, TASKS[task])):
        if record["id"] in found:
            lines.fault(BadData(field="index", found=record["id"], expected="each index once"))
        else:
            found[record["id"]] = record["prediction"]
    return found


def _submission(task: Task, first: list[str]) -> Submission:
    header = [cell.strip() for cell in first]
    index, prediction = _place(header, "index"), _place(header, "prediction")
    if index is None or prediction is None:
        raise BadData(found="\t".join(first), expected="a header with 'index' and 'prediction'")
    return Submission(task, len(header), index, prediction)


def write(records: Iterable[Record], fault: Fault = stop, *, task: str) -> Iterator[bytes]:
    """Yields the lines of a submission: a record's id, and its `prediction` or else its `label`; STS-B's within 0-5.

    A fault is an id that is no index or came before, and a label that is not the task's.
    """
    seen: set[str] = set()
    for record in records:
        try:
            index, answer = _index(record, seen), _submitted(record, TASKS[task])
        except BadData as error:
            fault(error)
            continue
        head = "" if seen else "index\tprediction\n"
        seen.add(index)
        yield f"{head}{index}\t{answer}\n".encode()


def _index(record: Record, seen: set[str]) -> str:
    index = as_text(record.get("id"))
    if not (index.isascii() and index.isdigit()):
        raise BadData(field="id", found=record.get("id"), expected="the index of a row, a whole number")
    index = str(int(index))
    if index in seen:
        raise BadData(field="id", found=index, expected="each index once")
    return index


def _submitted(record: Record, task: Task) -> str:
    field = "label" if record.get("prediction") is None else "prediction"
    if record.get(field) is None:
        raise BadData(field="prediction", found=None, expected="a prediction, or else a label")
    answer = task.answer(record[field], field)
    # 0.0 is added lest a small negative number be written as -0.000.
    return answer if isinstance(answer, str) else f"{min(max(answer, LOW), HIGH) + 0.0:.3f}"
