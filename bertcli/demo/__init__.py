"""What `bertcli demo` works on: thirty chapters of fourteen works of 1776 to 1885, in the public domain.

The task made from them is to tell passages of novels from passages of memoirs, essays and treatises. Whole chapters
are held out, of pre-training too.
"""

from __future__ import annotations

from pathlib import Path

from bertcli.records import Record
from bertcli.stream import dumps

CORPUS = Path(__file__).with_name("corpus.txt")  # a sentence a line, a blank line between chapters
# Numbers of chapters, from 1.
FICTION = {1, 2, 7, 8, 9, 10, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23}
HELD_OUT = {2, 4, 6, 10, 12, 18, 21, 26, 28, 30}
PASSAGE = 3  # sentences


def write(folder: Path) -> None:
    """Write `corpus.txt` and `heldout.txt`, chapters a sentence a line, and `passages.jsonl` and `heldout.jsonl`.

    The latter hold classification records with the labels `fact` and `fiction`.
    """
    chapters = list(enumerate(CORPUS.read_text(encoding="utf-8").strip().split("\n\n"), 1))
    for text, passages, held_out in (("corpus.txt", "passages.jsonl", False), ("heldout.txt", "heldout.jsonl", True)):
        own = [(number, chapter) for number, chapter in chapters if (number in HELD_OUT) == held_out]
        (folder / text).write_text("\n\n".join(chapter for _, chapter in own) + "\n", encoding="utf-8")
        records = [record for number, chapter in own for record in _passages(number, chapter)]
        (folder / passages).write_bytes(b"".join(dumps(record) + b"\n" for record in records))


def _passages(number: int, chapter: str) -> list[Record]:
    sentences = chapter.split("\n")
    starts = range(0, len(sentences) - PASSAGE + 1, PASSAGE)
    label = "fiction" if number in FICTION else "fact"
    return [
        {"id": f"{number}-{start // PASSAGE}", "text": " ".join(sentences[start : start + PASSAGE]), "label": label}
        for start in starts
    ]
