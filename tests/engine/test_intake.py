"""Inputs that are given again: what was read is not read anew, and another input is noticed, and named."""

from __future__ import annotations

import copy
import fcntl
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from program import Result
from running import PAIRS, figures, logged, run

from bertcli.engine import checkpoint, feed, kept
from bertcli.engine.kept import Kept
from bertcli.engine.spool import Chunk, chunk
from bertcli.errors import BadData, CannotCreate, IOFailed
from bertcli.lines import Mark
from bertcli.records import Record
from bertcli.tasks.pretraining import Pretraining

MANY = models.pairs(90)  # with a buffer of 16 and a batch of 8, some of them are read when the run stops
SAME = "the input is the same: it goes on at its place"


@pytest.fixture(autouse=True)
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SHUFFLE_BUFFER", 16)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the ids of the records of which examples are made from now on."""
    seen: list[Any] = []
    make = Pretraining.learn_at
    monkeypatch.setattr(Pretraining, "learn_at", lambda self, record, at: (seen.append(at), make(self, record, at))[1])
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed, "SHUFFLE_BUFFER", 16)
        path = tmp_path_factory.mktemp("whole") / "model"
        run(path, records=MANY)
        yield path


def same(path: Path, other: Path) -> bool:
    weights = [(home / "model.safetensors").read_bytes() for home in (path, other)]
    return figures(logged(path)) == figures(logged(other)) and weights[0] == weights[1]


