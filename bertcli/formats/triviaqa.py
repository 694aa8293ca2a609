"""TriviaQA's questions over Wikipedia as span records, to learn from before SQuAD (section 4.2, footnote 12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from bertcli.errors import BadData, NoInput
from bertcli.formats.tree import Node, document, elements
from bertcli.lines import Lines
from bertcli.records import Record


def read(
    lines: Lines, *, evidence: Path, words: int = 400, note: Callable[[str], None] = lambda message: None
) -> Iterator[Record]:
    """Yields a span record a question and page: its context is the page's first so many words, told by white space.

    A page is left out whose words hold none of the answers; `note` gets how many were kept, when the file has ended.
    The answer is the first alias that occurs, whatever its case, where it first does. Questions without an answer have
    all their pages. Pages are files of `evidence`, or of its folder `wikipedia`. Raises `NoInput` for a page that is
    not there, and `BadData` with the place of what is not as it should be.
    """
    pages = evidence / "wikipedia" if (evidence / "wikipedia").is_dir() else evidence
    root = document(lines)
    total = kept = 0
    for question in elements(root, "Data", lines) if root else ():
        try:
            records = [_record(question, name, pages, words) for name in _names(question)]
        except BadData as error:
            lines.fault(error.at(lines.name, None))
            continue
        found = [record for record in records if record.get("answers") != []]
        total, kept = total + len(records), kept + len(found)
        yield from found
    note(f"{lines.name}: {kept} of {total} pages kept, the others without an answer in their first {words} words")


def _names(question: Node) -> list[str]:
    """Returns the files of a question's pages, each once; raises `BadData` for one that is outside of the evidence."""
    names = [page["Filename"] for page in question["EntityPages"].elements()]
    for name in names:
        path = PurePosixPath(name.text)
        if path.is_absolute() or ".." in path.parts or "\0" in name.text:
            raise BadData(field=name.place, found=name.text, expected="a file of the evidence")
    return list(dict.fromkeys(name.text for name in names))


def _record(question: Node, name: str, pages: Path, words: int) -> Record:
    """Returns the record of a page, its `answers` [] where none occurs."""
    context = _beginning(_page(pages / name), words)
    record = {
        "id": f"{question['QuestionId'].text}--{name}",
        "question": question["Question"].text,
        "context": context,
    }
    if question["Answer"].value is None:
        return record
    return {**record, "answers": _answers(context, _aliases(question["Answer"]))}


def _aliases(answer: Node) -> list[str]:
    """Returns all names of an answer, its own first."""
    lists = [answer[name] for name in ("Aliases", "NormalizedAliases")]
    others = chain.from_iterable(each.elements() for each in lists if each.value is not None)
    return [alias.text for alias in [answer["Value"], *others]]


def _page(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise NoInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadData(
            f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}", file=str(path)
        ) from None


def _beginning(text: str, words: int) -> str:
    """Returns a text up to the end of so many words, as it is written."""
    ends = [match.end() for match in islice(re.finditer(r"\S+", text), words)]
    return text[: ends[-1]] if ends else ""


def _answers(context: str, aliases: list[str]) -> list[dict[str, Any]]:
    """Returns the first alias that occurs, as the context spells it."""
    folded = context.casefold()
    origin: Sequence[int] = range(len(context))
    if len(folded) > len(context):  # ß is ss
        origin = [index for index, character in enumerate(context) for _ in character.casefold()]
    for wanted in filter(None, (alias.strip().casefold() for alias in aliases)):
        place = folded.find(wanted)
        if place >= 0:
            start, end = origin[place], origin[place + len(wanted) - 1] + 1
            return [{"text": context[start:end], "start": start}]
    return []
