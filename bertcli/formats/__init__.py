"""One file a foreign data format, reading and writing side by side.

A reader takes one file's `lines.Lines` and yields its records, each as soon as its last line is there. Ids
are strings and begin anew in each file, but for formats of `GLOBAL_IDS`. A writer takes records, and what to do about
one that is bad, and yields the pieces of a file. Where a format has a file of answers alone, its `predictions` are a
dict by id.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from bertcli.errors import BadData
from bertcli.records import Record

if TYPE_CHECKING:
    from bertcli.lines import Lines

Reader = Callable[..., Iterator[Record]]
Writer = Callable[..., Iterator[bytes]]
Fault = Callable[[BadData], None]  # raises an error with its place, or counts the record as passed over


def stop(error: BadData) -> None:
    """Raise the error: what a writer does about a bad record unless it is told otherwise."""
    raise error


class Place(NamedTuple):
    """A file of this folder, a function of it, and the options that a format always gives it."""

    file: str
    function: str
    options: dict[str, str] = {}  # noqa: RUF012 (never changed)

    def load(self) -> Callable[..., Any]:
        """Returns the function, its file imported now."""
        function = getattr(importlib.import_module(f"{__name__}.{self.file}"), self.function)
        return functools.partial(function, **self.options)


def _glue(function: str) -> dict[str, Place]:
    tasks = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "ax")
    return {f"glue-{task}": Place("glue", function, {"task": task}) for task in tasks}


READERS = {
    "text": Place("text", "documents"),
    **_glue("read"),
    "squad": Place("squad", "read"),
    "triviaqa": Place("triviaqa", "read"),
    "swag": Place("swag", "read"),
    "blimp": Place("blimp", "read"),
    "conll": Place("conll", "read"),
    "csv": Place("table", "read_csv"),
    "tsv": Place("table", "read_tsv"),
}  # the names that `read` takes
WRITERS = {
    **_glue("write"),
    "squad": Place("squad", "write"),
    "squad-nbest": Place("squad", "write_nbest"),
    "squad-odds": Place("squad", "write_odds"),
    "conll": Place("conll", "write"),
    "csv": Place("table", "write_csv"),
    "tsv": Place("table", "write_tsv"),
    "npy": Place("vectors", "write_npy"),
    "safetensors": Place("vectors", "write_safetensors"),
}  # the names that `write` takes
PREDICTIONS = {**_glue("predictions"), "squad": Place("squad", "predictions")}
GLOBAL_IDS = {"squad", "triviaqa", "blimp"}


def reader(name: str) -> Reader:
    """Returns the reader of a format, its file imported now."""
    return READERS[name].load()


def writer(name: str) -> Writer:
    """Returns the writer of a format, its file imported now."""
    return WRITERS[name].load()


def predictions(name: str, lines: Lines) -> dict[str, Any]:
    """Returns the answers in a format's file of answers, by id."""
    found: dict[str, Any] = PREDICTIONS[name].load()(lines)
    return found


def answered(read: Reader, answers: dict[str, Any], source: str, lines: Lines) -> Iterator[Record]:
    """Yields the records that a reader finds, each with the answer to its id as `prediction`.

    Raises `BadData` for a record without an answer, and at the end for answers without a record; `source` is what
    messages call the file of answers.
    """
    surplus = dict.fromkeys(answers)
    for record in read(lines):
        identity = record["id"]
        if identity in answers:
            surplus.pop(identity, None)
            yield {**record, "prediction": answers[identity]}
        else:
            lines.fault(BadData(field="id", found=identity, expected=f"an id that {source} has"))
    if surplus:
        lines.fault(BadData(f"no record has the id {next(iter(surplus))!r}", file=source))
