"""`tokenize`: text or records to pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bertcli.commands import options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.text.wordpiece import WordPiece


@options.command(
    "tokenize",
    kind=options.Kind.ADDS,
    reads='Plain text, or records with "text" or "words", or with the field that --field names.',
    writes=(
        'The records with "tokens", "ids" and "offsets", [start, end) in code points of the original string, '
        'without [CLS] and [SEP]; for words "word_ids" too, and offsets within the word.'
    ),
    examples=[
        ("bertcli tokenize labelled.jsonl > tokenized.jsonl.zst", "The pieces of each record's text."),
        ("bertcli tokenize corpus.txt -v vocab.txt --plain", "The pieces of each line of a text."),
        (
            """echo '{"words": ["New York", "is", "big"]}' | bertcli tokenize --plain""",
            "Words keep their borders: word_ids says which word a piece is of.",
        ),
    ],
)
@options.inputs("FILE", text=True)
@click.option("--field", help="The field to tokenize, a string or a list of words.  [default: text, else words]")
@options.workers
@options.vocabulary
def command(streams: Streams, wordpiece: WordPiece, field: str | None, workers: int) -> None:
    """Add WordPiece tokens, ids and offsets to text or records.

    Special tokens written in a text are text. A word of over 100 characters, or with a character that the
    vocabulary lacks, is one [UNK] whose offsets cover the word; so is a word of a list of which nothing is left, as of
    a blank, so that each has a piece.
    """
    from bertcli.records import Anything, Words
    from bertcli.stages import Stage
    from bertcli.text.batch import PieceCounts, Tokenizing

    tokenizing = Tokenizing(wordpiece, field)
    stage = Stage(Anything if field else Words, each=tokenizing.checked, whole=tokenizing.batch)
    streams.filter(stage, PieceCounts(), text=True, workers=workers)
