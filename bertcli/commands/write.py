"""`write`: predictions to the official file of a task or to a table, vectors to an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import foreign, options, owned
from bertcli.formats import WRITERS, writer

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.errors import BadData
    from bertcli.lines import Lines
    from bertcli.records import Record


@options.command(
    "write",
    kind=options.Kind.LAYS_OUT,
    reads=(
        "Records with the `prediction` that predict adds; of those without one, as read makes them, the gold label or "
        "answer is written, but for squad-nbest and squad-odds. For npy and safetensors the `vectors` that embed adds."
    ),
    writes=(
        "One file in FORMAT, plain: the submission of a task of GLUE (glue-cola glue-sst-2 glue-mrpc glue-sts-b "
        "glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax), squad, squad-nbest, squad-odds, conll, csv, tsv, "
        "npy or safetensors."
    ),
    examples=[
        ("bertcli write csv predicted.jsonl.zst > predicted.csv", "The predictions as a table, with probabilities."),
        ("bertcli write glue-sst-2 predicted.jsonl.zst > SST-2.tsv", "What GLUE's site takes."),
        (
            """echo '{"id": "a", "prediction": "in 1911", "details": {}}' | bertcli write squad""",
            "What SQuAD's own script takes.",
        ),
        (
            """echo '{"words": ["in", "Oslo"], "labels": ["O", "B-LOC"]}' | bertcli write conll""",
            "A word a line.",
        ),
        ("bertcli embed labelled.jsonl | bertcli write npy > vectors.npy", "All rows as one array, for numpy.load."),
    ],
)
@click.argument("name", metavar="FORMAT", type=click.Choice(list(WRITERS)))
@foreign.several
@foreign.delimiter
@options.inputs("FILE")
def command(streams: Streams, name: str, **given: Any) -> None:
    """Write predictions as the official file of a task or as a table, vectors as an array.

    FORMAT is a task of GLUE (glue-cola, glue-sst-2, glue-mrpc, glue-sts-b, glue-qqp, glue-mnli, glue-qnli, glue-rte,
    glue-wnli, glue-ax): a line a record with `id`, which must be a whole number and there once, and `prediction`, or
    else `label`; the number of glue-sts-b with three decimals, within 0 and 5.

    squad is {id: `prediction`}, squad-nbest {id: `nbest` of `details`}, squad-odds {id: how much likelier no answer is,
    `null_score` - `score` of `details`}. The object is written when the input has ended.

    conll is a word a line: `words`, their other `columns`, `labels` and `prediction`, as far as they are there, with a
    blank line after each sentence.

    csv and tsv have a header and a line a record: the first record's fields in order, then `prediction`, and the
    `probability` of what was predicted, if `details` tell it. `details` are left out, lists and objects are JSON,
    several labels are joined where `--several` says by what. Later records may lack fields, but have no others. csv
    quotes where it must; a tab or a line end in tsv is an error.

    npy is the rows of all `vectors` one after another, [rows, width], or [rows, layers, width] where layers were kept
    apart: rows come first here. safetensors has the same as `vectors`, and `offsets`: record i has the rows from
    offsets[i] to before offsets[i + 1]; its metadata has the vectors' `source`. Numbers are of the type that the first
    record's are, and all rows of one width. The rows wait in a temporary file (in TMPDIR) until the input has ended;
    without a record there are none.
    """
    given = owned.own(name, given)
    streams.plain = True  # other people's programs read it
    records = Records(streams.lines())
    with streams.writer() as out:
        for piece in writer(name)(records, records.fault, **given):
            out.write_lines(piece)


class Records:
    """The records of some files, which know where the one last yielded stands."""

    def __init__(self, files: Iterator[Lines]) -> None:
        """Read nothing yet."""
        self._files = files
        self._lines: Lines | None = None

    def __iter__(self) -> Iterator[Record]:
        """Yields the records; raises `BadData` with file and line."""
        from bertcli.records import Anything
        from bertcli.stream import parsed

        for lines in self._files:
            self._lines = lines
            yield from parsed(lines, Anything, lambda record, _: record)

    def fault(self, error: BadData) -> None:
        """Raise an error of the record last yielded with its place, or count the record as passed over."""
        assert self._lines is not None
        self._lines.fault(error)
