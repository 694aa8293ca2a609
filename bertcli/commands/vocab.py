"""`vocab`: text to a WordPiece vocabulary."""

from __future__ import annotations

from pathlib import Path
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
        "The vocabulary, plain, a piece a line: [PAD] [UNK] [CLS] [SEP] [MASK], the alphabet, then longer pieces, "
        "those of the most frequent pairs first; with --extend the old pieces, then the new ones."
    ),
    examples=[
        ("bertcli vocab corpus.txt --size 500 > pieces.txt", "Learn 500 pieces from a text, lower-cased."),
        (
            "bertcli vocab docs.jsonl --size 500 --cased > cased.txt",
            "Learn from documents and keep the case.",
        ),
        ("bertcli vocab corpus.txt --extend model > extended.txt", "Add words of a domain to a model's."),
    ],
)
@options.inputs("TEXT", text=True)
@click.option(
    "--size",
    type=options.Integer(7, 2**31 - 1),
    help="Pieces at most, all counted.  [default: 30000; with --extend 1000 more than OLD has]",
)
@click.option(
    "--alphabet",
    "characters",
    metavar="PIECES",
    type=options.Integer(1),
    help="Pieces of one character to add, at most.  [default: half of what --size has room for, at least 200]",
)
@click.option(
    "--min-count",
    type=options.Integer(1),
    default=2,
    show_default=True,
    help="How often a pair of pieces must come to be joined, and a piece of several characters to stay.",
)
@click.option(
    "--special",
    type=click.Choice(["first", "google"]),
    help="Ids of [PAD] [UNK] [CLS] [SEP] [MASK]: 0-4, or 0 and 100-103 with [unusedN] between.  [default: first]",
)
@click.option("--extend", metavar="OLD", type=click.Path(path_type=Path), help="Add to a vocabulary, whose ids stay.")
@options.workers
@options.casing
def command(
    streams: Streams,
    size: int | None,
    characters: int | None,
    min_count: int,
    special: str | None,
    extend: Path | None,
    workers: int,
    **switches: Any,
) -> None:
    """Learn a WordPiece vocabulary from text.

    The same text gives the same vocabulary, whatever the order of its lines. Letters are lower-cased and lose their
    accents, unless over 1% of them are Hangul: then accents stay. Each character is a piece, and with ## another
    one where it stands inside words, the most frequent first, up to --alphabet; words with rarer characters become
    [UNK]. Longer pieces that come less often than --min-count are left out, so that a small text gives fewer pieces.
    Words of over 100 characters teach nothing, and are counted.

    With --extend, OLD is a vocabulary or a folder with one: the characters that it lacks are added, up to --alphabet,
    then longer pieces that go on from how it cuts the text. Its casing is the default.
    """
    from bertcli.folder import vocabulary_file
    from bertcli.records import Document
    from bertcli.stages import Stage
    from bertcli.text.counts import BATCH, WordCounter, texts
    from bertcli.text.vocab import splits_cjk, train

    old = options.opened(vocabulary_file(extend), streams, switches) if extend else None
    counter = WordCounter(split_cjk=splits_cjk(old, switches["split_cjk"]))
    counts = streams.made(Stage(Document, texts, counter.count, BATCH), text=True, workers=workers)
    rule = {"special": special, "min_count": min_count, "characters": characters, "old": old, **switches}
    pieces, summary = train(counts, size, **rule)
    streams.write_plain("".join(f"{piece}\n" for piece in pieces).encode())
    streams.report_skipped()
    streams.sum_up(summary)
