"""GLUE's official files, real and broken."""

from __future__ import annotations

import io
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Result

from bertcli.errors import BadData
from bertcli.formats import reader
from bertcli.lines import Lines, Source
from bertcli.records import Classification, checker


def rows(name: str, data: str, **options: str) -> list[dict[str, object]]:
    return list(reader(name)(Lines(Source(io.BytesIO(data.encode()), "in"), **options)))  # type: ignore[arg-type]


def test_the_layouts_are_told_by_the_first_line() -> None:
    labelled = [{"id": "0", "text": 'a "fine" film', "label": "1"}, {"id": "1", "text": "bad", "label": "0"}]
    test = [{"id": "7", "text": 'a "fine'}, {"id": "9", "text": "film"}]
    assert rows("glue-sst-2", 'sentence\tlabel\na "fine" film \t1\nbad\t0\n') == labelled
    assert rows("glue-cola", 'gj04\t1\t\ta "fine" film\ngj04\t0\t*\tbad\n') == labelled
    for name in ("glue-sst-2", "glue-cola"):
        assert rows(name, '\ufeffindex\tsentence\r\n7\ta "fine\r\n9\tfilm \r\n\r\n') == test
        assert rows(name, "") == []


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("glue-sst-2", "sentence\tlabel\na\t1\nb\n", "in:3: found 1, expected 2 columns"),
        ("glue-sst-2", "sentence\tlabel\na\tb\t1\n", "in:2: found 3, expected 2 columns"),
        ("glue-sst-2", "sentence\tlabel\na\t2\n", "in:2: field 'label': found '2', expected 0 or 1"),
        ("glue-cola", "gj04\t1\t\ta\ngj04\t*\ta\n", "in:2: found 3, expected 4 columns"),
        ("glue-cola", "index\tsentence\n1\n", "in:2: found 1, expected 2 columns"),
        (
            "glue-sst-2",
            "a\t1\n",
            r"in:1: the first line tells no layout; "
            r"found 'a\t1', expected 'index\tsentence' or 'sentence\tlabel'",
        ),
        (
            "glue-cola",
            "sentence\tlabel\n",
            "in:1: the first line tells no layout; "
            r"found 'sentence\tlabel', expected 'index\tsentence' or 4 columns",
        ),
    ],
)
def test_a_bad_row_is_named(name: str, data: str, said: str) -> None:
    with pytest.raises(BadData) as error:
        rows(name, data)
    assert str(error.value) == said


def test_a_skipped_row_keeps_its_number() -> None:
    found = rows("glue-sst-2", "sentence\tlabel\na\t1\nb\nc\t0\n", on_error="skip")
    assert [(row["id"], row["text"]) for row in found] == [("0", "a"), ("2", "c")]


@pytest.mark.parametrize(
    ("file", "count", "ones"),
    [
        ("CoLA/train", 8551, 6023),
        ("CoLA/dev", 1043, 721),
        ("CoLA/test", 1063, None),
        ("SST-2/dev", 872, 444),
        ("SST-2/test", 1821, None),
    ],
)
def test_official_files(shared: Path, file: str, count: int, ones: int | None) -> None:
    path = shared / "glue" / f"{file}.tsv.zst"
    with path.open("rb", buffering=0) as raw:
        found = list(reader(f"glue-{file.split('/')[0].lower()}")(Lines(Source(raw, path.name))))  # type: ignore[arg-type]
    assert [row["id"] for row in found] == [str(n) for n in range(count)]
    assert Counter(row.get("label") for row in found) == ({"1": ones, "0": count - ones} if ones else {None: count})
    for row in found:
        checker(Classification)(row)
    column = {"CoLA/train": 4, "CoLA/dev": 4, "SST-2/dev": 1}.get(file, 2)
    command = f"zstd -dc {path} | cut -f {column} | tail -n {count}"
    cut = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True).stdout
    assert [row["text"] for row in found] == [line.strip() for line in cut.split("\n")[:-1]]


def test_options_of_text_do_not_belong_here(invoke: Callable[..., Result]) -> None:
    result = invoke("read", "glue-cola", "--split", "rules")
    assert result.status == 2
    assert "--document and --split are options of text, not of glue-cola" in result.err
