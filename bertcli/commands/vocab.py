"""`vocab`: text to a WordPiece vocabulary."""

from __future__ import annotations

from typing import Any

import click

from bertcli.commands.options import Streams, casing, command, inputs


@command(
    "vocab",
    reads="Plain text, or documents.",
    writes="The vocabulary, a piece a line: [PAD] [UNK] [CLS] [SEP] [MASK], the alphabet, then pieces by frequency.",
    examples=[
        ("bertcli vocab corpus.txt --size 500 > pieces.txt", "Learn 500 pieces from a text, lower-cased."),
        ("bertcli vocab docs.jsonl --size 500 --cased > cased.txt", "Learn from documents and keep the case."),
    ],
)
@inputs("TEXT", text=True)
@click.option("--size", type=click.IntRange(7), default=30000, show_default=True, help="Pieces at most.")
@casing
def vocab(streams: Streams, size: int, **switches: Any) -> None:
    """Learn a WordPiece vocabulary from text.

    The same text gives the same vocabulary, whatever the order of its lines. Letters are lower-cased and lose their
    accents, unless over 1% of them are Hangul: then accents stay. The alphabet takes at most half of the vocabulary;
    the rarest characters beyond that become [UNK]. Words of over 100 characters are left out and counted.
    """
    from bertcli.records import Document
    from bertcli.text.vocab import texts, train

    found = (text for record in streams.reader(Document, text=True) for text in texts(record))
    pieces, summary = train(found, size, **switches)
    streams.write_plain("".join(f"{piece}\n" for piece in pieces).encode())
    streams.report_skipped()
    streams.note(str(summary))


command = vocab
