"""`pairs`: documents to pairs of segments."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.text.wordpiece import WordPiece


@options.command(
    "pairs",
    kind=options.Kind.MAKES,
    reads='Documents: {"id"?, "text"} or {"id"?, "sentences"}, a sentence being a string or a list of words.',
    writes=(
        'Pairs {"id", "tokens", "segment_b", "is_next", "word_starts"}, with [CLS] and [SEP]; with --single '
        'segments without "segment_b" and "is_next".'
    ),
    examples=[
        ("bertcli pairs docs.jsonl --max-length 64 > pairs.jsonl.zst", "Pairs of at most 64 tokens."),
        (
            "bertcli read text corpus.txt | bertcli pairs --single --plain",
            "Segments for a model without pairs.",
        ),
    ],
)
@options.inputs("DOCS")
@click.option(
    "--max-length",
    type=options.Integer(5),
    default=128,
    show_default=True,
    help="Tokens per sequence, [CLS] and [SEP] included.",
)
@click.option(
    "--short",
    type=options.Number(0, 1),
    default=0.1,
    show_default=True,
    help="Share of the documents that are cut into shorter pairs, of a random length.",
)
@click.option(
    "--copies",
    type=options.Integer(1),
    default=1,
    show_default=True,
    help="How many times each document is cut, at random anew; under --single from another first cut on.",
)
@click.option(
    "--window",
    type=options.Integer(1),
    metavar="DOCUMENTS",
    help="How many of the last documents random segments come from, but 32 million tokens at most.  [default: 1000]",
)
@click.option("--pool", metavar="FILE", help="Documents that random segments come from, not the window; all are held.")
@click.option("--single", is_flag=True, help="Pack sentences into segments, without pairing.")
@click.option(
    "--split",
    type=options.SPLIT,
    default="rules",
    show_default=True,
    help="How a text is cut into sentences: at line ends, by rules or by the sentencex package, both for English.",
)
@options.workers
@options.seed
@options.vocabulary
def command(
    streams: Streams, wordpiece: WordPiece, pool: str | None, split: str, workers: int, seed: int, **rule: Any
) -> None:
    """Cut documents into pairs of segments for next-sentence prediction.

    Segment A is followed by its true continuation (is_next true) or, half of the time and where no sentence is left
    to follow, by a passage of another document. A document is cut as soon as the next one has been read; the other
    documents are that one and the last ones before, or --pool, and never the document itself or a copy of it. Empty
    sentences and documents are skipped and counted.
    """
    from bertcli.records import Document
    from bertcli.stages import Stage
    from bertcli.text.pairing import Codebook, Pairing, PairRule
    from bertcli.text.sentences import SPLITS

    if sum(map(bool, (pool, rule["window"], rule["single"]))) > 1:
        raise click.UsageError("--pool, --window and --single exclude each other")
    codebook = Codebook(wordpiece, SPLITS[split])
    stage = Stage(Document, each=codebook.split, whole=codebook.documents)
    pairing = Pairing(codebook, PairRule(**rule), seed)
    others = [*chain.from_iterable(streams.of(pool).made(stage, workers=workers))] if pool else None
    streams.write(pairing.pairs(chain.from_iterable(streams.made(stage, workers=workers)), others))
    streams.sum_up(pairing.summary)
