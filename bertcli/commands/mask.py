"""`mask`: pairs to masked pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bertcli.commands import options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.text.mask import MaskRule
    from bertcli.text.wordpiece import WordPiece


@options.command(
    "mask",
    kind=options.Kind.ADDS,
    reads='Pairs, as pairs writes them: {"id"?, "tokens", "word_starts"?, …}.',
    writes='The same with "masked_positions" and "masked_tokens", the originals; "tokens" are corrupted.',
    examples=[
        ("bertcli mask pairs.jsonl.zst > train.jsonl.zst", "Hide 15% of the tokens."),
        (
            "bertcli pairs docs.jsonl | bertcli mask --whole-word --fates 100,0,0 --copies 2 --plain",
            "Whole words, always as [MASK], and each pair twice with other masks.",
        ),
        (
            "bertcli mask pairs.jsonl.zst --whole-word --ngram 3 --max-masks 20 > train.jsonl.zst",
            "Spans of up to three words, at most 20 tokens a sequence.",
        ),
    ],
)
@options.inputs("PAIRS")
@options.masking
@click.option(
    "--copies",
    type=options.Integer(1),
    default=1,
    show_default=True,
    help="How many times each pair is written, with other masks; from the second on #1, #2, … follow the id.",
)
@options.seed
@options.workers
@options.pieces
def command(streams: Streams, wordpiece: WordPiece, rule: MaskRule, copies: int, seed: int, workers: int) -> None:
    """Hide tokens of pairs for the masked language model.

    The number of hidden tokens is exact: --rate of a sequence's tokens, rounded, at least 1 and at most --max-masks,
    [CLS] and [SEP] counted but never hidden. Whole words that do not fit leave it short, even empty; a span is cut
    short at [SEP], at what is hidden already, and where the number is full. With --bernoulli, which excludes --ngram,
    the number varies, and may be 0.

    A record's masks depend on --seed and its id alone (on its place in the stream where it has no id), so that they
    stay the same under split and shuf.
    """
    from bertcli.records import Pair
    from bertcli.stages import Stage
    from bertcli.text.mask import MaskCounts, Masking

    masking = Masking(wordpiece, rule, copies=copies, seed=seed)
    stage = Stage(Pair, each=masking.masked, whole=masking.batch)
    streams.filter(stage, MaskCounts(), workers=workers)
