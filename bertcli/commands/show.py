"""`show`: what is in a model folder, a vocabulary or a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bertcli.commands import options
from bertcli.commands.streams import Streams
from bertcli.errors import BadData

# Files that are neither, by what their names end in.
TENSORS = "tensors, of which `bertcli convert` makes a model folder"
UNSHOWN = dict.fromkeys((".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".index"), TENSORS)
UNSHOWN |= dict.fromkeys((".npy", ".npz"), "arrays")


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
    from bertcli import show

    streams = Streams((path,), plain=True, quiet=False, on_error="stop", text=False)
    found = described(streams, path)
    if as_json:
        streams.write_result(found)
    else:
        streams.write_plain("".join(f"{line}\n" for line in show.lines(found)).encode())


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(1 << 12)


def described(streams: Streams, path: str) -> dict[str, Any]:
    """Returns what is there; stderr says where a model is only the best yet."""
    from bertcli import folder, show, target
    from bertcli.records import Anything

    kind = UNSHOWN.get(Path(path).suffix)
    if kind and Path(path).is_file() and not _is_text(Path(path)):
        raise BadData(f"{kind}; expected a model folder, a vocabulary or a stream", file=path)
    if path == "-" or not (Path(path).is_dir() or folder.is_vocabulary(Path(path))):
        return show.stream(streams.reader(Anything, text=True))
    if not Path(path).is_dir():
        return show.vocabulary(Path(path))
    found = show.model(Path(path))
    if told := target.best_yet(Path(path)):
        streams.warn(told)
    return found
