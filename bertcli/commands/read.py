"""`read`: other people's files to documents or task records."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bertcli.commands import foreign, options, owned
from bertcli.commands.streams import Streams, readable
from bertcli.formats import GLOBAL_IDS, PREDICTIONS, READERS, Reader, answered, predictions, reader
from bertcli.schemes import SCHEMES


@options.command(
    "read",
    kind=options.Kind.MAKES,
    reads=(
        "A file in FORMAT, as it is or compressed by zstd or gzip: text, csv and tsv; the official files of GLUE's "
        "nine tasks and AX (glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli "
        "glue-ax), for training, development and test; squad (1.1 and 2.0), triviaqa, swag (both layouts), blimp, "
        "conll."
    ),
    writes=(
        'text: documents {"id", "sentences"} or {"id", "text"}. GLUE, csv, tsv: {"id", "text", "text_pair"?, "label"?} '
        '(a name, of glue-sts-b and with --number a number; with --several "labels"). squad, triviaqa: {"id", '
        '"question", "context", "answers"?}. swag: {"id", "text", "choices", "label"?}. blimp: {"id", "good", "bad", '
        '"phenomenon", "paradigm"}. conll: {"id", "words", "labels"?, "columns"?, "sentences"?, "document"?}.'
    ),
    examples=[
        ("bertcli read text corpus.txt > docs.jsonl.zst", "A text becomes documents for pairs."),
        (
            "printf 'One.\\nTwo.\\n\\nThree.\\n' | bertcli read text --plain",
            "A sentence a line, documents by blank lines.",
        ),
        ("bertcli read glue-sst-2 train.tsv > train.jsonl.zst", "GLUE's own file becomes records to fine-tune on."),
        (
            "bertcli read glue-sst-2 train.tsv --predictions SST-2.tsv | bertcli score classification",
            "Somebody's submission is scored.",
        ),
        (
            "bertcli read csv reviews.csv --text review --label stars --number > reviews.jsonl.zst",
            "Columns of your own, by the names in the header.",
        ),
        (
            "printf 'good\\tfun,short\\nbad\\t\\n' | bertcli read tsv --no-header --text 1 --label 2 --several ,",
            "Several labels a text, or none; the columns by number.",
        ),
    ],
)
@click.argument("name", metavar="FORMAT", type=click.Choice(list(READERS)))
@owned.option(
    ("text",),
    "--document",
    "border",
    type=click.Choice(["blank-line", "file", "line"]),
    help="What ends a document: a blank line (the default), the file's end, or every line.",
)
@owned.option(
    ("text",),
    "--split",
    type=options.SPLIT,
    help="How it is cut into sentences: at line ends (the default), by rules or by sentencex, both for English.",
)
@owned.option(
    tuple(PREDICTIONS),
    "--predictions",
    type=click.Path(allow_dash=True),
    help="An official file of answers, put beside the records as `prediction`.",
)
@owned.option(
    ("triviaqa",),
    "--evidence",
    metavar="DIR",
    type=click.Path(path_type=Path),
    needed=True,
    help="Where the pages are.",
)
@owned.option(
    ("triviaqa",), "--words", type=options.Integer(1), help="Words of a page to keep, its first.  [default: 400]"
)
@owned.option(
    ("swag",),
    "--seed",
    type=options.Integer(0, 2**63 - 1),
    help="Where it puts the right endings of the full layout.  [default: 0]",
)
@owned.option(("conll",), "--documents", is_flag=True, help="A record a document, not a sentence.")
@owned.option(
    ("conll",),
    "--scheme",
    type=click.Choice(SCHEMES, case_sensitive=False),
    help="Spell the labels anew in this scheme.",
)
@owned.option(
    foreign.TABLES, "--text", "text_column", metavar="COLUMN", help="The column of the text.  [default: text]"
)
@owned.option(
    foreign.TABLES,
    "--text-pair",
    "pair_column",
    metavar="COLUMN",
    help="That of the second.  [default: text_pair, if any]",
)
@owned.option(
    foreign.TABLES, "--label", "label_column", metavar="COLUMN", help="That of the label.  [default: label, if any]"
)
@owned.option(foreign.TABLES, "--id", "id_column", metavar="COLUMN", help="That of the id.  [default: id, if any]")
@owned.option(foreign.TABLES, "--number", is_flag=True, help="The label is a number.")
@foreign.several
@owned.option(foreign.TABLES, "--no-header", "headerless", is_flag=True, help="Columns have numbers, from 1.")
@foreign.delimiter
@options.inputs("FILE")
def command(streams: Streams, name: str, **given: Any) -> None:
    """Turn other people's files into documents or task records.

    FORMAT is text, a task of GLUE (glue-cola, glue-sst-2, glue-mrpc, glue-sts-b, glue-qqp, glue-mnli, glue-qnli,
    glue-rte, glue-wnli, or its diagnostic set glue-ax), squad, triviaqa, swag, blimp, conll, csv or tsv.

    A record is written as soon as its last line is there, but for squad and triviaqa, whose files are one object. Its
    `id` is its number in the file, from "0", or the file's own where the format has one; with several files, the file's
    name comes before it, as in "b.txt:0" (with the folders below the one that all are in), but for squad, triviaqa and
    blimp, whose ids are unique. With `--document line` each line becomes a document's `text`, unless `--split` asks for
    sentences. The rows of conll have up to five columns, first the word and last the label; those between pass as
    `columns`, and `document` tells where -DOCSTART- stood. The other fields of blimp pass under their own names.

    GLUE's columns are found by the names in the header, so that others may be there too; nothing is quoted, and white
    space round a column is dropped. Labels are the task's own; test files have none.

    csv is RFC 4180: quotes round a cell that holds commas, quotes (then doubled) or line ends, which become LF. tsv
    knows no quotes. Cells are kept as they are; an empty label is none, with `--several` an empty list; a column
    `prediction` is read like the label. Other columns pass as strings under their own names, with `column_` before one
    that is a name of the record's own fields, or `probability`, which write adds. Columns are counted by the first row:
    one with more or fewer is bad.
    """
    read, files = chosen(streams, name, owned.own(name, given)), streams.lines()
    prefixed = len(streams.files) > 1 and name not in GLOBAL_IDS
    with streams.writer() as out:
        for lines, called in zip(files, names(streams.files), strict=True):
            prefix = f"{called}:" if prefixed else ""
            for record in read(lines):
                named = {name: prefix + record[name] for name in ("id", "document") if prefix and name in record}
                out.write(record | named)


def names(files: Sequence[str]) -> list[str]:
    """Returns what the files are called in ids: their paths below the folder that holds them all.

    So randomness, which is drawn from ids, is the same wherever that folder lies, and however the command came to it.
    """
    folders = [os.path.dirname(os.path.abspath(file)) for file in files if file != "-"]
    top = os.path.commonpath(folders) if folders else ""
    return ["<stdin>" if file == "-" else readable(os.path.relpath(os.path.abspath(file), top)) for file in files]


def chosen(streams: Streams, name: str, given: dict[str, Any]) -> Reader:
    """Returns the reader of a format with its own options; raises click's error for those that do not go together."""
    answers = given.pop("predictions", None)
    if name == "text":
        given = {**given, "split": splitter(**given)}
    if name == "triviaqa":
        given = {**given, "note": streams.note}
    if {"number", "several"} <= set(given):
        raise click.UsageError("--number and --several: a label is a number, or there are several")
    read = functools.partial(reader(name), **given)
    if answers is None:
        return read
    if len(streams.files) > 1:
        raise click.UsageError("--predictions are those of one file")
    (lines,) = streams.of(answers).lines()
    return functools.partial(answered, read, predictions(name, lines), lines.name)


def splitter(split: str | None = None, border: str | None = None) -> Any:
    """Returns the function that cuts text into sentences; None where documents are to stay texts."""
    from bertcli.text.sentences import SPLITS

    return SPLITS[split or "lines"] if split or border != "line" else None
