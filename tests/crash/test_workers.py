"""Workers that are killed while there is much to do: the command ends by it, in one line, and nobody is left.

What a pool and a feed make of it is tested in test_parallel.py and engine/test_workers.py.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import crashes
import pytest
import warm
from desk import is_whole
from program import decompressed

MUCH = {
    "tokenize": ("corpus.txt", 3000, []),
    "pairs": ("docs.jsonl", 500, []),
    "mask": ("pairs.jsonl.zst", 500, []),
    "vocab": ("corpus.txt", 3000, ["--size", "300"]),
    "predict": ("labelled.jsonl", 500, ["-m", "classifier", "--device", "cpu"]),
    "embed": ("labelled.jsonl", 500, ["--device", "cpu"]),
    "finetune classification": ("labelled.jsonl", 500, ["--device", "cpu", "-o", "out", "--epochs", "9"]),
}


@pytest.mark.parametrize("name", MUCH)
def test_a_worker_is_killed(name: str, house: Path, program: warm.Program, tmp_path: Path) -> None:
    """Any of them; what has come out by then is no whole stream, and there is no model."""
    folder, out = tmp_path / "folder", tmp_path / "stdout"
    shutil.copytree(house, folder)
    file, times, options = MUCH[name]
    (folder / "much").write_bytes(decompressed((folder / file).read_bytes()) * times)
    line = [*name.split(), "much", "--quiet", "--workers", "3", *options]
    with open("/dev/null", "rb") as nothing, out.open("wb") as stdout, (tmp_path / "err").open("wb") as err:
        process = program.start(line, folder, [nothing, stdout, err])
    assert crashes.wait_until(lambda: len(workers(process)) >= 2 or not process.is_alive(), warm.PATIENCE, 1e-3)
    assert process.is_alive(), (tmp_path / "err").read_text()
    crashes.kill([random.Random(name).choice(workers(process))])
    said = (process.wait(), (tmp_path / "err").read_text())
    assert said == (1, f"bertcli {name.split()[0]}: a worker process died (exit status -9)\n")
    crashes.assert_alone(folder)
    assert not is_whole(out.read_bytes())
    assert not (folder / "out" / "model.safetensors").exists()


def workers(process: warm.Process) -> list[int]:
    """Returns the processes that a command has started, and those that they have."""
    try:
        children = crashes.below(process.pid)
        return children + [each for child in children for each in crashes.below(child)]
    except FileNotFoundError:
        return []
