"""SWAG's two layouts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from program import Result

from bertcli.errors import BadData
from bertcli.formats import reader
from bertcli.lines import Lines, Source
from bertcli.records import Choice, checker

REGULAR = "video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
FULL = (
    "video-id,fold-ind,startphrase,gold-ending,distractor-0,distractor-1,distractor-2,distractor-3,gold-source,gold-type,"
    "distractor-0-type,distractor-1-type,distractor-2-type,distractor-3-type,sent1,sent2"
)


def read(data: str, **options: Any) -> list[dict[str, Any]]:
    return list(reader("swag")(Lines(Source(io.BytesIO(data.encode()), "in")), **options))  # type: ignore[arg-type]


def full(fold: int, last: str = "no, never", source: str = "gold0-orig") -> str:
    return (
        f'v_1,{fold},Rain falls. A man,runs in.,sits,"flies, too",swims,"{last}",{source},l,u,u,u,u,Rain falls.,A man\n'
    )


def test_the_regular_layout() -> None:
    row = '17,v_1,3,Rain falls. A man,Rain falls.,A man,gold,sits,"flies, ""too""",runs in.,swims'
    choices = ["A man sits", 'A man flies, "too"', "A man runs in.", "A man swims"]
    unlabelled = {"id": "17", "text": "Rain falls.", "choices": choices}
    assert read(f",{REGULAR},label\r\n{row},2\r\n") == [{**unlabelled, "label": 2}]
    assert read(f",{REGULAR}\n{row}\n") == [unlabelled]
    assert read(f"{REGULAR}\n{row.removeprefix('17,')}\n") == [{**unlabelled, "id": "0"}]


def test_the_full_layout() -> None:
    first, second, third = read(FULL + "\n" + full(1) + full(2, last="") + full(2, source="gen-orig"))
    assert [each["id"] for each in (first, second, third)] == ["v_1-1-gold0-orig", "v_1-2-gold0-orig", "v_1-2-gen-orig"]
    others = ["A man sits", "A man flies, too", "A man swims", "A man no, never"]
    for record, distractors in ((first, others), (second, others[:3])):
        assert record["choices"].pop(record["label"]) == "A man runs in."
        assert record["choices"] == distractors
        assert record["text"] == "Rain falls."


def test_the_gold_ending_is_placed_by_seed_and_record() -> None:
    data = "".join(map(full, range(1000)))
    usual = read(f"{FULL}\n{data}")
    counts = Counter(record["label"] for record in usual)
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert all(150 < count < 250 for count in counts.values())
    backwards = "".join(map(full, reversed(range(1000))))
    assert read(f"{FULL}\n{backwards}") == usual[::-1]
    assert read(f"{FULL}\n{data}", seed=1) != usual
    assert read(f"{FULL}\n{data}", seed=0) == usual


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (f"{REGULAR},label\nv,1,p,a,b,g,w,x,y,z,4\n", "in:2: field 'label': found '4', expected the index of one of 4"),
        (f"{REGULAR},label\nv,1,p,a,b,g,w,x,y,z\n", "in:2: found 10, expected 11 columns"),
        ("sent1,ending0\n", "in:1: the first line tells no layout; found 'sent1,ending0'"),
        ("sent1,sent2,label\n", "in:1: the first line tells no layout"),
    ],
)
def test_what_is_bad(data: str, said: str) -> None:
    with pytest.raises(BadData, match=f"^{said}"):
        read(data)


@pytest.mark.parametrize(("part", "count"), [("train", 8000), ("val", 2042)])
def test_real_files(shared: Path, part: str, count: int) -> None:
    path = shared / "choice" / f"hellaswag-as-swag-{part}.csv.zst"
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    found = read(text)
    assert len({record["id"] for record in found}) == len(found) == count
    for record, row in zip(found, csv.DictReader(io.StringIO(text, newline="")), strict=True):
        checker(Choice)(record)
        endings = [f"{row['sent2']} {row[f'ending{n}']}" for n in range(4)]
        assert record == {"id": row[""], "text": row["sent1"], "choices": endings, "label": int(row["label"])}


def test_the_seed_of_the_command(shell: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "full.csv").write_text(FULL + "\n" + "".join(map(full, range(20))))
    labels = [[row["label"] for row in shell(f"bertcli read swag full.csv {o}").records] for o in ("", "--seed 5")]
    assert labels[0] != labels[1]
