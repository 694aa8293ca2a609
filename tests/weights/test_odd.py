"""No folder loads in silence with weights that are not its own: it loads right, or one line says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import odd
import pytest
import torch
from program import Result
from safetensors.torch import load_file

from bertcli.headers import FILE
from bertcli.weights.folder import fingerprint

TEXT = b"the cat is in the old house\nbread, xyz\n"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return odd.sound(tmp_path_factory.mktemp("sound") / "model")


def vectors(bertcli: Callable[..., Result], name: str) -> tuple[Result, list[Any]]:
    result = bertcli(
        "embed", "-m", name, "--device", "cpu", "--pool", "mean", "--vectors", "list", "--dtype", "float32", stdin=TEXT
    )
    return result, [json.loads(line)["vectors"] for line in result.out.splitlines()]


@pytest.mark.parametrize("case", odd.LOADING, ids=lambda case: case.what)
def test_what_is_odd_loads_to_its_own_numbers(
    case: odd.Odd, sound: Path, bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    case.make(odd.sound(tmp_path / "model"))
    result = bertcli("convert", "model", "-o", "copy")
    assert result.status == 0, result.err
    assert case.said in result.err
    before, after = load_file(sound / FILE), load_file(tmp_path / "copy" / FILE)
    kept = {name for name in before if "cls." not in name or "(BertModel)" not in case.what}
    assert after.keys() == kept - (
        {name for name in before if "pooler" in name or "seq_" in name} if "no pooler" in case.what else set()
    )
    for name, tensor in after.items():
        expected = before[name].to(case.dtype).float()
        assert torch.equal(tensor, expected), name
    assert fingerprint(tmp_path / "copy") == fingerprint(sound) or case.dtype != torch.float32
    direct, embedded = vectors(bertcli, "model")
    if direct.status == 0:
        assert case.said in direct.err
        again = vectors(bertcli, "copy")[1]
        assert torch.allclose(torch.tensor(embedded), torch.tensor(again), atol=1e-6)
    else:
        assert "bertcli convert makes" in direct.err


@pytest.mark.parametrize("case", odd.REFUSED, ids=lambda case: case.what)
def test_what_is_damaged_is_told_in_one_line(
    case: odd.Odd, sound: Path, bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    case.make(odd.sound(tmp_path / "model"))
    before = sorted(tmp_path.rglob("*"))
    result = bertcli("convert", "model", "-o", "copy")
    told = [line for line in result.err.splitlines() if line.startswith("bertcli convert: ")]
    assert (result.status, result.out, len(told)) == (case.status, b"", 1), result.err
    assert case.said in told[0]
    assert sorted(tmp_path.rglob("*")) == before  # no copy, and nothing that a pickle has made
    direct, embedded = vectors(bertcli, "model")
    if direct.status == 0:  # what is damaged is a head
        assert embedded == vectors(bertcli, str(sound))[1]
    else:
        assert direct.err.splitlines()[-1].startswith("bertcli embed: model")
        assert direct.out == b""