@pytest.mark.parametrize("stop", [5, 11])
@pytest.mark.parametrize("lost", ["nothing", "the spool", "its end", "its index's end", "a byte of it"])
def test_what_was_read_is_not_read_again(tmp_path: Path, whole: Path, encoded: list[Any], stop: int, lost: str) -> None:
    """As far as it is there, and whole."""
    path, said = tmp_path / "model", []
    run(path, records=MANY, stop_at=stop)
    read, examples, index = len(encoded), path / "spool" / "examples", path / "spool" / "index.jsonl"
    assert read < len(MANY) or stop == 11
    if lost == "the spool":
        shutil.rmtree(path / "spool")
    elif lost == "its end":
        examples.write_bytes(examples.read_bytes()[:-3])
    elif lost == "its index's end":
        index.write_bytes(index.read_bytes()[:-3])
    elif lost == "a byte of it":
        data = bytearray(examples.read_bytes())
        data[len(data) // 2] ^= 1
        examples.write_bytes(data)
    run(path, records=MANY, resume=True, said=said)
    assert SAME in said
    assert same(path, whole)
    again = [at for at in encoded[read:] if at < read]
    least, most = {"nothing": (0, 0), "the spool": (read, read), "a byte of it": (1, read - 1)}.get(lost, (1, 9))
    assert least <= len(again) <= most
    assert not (path / "spool").exists()


CHANGES: dict[str, tuple[Callable[[list[Record]], None], str]] = {
    "the first": (lambda pairs: pairs[0].update(is_next=not pairs[0]["is_next"]), "another one"),
    "one in between": (lambda pairs: pairs[20].update(id="other"), "another, which differs in records 21 to 21"),
    "one less": (lambda pairs: pairs.pop(30), "another, which differs in records 31 to 31"),
    "the end": (lambda pairs: pairs.__delitem__(slice(24, None)), "another, which differs in records 25 to 25"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_change_is_noticed_and_named(tmp_path: Path, change: str, is_lost: bool) -> None:
    """Whether the spool is there or not; what is trained on then is the other input from its first record on."""
    path, said, pairs = tmp_path / "model", [], copy.deepcopy(MANY)
    run(path, records=MANY, stop_at=3)
    CHANGES[change][0](pairs)
    if is_lost:
        shutil.rmtree(path / "spool")
    shutil.copytree(path, tmp_path / "without")
    run(path, records=pairs, resume=True, said=said)
    (told,) = [line for line in said if line.startswith("the input is")]
    expected = CHANGES[change][1].partition("21 to")[0].partition("31 to")[0].partition("25 to")[0]
    if is_lost and change != "the first":
        assert told.startswith("the input is another, which differs in records ")
    else:
        assert told.startswith(f"the input is {expected}")
        assert change == "the first" or "from pairs.jsonl:" in told
    assert told.endswith(": it begins at its first record")
    shutil.rmtree(tmp_path / "without" / "spool", ignore_errors=True)
    run(tmp_path / "without", records=pairs, resume=True)
    assert same(path, tmp_path / "without")


def test_what_comes_after_the_end_is_another_input(tmp_path: Path) -> None:
    path, said = tmp_path / "model", []
    run(path, stop_at=6)  # in the second epoch
    more = models.pairs(len(PAIRS) + 3)
    assert more[: len(PAIRS)] == PAIRS
    run(path, records=more, resume=True, stop_at=8, said=said)
    told = f"the input is another, which goes on after record {len(PAIRS)}: it begins at its first record"
    assert told in said
    run(path, records=more, resume=True, said=said)
    assert SAME in said


@pytest.mark.parametrize("kind", [BadData, IOFailed])
def test_what_cannot_be_saved_is_told_before_a_fault_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """For nobody would expect it; where both are the disk's, one is told."""

    def full(*_: Any) -> None:
        raise IOFailed("saving: full")

    def failing(task: Any, records: Any) -> Any:
        def read(*known: Any) -> Iterator[Chunk | None]:
            yield from read_well(*known)
            raise kind("reading: full")

        read_well = stream(task, records)
        return read

    stream = models.stream
    monkeypatch.setattr(models, "stream", failing)
    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(IOFailed, match="saving" if kind is BadData else "reading"):
        run(tmp_path / "model", records=MANY)


def test_an_end_that_comes_too_soon_is_named(tmp_path: Path) -> None:
    path, said = tmp_path / "model", []
    run(path, records=MANY, stop_at=3)
    shutil.rmtree(path / "spool")  # by which it would be known where the difference begins
    run(path, records=MANY[:36], resume=True, stop_at=4, said=said)
    (told,) = [line for line in said if line.startswith("the input is")]
    assert "another, which differs in records 2 to 40, and ends after record 36: it begins" in told


def test_an_input_that_only_began_may_go_on(tmp_path: Path, whole: Path) -> None:
    """What has not been read yet may be anything."""
    path, said = tmp_path / "model", []
    with pytest.raises(BadData):
        run(path, records=[*MANY[:60], {"tokens": 1}], said=said)
    assert said[-1] == f"step {checkpoint.complete(path)[-1].name} is saved; --resume goes on from there"
    run(path, records=MANY, resume=True, said=said)
    assert SAME in said
    assert same(path, whole)


def test_what_no_step_knows_of_may_be_another(tmp_path: Path, whole: Path) -> None:
    """As where the run was killed after it had read on: with its spool, and without it."""
    path, said = tmp_path / "model", []
    run(path, records=MANY, stop_at=3)
    shutil.copytree(path / "checkpoint", tmp_path / "checkpoint")
    run(path, records=MANY, resume=True, stop_at=6)
    shutil.rmtree(path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", path / "checkpoint")
    pairs = copy.deepcopy(MANY)
    pairs[50].update(id="other")
    shutil.copytree(path, tmp_path / "without")
    shutil.rmtree(tmp_path / "without" / "spool")
    for home in (path, tmp_path / "without"):
        run(home, records=pairs, resume=True, said=said)
    assert said.count(SAME) == 2
    assert same(path, tmp_path / "without")
    assert not same(path, whole)


@pytest.mark.parametrize("size", [3, 200])
def test_a_spool_may_have_its_marks_elsewhere(
    tmp_path: Path, whole: Path, encoded: list[Any], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """As that of another machine, to which the same came by a pipe of its own."""
    path, said = tmp_path / "model", []
    run(path, records=MANY, stop_at=3)
    with monkeypatch.context() as patch:
        patch.setattr(models, "stream", partial(models.stream, size=size))
        run(tmp_path / "other", records=MANY, stop_at=5)
    shutil.rmtree(path / "spool")
    shutil.copytree(tmp_path / "other" / "spool", path / "spool")
    encoded.clear()
    run(path, records=MANY, resume=True, said=said)
    assert SAME in said
    assert same(path, whole)
    assert 0 < len(encoded) < len(MANY)  # up to a mark before the missing one it was of use


# -- whole commands -------------------------------------------------------------------------------------------------

LINE = ["pretrain", "--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--max-length", 32, "--device", "cpu"]
LINE += ["--batch-size", 8, "--steps", 30, "--save-every", 0]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_bad_record_costs_no_step(bertcli: Callable[..., Result], tmp_path: Path, workers: int) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    good = models.lines(models.pairs(18_000)).splitlines(keepends=True)
    (tmp_path / "good.jsonl").write_bytes(b"".join(good))
    (tmp_path / "bad.jsonl").write_bytes(b"".join([*good[:17_000], b"{}\n", *good[17_000:]]))
    line = [*LINE, "--workers", workers, "--batch-size", 64]
    assert bertcli(*line, "good.jsonl", "-o", "whole").status == 0
    bad = bertcli(*line, "bad.jsonl", "-o", "model")
    assert bad.status == 65, bad.err
    assert "bad.jsonl:17001: field 'tokens'" in bad.err
    (told,) = [said for said in bad.err.splitlines() if said.endswith(" is saved; --resume goes on from there")]
    resumed = bertcli(*line, "good.jsonl", "-o", "model", "--resume")
    assert resumed.status == 0, resumed.err
    assert SAME in resumed.err
    assert f"resuming after {told.partition(' is')[0]}" in resumed.err
    assert same(tmp_path / "model", tmp_path / "whole")


def test_runs_share_a_disk_for_their_spools(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(MANY))
    line = [*LINE, "pairs.jsonl", "--spool", "fast"]
    for out in ("one", "two"):
        assert bertcli(*line, "-o", out, "--stop-at", 3).status == 0
    assert len([*(tmp_path / "fast").iterdir()]) == 2
    assert not (tmp_path / "one" / "spool").exists()
    for out in ("one", "two"):
        assert SAME in bertcli(*line, "-o", out, "--resume").err
    assert [*(tmp_path / "fast").iterdir()] == []
    assert same(tmp_path / "one", tmp_path / "two")


def test_unchanged_files_that_were_read_are_not_read_again(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    """That is believed of a file by its size and time; what has another time is compared."""
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    file, data = tmp_path / "pairs.jsonl", models.lines(MANY)
    file.write_bytes(data)
    line, stamp = [*LINE, file.name, "-o", "model"], file.stat()
    assert bertcli(*line, "--stop-at", 20).status == 0  # in the second epoch
    file.write_bytes(data[::-1])
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert SAME in bertcli(*line, "--resume", "--stop-at", 22).err
    os.utime(file)
    assert "not a JSON record" in bertcli(*line, "--resume", "--stop-at", 24).err
    file.write_bytes(data)
    assert SAME in bertcli(*line, "--resume").err
    assert bertcli(*LINE, file.name, "-o", "whole").status == 0
    assert same(tmp_path / "model", tmp_path / "whole")


def test_other_casing_is_another_run(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(MANY))
    line = [*LINE, "pairs.jsonl", "-o", "model"]
    assert bertcli(*line, "--stop-at", 3).status == 0
    refused = bertcli(*line, "--resume", "--cased")
    assert refused.status == 2
    assert "casing was --uncased --strip-accents --split-cjk and is now --cased" in refused.err


def test_nothing_is_left_of_spools_in_a_finished_folder(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    """Those of machines that were not there at the end, too, and of a process that was killed at its very end."""
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(MANY))
    assert bertcli(*LINE, "pairs.jsonl", "-o", "model", "--stop-at", 20).status == 0
    spool = tmp_path / "model" / "spool"
    shutil.copytree(spool, tmp_path / "kept")
    shutil.copytree(spool, spool.with_name("spool-8"))
    assert bertcli(*LINE, "pairs.jsonl", "-o", "model", "--resume").status == 0
    assert [path.name for path in (tmp_path / "model").glob("spool*")] == []
    shutil.copytree(tmp_path / "kept", spool)
    assert "finished already" in bertcli(*LINE, "pairs.jsonl", "-o", "model", "--resume").err
    assert not spool.exists()


# -- the spool ------------------------------------------------------------------------------------------------------


def filled(path: Path, sizes: list[int]) -> list[list[int]]:
    """Leaves a spool, a mark behind each chunk; returns the numbers of each."""
    spool, numbers = Kept(path, {"of": "test"}, resume=False), iter(range(10_000))
    spool.cut(None)
    chunks = [[next(numbers) for _ in range(size)] for size in sizes]
    read = 0
    for own in chunks:
        read += len(own)
        made: Chunk = chunk({"ids": np.array([number] * (number % 5 + 1), np.int32)} for number in own)
        spool.extend(made._replace(mark=Mark(read, f"{read:x}")))
    spool.flush()
    spool.release()
    return chunks


@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_whole_is_not_taken_over(tmp_path: Path, seed: int) -> None:
    """Files that end, or have other bytes, anywhere: what is taken over is a beginning, and right."""
    rng = random.Random(seed)
    path = tmp_path / "spool"
    chunks = filled(path, [rng.randrange(1, 9) for _ in range(12)])
    for file in rng.sample([path / "examples", path / "index.jsonl"], rng.randrange(3)):
        data = bytearray(file.read_bytes())
        if rng.random() < 0.5:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    spool = Kept(path, {"of": "test"}, resume=True)
    count = len(spool.marks)
    flat = [number for own in chunks[:count] for number in own]
    assert len(spool) == len(flat)
    for index, number in enumerate(flat):
        assert spool[index]["ids"].tolist() == [number] * (number % 5 + 1)
    spool.cut(spool.marks[count // 2] if count else None)
    assert len(spool) == len([number for own in chunks[: count // 2 + 1] for number in own]) * bool(count)
    spool.release()
    assert len(Kept(path, {"of": "test"}, resume=True).marks) == (count // 2 + 1) * bool(count)


def test_a_spool_of_other_options_counts_for_empty(tmp_path: Path) -> None:
    filled(tmp_path / "spool", [3, 4])
    for made, resume in (({"of": "other"}, True), ({"of": "test"}, False)):
        spool = Kept(tmp_path / "spool", made, resume=resume)
        assert len(spool) == 0
        spool.release()
    assert len(Kept(tmp_path / "spool", {"of": "test"}, resume=True)) == 7


def test_a_spool_is_one_run_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while processes of an earlier one have it open yet."""
    filled(tmp_path / "spool", [3])
    monkeypatch.setattr(kept, "PATIENCE", 0.2)
    with (tmp_path / "spool" / "index.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(CannotCreate, match="another run still writes to it"):
            Kept(tmp_path / "spool", {"of": "test"}, resume=True)
    assert len(Kept(tmp_path / "spool", {"of": "test"}, resume=True)) == 3
