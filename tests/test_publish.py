"""How files appear: whole or not at all, and a model's together, wherever the process that writes them is killed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch

from bertcli import publish
from bertcli.errors import IOFailed, NoInput
from bertcli.publish import replacing, settle, vanish
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build
from bertcli.weights.folder import open_folder, save_folder

FILES = ["bertcli.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replacing(path) as temporary:
        temporary.write_text("whole")
    with contextlib.suppress(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "whole"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to("b/file")
    for text in ("new", "newer"):
        with replacing(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert os.readlink(tmp_path / "link") == "b/file"
        assert (tmp_path / "b" / "file").read_text() == text
        assert os.listdir(tmp_path / "b") == ["file"]


def test_files_have_the_rights_that_the_user_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a moment at which another thread's, as those of a checkpoint under way, would be anybody's."""
    change = os.umask
    old = change(0o027)
    monkeypatch.setattr(os, "umask", pytest.fail)
    try:
        with replacing(tmp_path / "a") as temporary:
            temporary.touch(0o600)
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
        written(tmp_path / "model", 1)
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {0o640}
    finally:
        change(old)


def test_a_folder_vanishes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "file").touch()
    vanish(tmp_path / "8")
    with monkeypatch.context() as patch:
        patch.setattr(publish.shutil, "rmtree", lambda *_, **__: None)  # killed before it
        vanish(tmp_path / "7")
    (left,) = tmp_path.iterdir()
    assert left.name == f".7.{os.getpid()}.old"
    settle(tmp_path)
    assert os.listdir(tmp_path) == []


def test_what_others_have_hidden_stays(tmp_path: Path) -> None:
    for name in (".git", ".old", ".new", ".a.new", "b.1.new"):
        (tmp_path / name).touch()
    settle(tmp_path)
    assert len(os.listdir(tmp_path)) == 5


# -- models ---------------------------------------------------------------------------------------------------------


def written(path: Path, value: int) -> None:
    """Write a model whose weights and notes are of one number."""
    task = Pretraining(models.wordpiece(), 64)
    network = build(task, models.config())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(value)
    save_folder(path, network, task.architecture, task.wordpiece, 64, {"value": value})


def found(path: Path) -> int | None:
    """Returns of which number a model is, None where there is none; it is whole."""
    if not (path / "config.json").exists():
        with pytest.raises(NoInput, match=r"config\.json"):
            open_folder(path)
        return None
    folder = open_folder(path)
    network = build(Pretraining(folder.wordpiece, 64), folder.config)
    models.load(path, network)
    values = {float(value) for parameter in network.parameters() for value in parameter.detach().unique()}
    assert values == {folder.notes["value"]}
    return int(folder.notes["value"])


class Killed(BaseException):
    """Ends the writing where it stands, with nothing put in order behind it."""


class Disk:
    """Lets writing fail, or be killed, at one of its calls of the system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
        self.calls, self.last, self.fault = 0, 0, fault
        self.is_dead = False
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync"):
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.is_dead:
                raise Killed
            self.calls += 1
            if self.calls == self.last:
                self.is_dead = isinstance(self.fault, Killed)
                raise self.fault
            return function(*args, **kwargs)

        return call


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("fault", [Killed, full])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_reader_finds_one_whole_model_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], BaseException], is_there: bool
) -> None:
    """Whichever call is the last one; and what the next run finds is whole."""
    seen: list[tuple[int | None, int | None]] = []
    for last in range(1, 99):
        path = tmp_path / f"{last}" / "model"
        path.parent.mkdir()
        if is_there:
            written(path, 1)
            (path / "log.jsonl").touch()
        with monkeypatch.context() as patch:
            disk = Disk(patch, fault())
            disk.last = last
            with contextlib.suppress(Killed, IOFailed):
                written(path, 2)
        at_once = found(path)
        settle(path.parent)
        settle(path)
        seen.append((at_once, found(path)))
        if path.exists():
            assert sorted(os.listdir(path)) == sorted([*FILES, *["log.jsonl"] * is_there])
        if disk.calls < last:
            break
    moments = [(1, 1), (1, 2), (None, 2), (2, 2)] if is_there else [(None, None), (2, 2)]
    assert list(dict.fromkeys(seen)) == moments  # once all is written, all that can come is the new model
    assert disk.calls < last


def test_a_folder_in_the_place_of_a_file_is_in_the_way(tmp_path: Path) -> None:
    """It is told before the old model is touched: what is moved by halves could not go on."""
    written(tmp_path, 1)
    (tmp_path / "vocab.txt").rename(tmp_path / "kept")
    (tmp_path / "vocab.txt").mkdir()
    with pytest.raises(IOFailed, match=r"vocab.txt is in the way"):
        written(tmp_path, 2)
    (tmp_path / "vocab.txt").rmdir()
    (tmp_path / "kept").rename(tmp_path / "vocab.txt")
    assert found(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == FILES


def test_a_full_disk_leaves_the_old_model_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 1)
    disk = Disk(monkeypatch, full())
    disk.last = 3
    with pytest.raises(IOFailed, match=f"^{tmp_path}: No space left on device$"):
        written(tmp_path, 2)
    assert found(tmp_path) == 1
    assert sorted(os.listdir(tmp_path)) == FILES
