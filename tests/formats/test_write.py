"""`write`: what it says of a bad record, and when its output comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from program import Result

from bertcli.formats import WRITERS

GOOD = {
    "glue-sts-b": {"id": "1", "prediction": 2.5},
    "glue-cola": {"id": "1", "prediction": "1"},
    "squad": {"id": "1", "prediction": "a"},
    "squad-nbest": {
        "id": "1",
        "prediction": "a",
        "details": {
            "score": 1,
            "null_score": 0,
            "nbest": [{"text": "a", "start": 0, "end": 1, "score": 1, "probability": 1}],
        },
    },
    "squad-odds": {"id": "1", "prediction": "a", "details": {"score": 1.5, "null_score": 0.5}},
    "conll": {"words": ["a"], "labels": ["O"]},
    "csv": {"id": "1", "text": "a"},
    "tsv": {"id": "1", "text": "a"},
    "npy": {"vectors": [[1, 2], [3, 4]]},
    "safetensors": {"vectors": [[1, 2], [3, 4]]},
}
BAD = {
    "glue-sts-b": {"id": "2", "prediction": "2.5"},
    "glue-cola": {"id": "2", "prediction": "maybe"},
    "squad": {"id": "2"},
    "squad-nbest": {"id": "2", "prediction": "a"},
    "squad-odds": {"id": "2", "prediction": "a"},
    "conll": {"words": ["a b"], "labels": ["O"]},
    "csv": {"labels": ["a,b"]},
    "tsv": {"id": "2", "text": "a\tb"},
    "npy": {"vectors": [[1, 2, 3]]},
    "safetensors": {"vectors": [[[1, 2]], [[3, 4]]]},
}
OPTIONS = {"csv": "--several ,"}
OBJECTS = {"squad", "squad-nbest", "squad-odds"}
ARRAYS = {"npy", "safetensors"}  # of empty input empty ones, see test_vectors.py


@pytest.fixture(params=GOOD)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def said(name: str, shell: Callable[..., Result], tmp_path: Path) -> Callable[[str], Result]:
    """Returns what becomes of two good records with a bad one between them."""
    records = [GOOD[name], BAD[name], GOOD[name] | ({"id": "3"} if "id" in GOOD[name] else {})]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(record) + "\n\n" for record in records))
    return lambda options: shell(f"bertcli write {name} in.jsonl {OPTIONS.get(name, '')} {options}")


def test_every_kind_of_format_is_here() -> None:
    assert {name if not name.startswith("glue") else "glue" for name in WRITERS} == {
        name if not name.startswith("glue") else "glue" for name in GOOD
    }


def test_a_bad_record_is_named_and_ends_the_command(name: str, said: Callable[[str], Result]) -> None:
    result = said("")
    assert result.status == 65
    assert result.err.startswith("bertcli write: in.jsonl:3: field '")
    assert (result.out == b"") == (name in OBJECTS | ARRAYS)


def test_a_bad_record_can_be_skipped(
    name: str, said: Callable[[str], Result], shell: Callable[..., Result], tmp_path: Path
) -> None:
    result = said("--on-error skip")
    assert result.status == 0
    assert result.err.startswith("bad lines skipped: 1; the first: in.jsonl:3: field '")
    lines = (tmp_path / "in.jsonl").read_text().splitlines()
    assert shell(f"bertcli write {name}", "\n".join([lines[0], lines[4]]).encode()).out == result.out


def test_empty_input(name: str, shell: Callable[..., Result]) -> None:
    result = shell(f"bertcli write {name} </dev/null")
    assert (result.status, result.err) == (0, "")
    assert (json.loads(result.out) == {}) if name in OBJECTS else (bool(result.out) == (name in ARRAYS))


def test_an_id_of_another_file_is_seen_to_come_again(shell: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "prediction": "1"}\n')
    (tmp_path / "b.jsonl").write_text('\n{"id": "1", "prediction": "0"}\n')
    said = "b.jsonl:2: field 'id': found '1', expected each index once\n"
    result = shell("bertcli write glue-cola a.jsonl b.jsonl")
    assert (result.status, result.err) == (65, f"bertcli write: {said}")
    passed = shell("bertcli write glue-cola a.jsonl b.jsonl --on-error skip")
    assert (passed.status, passed.err) == (0, f"bad lines skipped: 1; the first: {said}")
    assert passed.out == b"index\tprediction\n1\t1\n"


def test_a_damaged_stream_leaves_no_object(shell: Callable[..., Result], tmp_path: Path) -> None:
    whole = zstandard.compress(b"".join(b'{"id": "%d", "prediction": "%x"}\n' % (n, n**9) for n in range(99)))
    (tmp_path / "cut.zst").write_bytes(whole[: len(whole) // 2])
    result = shell("bertcli write squad cut.zst")
    assert (result.status, result.out) == (65, b"")


def test_text_is_no_record(shell: Callable[..., Result]) -> None:
    result = shell("echo hello | bertcli write csv")
    assert (result.status, result.out) == (65, b"")
    assert "<stdin>:1: not a JSON record" in result.err
