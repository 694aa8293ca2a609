"""`vocab`: text to a WordPiece vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams


@options.command(
    "vocab",
    kind=options.Kind.LEARNS,
    reads="Plain text, or documents.",
    writes=(
        "The vocabulary, plain, a piece a line: [PAD] [UNK] [CLS] [SEP] [MASK], the alphabet, then longer "
        "pieces, those of the most frequent pairs first."
    ),
    examples=[
        ("bertcli vocab corpus.txt --size 500 > pieces.txt", "Learn 500 pieces from a text, lower-cased."),
        (
            "bertcli vocab docs.jsonl --size 500 --cased > cased.txt",
            "Learn from documents and keep the case.",
        ),
    ],
)
@options.inputs("TEXT", text=True)
@click.option("--size", type=options.Integer(7), default=30000, show_default=True, help="Pieces at most.")
@options.casing
def command(streams: Streams, size: int, **switches: Any) -> None:
    """Learn a WordPiece vocabulary from text.

    The same text gives the same vocabulary, whatever the order of its lines. Letters are lower-cased and lose
    their accents, unless over 1% of them are Hangul: then accents stay. The alphabet takes at most half of
    the vocabulary, or 200 pieces of a small one; the rarest characters beyond that become [UNK]. Words of
    over 100 characters are left out and counted. A pair of pieces that occurs only once is not joined, so that
    a small text gives fewer pieces.
    """
    from bertcli.records import Document
    from bertcli.text.vocab import texts, train

    records = streams.reader(Document, text=True)
    pieces, summary = train((text for record in records for text in texts(record)), size, **switches)
    streams.write_plain("".join(f"{piece}\n" for piece in pieces).encode())
    streams.report_skipped()
    streams.note(str(summary))
