"""`show`: what is in a model folder, a vocabulary or a stream."""

from __future__ import annotations

from pathlib import Path

import click

from bertcli.commands import options
from bertcli.commands.streams import Streams


@options.command(
    "show",
    kind=options.Kind.SUMS_UP,
    reads="A model folder, a vocabulary (vocab.txt), or a stream of records or text; stdin is a stream.",
    writes="What is in it, as lines for people, or with --json as one JSON object.",
    examples=[
        ("bertcli show train.jsonl.zst", "The fields of a stream, and its first record."),
        ("bertcli show model", "Sizes, parameters by part, casing, labels, how it was made."),
        ("bertcli show vocab.txt --json | grep -o '\"pieces\":[0-9]*'", "One figure of a vocabulary."),
    ],
)
@click.argument("path", type=click.Path(allow_dash=True), default="-")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def command(path: str, as_json: bool) -> None:
    """Say what is in a model folder, a vocabulary or a stream.

    A stream is read to its end.
    """
    from bertcli import folder, show
    from bertcli.records import Anything

    streams = Streams((path,), plain=True, quiet=False, on_error="stop", text=False)
    if Path(path).is_dir():
        found = show.model(Path(path))
    elif path != "-" and folder.is_vocabulary(Path(path)):
        found = show.vocabulary(Path(path))
    else:
        found = show.stream(streams.reader(Anything, text=True))
    if as_json:
        streams.write_result(found)
    else:
        streams.write_plain("".join(f"{line}\n" for line in show.lines(found)).encode())
