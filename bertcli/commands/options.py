"""The options that several commands share, each declared once.

A long option has one meaning everywhere. Options that belong together arrive as one object.
"""

from __future__ import annotations

import enum
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from bertcli.commands import owned
from bertcli.commands.streams import Streams

if TYPE_CHECKING:
    from bertcli.text.wordpiece import WordPiece

F = TypeVar("F", bound=Callable[..., Any])


class Integer(click.IntRange):
    """A whole number within bounds, called so in help and manual."""

    name = "integer"


class Number(click.FloatRange):
    """A finite number within bounds, called so in help and manual."""

    name = "number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the number; raises click's error for one out of bounds, infinite, or NaN."""
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", parameter, context)
        return number


class Threshold(click.types.FloatParamType):
    """A number of any size, infinity too."""

    name = "number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the number; raises click's error for NaN."""
        number = super().convert(value, parameter, context)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", parameter, context)
        return number


class Several(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Values of one type with commas between them, as a tuple."""

    def __init__(self, each: click.ParamType[Any]) -> None:
        """Take the type of each value."""
        self.each, self.name = each, f"{each.name}[,...]"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the values in their order; raises click's error for one that is not of the type, or there twice."""
        if isinstance(value, tuple):
            return value
        parts = [self.each.convert(part, parameter, context) for part in str(value).split(",")]
        if len(set(parts)) < len(parts):
            self.fail(f"{value!r} has a value twice", parameter, context)
        return tuple(parts)


class Kind(enum.Enum):
    """What a command makes of its input, in the words of its manual page; each kind has its contract in a test."""

    ADDS = "Each record comes out in its place, its other fields as they were; of empty input nothing."
    MAKES = "Records come out in the order of the input; of empty input nothing."
    LAYS_OUT = "Rows come out in the order of the input, an object at its end; of empty input none, or an empty one."
    SUMS_UP = "Nothing comes out before the input ends; an empty one gives a result too."
    LEARNS = "Nothing comes out before the input ends; an empty one is bad data."
    DRAWS = "Nothing comes out before the inputs end, each of which is drawn for itself; an empty one is bad data."
    STANDS_ALONE = "It is no part of a pipe."


class Command(click.Command):
    """A command that also says what it reads and writes, for its manual page, and shows itself at work."""

    def __init__(
        self, *args: Any, kind: Kind, reads: str, writes: str, examples: list[tuple[str, str]], **kwargs: Any
    ) -> None:
        """Keep `examples` as (shell line, what it does); each runs in a test.

        The first one names a file to read, where the command reads any: the contracts of its kind are tested with it.
        """
        super().__init__(*args, **kwargs)
        self.kind, self.reads, self.writes, self.examples = kind, reads, writes, examples


def command(name: str, **kwargs: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Returns click's decorator for a `Command`; takes `kind`, `reads`, `writes` and `examples`."""
    return click.command(name, cls=Command, context_settings={"help_option_names": ["-h", "--help"]}, **kwargs)


def applied(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Returns one decorator for several, to be read from top to bottom like a stack of them."""
    return lambda function: functools.reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)


def inputs(metavar: str, *, text: bool = False) -> Callable[[F], F]:
    """Adds the input files and the options of every stream; the command gets them as `streams`.

    `text` offers `--text` to commands that read plain lines beside records.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_streams(*args: Any, files: tuple[str, ...], **kwargs: Any) -> Any:
            given = {name: kwargs.pop(name) for name in ("plain", "quiet", "on_error")}
            streams = Streams(files, text=kwargs.pop("text", False), **given)
            return function(*args, streams=streams, **kwargs)

        decorators = [
            click.argument("files", nargs=-1, metavar=f"[{metavar}]...", type=click.Path(allow_dash=True)),
            click.option("--plain", is_flag=True, help="Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)."),
            quiet,
            on_error,
            *([as_text] if text else []),
        ]
        return applied(*decorators)(with_streams)  # type: ignore[return-value]

    return decorate


quiet = click.option("--quiet", "-q", is_flag=True, help="No progress and no summary on stderr.")
as_text = click.option("--text", is_flag=True, help="Take every input as plain text, even if it begins with '{'.")
on_error = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What a bad line does: stop the command, or be skipped and counted.",
)
seed = click.option(
    "--seed",
    type=Integer(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Where all randomness comes from: one input and one seed give the same records.",
)
SPLIT = click.Choice(["lines", "rules", "sentencex"])
workers = click.option(
    "--workers",
    type=Integer(1),
    default=1,
    show_default=True,
    help="Processes that share the work; the result is the same.",
)


# -- vocabulary -----------------------------------------------------------------------------------------------------


casing = applied(
    click.option("--cased/--uncased", default=None, help="Keep letters as they are, or lower-case them."),
    click.option("--strip-accents/--no-strip-accents", default=None, help="Remove combining marks."),
    click.option("--split-cjk/--no-split-cjk", default=None, help="Make every Chinese character a word."),
)


def opened(path: Path, streams: Streams, switches: dict[str, Any]) -> WordPiece:
    """Returns a vocabulary, and where texts are cut by it says on stderr how, and what is not looked for in them."""
    from bertcli.folder import unread
    from bertcli.text.wordpiece import WordPiece

    wordpiece, origin = WordPiece.open(path, **switches)
    if switches:
        streams.note(f"{path}: {wordpiece.casing} ({origin})")
    if switches and (told := unread(path.parent)):
        streams.warn(told)
    return wordpiece


def _with_wordpiece(function: F) -> F:
    @functools.wraps(function)
    def with_wordpiece(*args: Any, vocab: str, **kwargs: Any) -> Any:
        from bertcli.errors import NoInput
        from bertcli.folder import vocabulary_file

        switches: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("cased", "strip_accents", "split_cjk") if name in kwargs
        }
        source = click.get_current_context().get_parameter_source("vocab")
        start = kwargs.get("start")  # a model to begin from has its own vocabulary
        path = vocabulary_file(start if start and source is not ParameterSource.COMMANDLINE else Path(vocab))
        if source is ParameterSource.DEFAULT and not path.exists():
            raise NoInput(f"{path}: no such file; -v or $BERTCLI_VOCAB names the vocabulary")
        return function(*args, wordpiece=opened(path, kwargs["streams"], switches), **kwargs)

    option = click.option(
        "-v",
        "--vocab",
        envvar="BERTCLI_VOCAB",
        default="vocab.txt",
        show_default=True,
        show_envvar=True,
        help="The vocabulary, a piece a line, or a folder with one.",
    )
    return option(with_wordpiece)  # type: ignore[return-value]


def vocabulary(function: F) -> F:
    """Adds `-v` and the casing switches to a command that reads text; it gets its tokenizer as `wordpiece`."""
    return _with_wordpiece(casing(function))


def pieces(function: F) -> F:
    """Adds `-v` to a command that reads pieces, to which casing is nothing; it gets them as `wordpiece`."""
    return _with_wordpiece(function)


# -- masks ----------------------------------------------------------------------------------------------------------


def parse_fates(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, float, float]:
    """Returns `80,10,10` as shares of 1; raises click's error unless they are three that make 100."""
    try:
        shares = tuple(float(part) for part in value.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or not (min(shares) >= 0 and abs(sum(shares) - 100) < 1e-6):
        raise click.BadParameter(f"{value!r} is not three percentages that make 100, as in 80,10,10")
    mask, same, random = (share / 100 for share in shares)
    return mask, same, random


def masking(function: F) -> F:
    """Adds the options of masks; the command gets them as `rule`, a `MaskRule`."""

    @functools.wraps(function)
    def with_rule(*args: Any, **kwargs: Any) -> Any:
        from bertcli.text.mask import MaskRule

        rule = MaskRule(**{name: kwargs.pop(name) for name in MaskRule.__dataclass_fields__})
        return function(*args, rule=rule, **kwargs)

    rate = Number(0, 1, min_open=True)
    decorators = [
        click.option("--rate", type=rate, default=0.15, show_default=True, help="Share of the tokens to predict."),
        click.option(
            "--fates",
            default="80,10,10",
            show_default=True,
            callback=parse_fates,
            help="Percentages that become [MASK], stay the same, or become a random token (Table 8's columns).",
        ),
        click.option("--whole-word", is_flag=True, help="Mask all pieces of a word together."),
        click.option(
            "--bernoulli",
            is_flag=True,
            help="Choose each token, or word, by itself with probability --rate, not an exact number of them.",
        ),
        click.option(
            "--ngram",
            type=Integer(1, 512),
            default=1,
            show_default=True,
            help="Mask spans of up to so many tokens, or words: length n with probability proportional to 1/n.",
        ),
        click.option("--max-masks", type=Integer(1), help="Tokens to predict a sequence, at most."),
    ]
    return applied(*decorators)(with_rule)  # type: ignore[return-value]


def typed(*names: str) -> list[str]:
    """Returns those of a command's parameters that were given on its command line, as options."""
    source = click.get_current_context().get_parameter_source
    return [f"--{name.replace('_', '-')}" for name in names if source(name) is ParameterSource.COMMANDLINE]


# -- models ---------------------------------------------------------------------------------------------------------

model = click.option(
    "-m",
    "--model",
    envvar="BERTCLI_MODEL",
    default="model",
    show_default=True,
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="The model folder.",
)


def _models(context: click.Context, parameter: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    return value or (Path(os.environ.get("BERTCLI_MODEL") or "model"),)


# Not by click's `envvar`, which would take a path with a colon in it for two.
models = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    callback=_models,
    type=click.Path(path_type=Path),
    help="The model folder; of several, the mean of their answers counts.  [env var: BERTCLI_MODEL; default: model]",
)
spans = applied(
    owned.option(
        ("span",),
        "--stride",
        type=Integer(1),
        help="Tokens from one window to the next, half a window at most.  [default: 128]",
    ),
    owned.option(("span",), "--max-question", type=Integer(1), help="A question's tokens, at most.  [default: 64]"),
    owned.option(("span",), "--max-answer", type=Integer(1), help="An answer's tokens, at most.  [default: 30]"),
)
