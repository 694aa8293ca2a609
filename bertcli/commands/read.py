"""`read`: other people's files to documents or task records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import click

from bertcli.commands import options
from bertcli.commands.streams import Streams
from bertcli.formats import READERS, reader


@options.command(
    "read",
    kind=options.Kind.MAKES,
    reads="A file in FORMAT, as it is or compressed by zstd or gzip.",
    writes=(
        'Documents {"id", "sentences"} or {"id", "text"} from text; classification records {"id", "text", '
        '"label"} from glue-cola and glue-sst-2, without the label from their test files.'
    ),
    examples=[
        ("bertcli read text corpus.txt > docs.jsonl.zst", "A text becomes documents for pairs."),
        (
            "printf 'One.\\nTwo.\\n\\nThree.\\n' | bertcli read text --plain",
            "A sentence a line, documents by blank lines.",
        ),
        (
            "printf 'sentence\\tlabel\\na fine film \\t1\\n' | bertcli read glue-sst-2 --plain",
            "GLUE's own file becomes records to fine-tune on.",
        ),
    ],
)
@click.argument("name", metavar="FORMAT", type=click.Choice(list(READERS)))
@click.option(
    "--document",
    type=click.Choice(["blank-line", "file", "line"]),
    help="What ends a document of text: a blank line (the default), the file's end, or every line.",
)
@click.option(
    "--split",
    type=options.SPLIT,
    help="How text is cut into sentences: at line ends (the default), by rules or by sentencex, both for English.",
)
@options.inputs("FILE")
def command(streams: Streams, name: str, document: str | None, split: str | None) -> None:
    """Turn other people's files into documents or task records.

    FORMAT is text, glue-cola or glue-sst-2.

    A document is written as soon as it has ended, and only one is ever held. Its `id` is its number in the
    file, from "0", or a row's own index where the format has one; with several files, the file's name comes
    before it, as in "b.txt:0". With `--document line` each line becomes a document's `text`, unless `--split`
    asks for sentences.

    GLUE's files have no quoting: white space round a column is dropped, everything else is kept.
    """
    read, files = chosen(name, document, split), streams.lines()
    with streams.writer() as out:
        for lines in files:
            prefix = f"{lines.name}:" if len(streams.files) > 1 else ""
            for record in read(lines):
                out.write({**record, "id": prefix + record["id"]})


def chosen(name: str, document: str | None, split: str | None) -> Callable[..., Iterator[dict[str, Any]]]:
    """Returns the reader of a format with its own options; raises click's error for options that it lacks."""
    if name != "text":
        if document or split:
            raise click.UsageError(f"--document and --split are options of text, not of {name}")
        return reader(name)
    splitter = None
    if split or document != "line":
        from bertcli.text.sentences import SPLITS

        splitter = SPLITS[split or "lines"]
    return functools.partial(reader(name), border=document or "blank-line", split=splitter)
