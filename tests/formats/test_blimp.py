"""BLiMP's lines as minimal pairs."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from program import Result

from bertcli.errors import BadData
from bertcli.formats import reader
from bertcli.lines import Lines, Source
from bertcli.records import MinimalPair, checker

ROW = {
    "sentence_good": "Who should Derek hug after shocking Richard?",
    "sentence_bad": "Who should Derek hug Richard after shocking?",
    "field": "syntax",
    "linguistics_term": "island_effects",
    "UID": "adjunct_island",
    "simple_LM_method": True,
    "pairID": "0",
}
RECORD = {
    "id": "adjunct_island-0",
    "good": ROW["sentence_good"],
    "bad": ROW["sentence_bad"],
    "phenomenon": "island_effects",
    "paradigm": "adjunct_island",
    "field": "syntax",
    "simple_LM_method": True,
}


def read(data: str) -> list[dict[str, Any]]:
    return list(reader("blimp")(Lines(Source(io.BytesIO(data.encode()), "in"))))  # type: ignore[arg-type]


def test_a_line_becomes_a_pair_and_its_other_fields_pass() -> None:
    second = ROW | {"pairID": "1", "id": 7}
    assert read(f"\ufeff{json.dumps(ROW)}\r\n\n{json.dumps(second)}") == [RECORD, RECORD | {"id": "adjunct_island-1"}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps(ROW | {"pairID": 0}), "field 'pairID': found 0, expected a string"),
        (json.dumps(ROW | {"UID": None}), "field 'UID': found nothing, expected a string"),
        (
            json.dumps(ROW | {"linguistics_term": []}),
            "field 'linguistics_term': found an empty list, expected a string",
        ),
        (json.dumps(ROW | {"sentence_good": None}), "field 'sentence_good': found nothing, expected a string"),
        (json.dumps(ROW | {"sentence_bad": 1}), "field 'sentence_bad': found 1, expected a string"),
        ("[]", "found an empty list, expected a JSON object"),
        ("{", "not a JSON record"),
    ],
)
def test_what_is_bad(line: str, said: str) -> None:
    with pytest.raises(BadData, match=f"^in:2: {said}"):
        read(f"{json.dumps(ROW)}\n{line}\n")


def test_bad_lines_may_be_skipped_and_ids_are_the_same_in_several_files(
    shell: Callable[..., Result], tmp_path: Path
) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(f'{json.dumps(ROW)}\n{{"UID": 3}}\n')
    result = shell("bertcli read blimp a.jsonl b.jsonl --on-error skip")
    assert (result.status, result.records) == (0, [RECORD, RECORD])
    assert "bad lines skipped: 2; the first: a.jsonl:2: field 'sentence_good'" in result.err


def test_real_lines(shared: Path) -> None:
    file = shared / "blimp" / "blimp.jsonl.zst"
    if not file.exists():
        pytest.skip(f"no real pairs: {file} is not there")
    with file.open("rb") as data:
        found = list(islice(reader("blimp")(Lines(Source(data, "in"))), 4000))  # type: ignore[arg-type]
    for record in found:
        checker(MinimalPair)(record)
        assert record["good"] != record["bad"]
    assert set(Counter(record["paradigm"] for record in found).values()) == {1000}
    assert len({record["id"] for record in found}) == len(found)
