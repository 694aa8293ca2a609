"""The order of training: each example once an epoch, the same for one seed, and known before the input ends."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.engine import feed as module
from bertcli.engine import intake
from bertcli.engine.feed import Feed
from bertcli.engine.spool import Chunk, Spool, chunk
from bertcli.parallel import Pool
from bertcli.tasks.task import Example

SIZES, BATCHES, BUFFERS = st.integers(1, 80), st.integers(1, 17), st.integers(1, 90)


def example(number: int) -> Example:
    ids = np.arange(number % 5, dtype=np.int32) + number
    return {"ids": ids, "number": np.array([number], np.int32), "key": np.frombuffer(f"k{number}".encode(), np.uint8)}


def numbered(count: int, size: int = 1) -> Iterator[Chunk]:
    """Yields examples as they come from a stream, so many at a time."""
    for start in range(0, count, size):
        yield chunk(map(example, range(start, min(count, start + size))))


def filled(spool: Spool, count: int) -> Spool:
    """Returns a spool that holds all the examples before anything is drawn."""
    for number in range(count):
        spool.append(example(number))
    return spool


def told(examples: list[tuple[int, Example]]) -> list[tuple[int, int]]:
    """Returns the epochs and the numbers of examples."""
    return [(epoch, int(one["number"][0])) for epoch, one in examples]


def steps(
    count: int,
    batch: int,
    taken: int,
    *,
    buffer: int = 8,
    seed: int = 3,
    skip: int = 0,
    whole: bool = False,
    size: int = 1,
    workers: int = 1,
) -> list[list[tuple[int, int]]]:
    """Returns the (epoch, number) of the examples of some steps; `whole` has them all on the spool before."""
    with tempfile.TemporaryDirectory() as folder, patch.object(module, "SHUFFLE_BUFFER", buffer):
        spool = Spool(Path(folder) / "spool")
        read = intake.whole if whole else lambda *known: numbered(count, size)
        feed = Feed(read, filled(spool, count * whole), seed, Pool(workers))
        return [step for _, step in islice(feed.steps(told, batch, done=skip), taken)]


@given(SIZES, BATCHES, BUFFERS)
def test_each_example_comes_once_an_epoch(count: int, batch: int, buffer: int) -> None:
    taken = -(-3 * count // batch)
    places = [place for step in steps(count, batch, taken, buffer=buffer) for place in step][: 3 * count]
    assert [epoch for epoch, _ in places] == [0] * count + [1] * count + [2] * count
    epochs = [[number for _, number in places[start : start + count]] for start in (0, count, 2 * count)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)
    if count > 20:
        assert epochs[1] != epochs[2]
        assert epochs[0] != sorted(epochs[0]) or buffer == 1


@given(SIZES, BATCHES, BUFFERS, st.integers(0, 12), st.booleans(), st.integers(1, 90))
def test_skipped_steps_leave_the_tail_of_the_order(
    count: int, batch: int, buffer: int, skip: int, whole: bool, size: int
) -> None:
    """However the examples come."""
    every = steps(count, batch, skip + 4, buffer=buffer)
    assert all(len(step) == batch for step in every)
    assert steps(count, batch, 4, buffer=buffer, skip=skip, whole=whole, size=size) == every[skip:]


@pytest.mark.parametrize("size", [1, 7, 12])
def test_the_order_is_what_it_was(size: int) -> None:
    """Else a run could not go on from the checkpoint of an older version."""
    epochs = steps(12, 6, 3, buffer=5, size=size)
    assert [number for _, number in epochs[0] + epochs[1]] == [4, 0, 6, 1, 7, 5, 10, 3, 11, 9, 2, 8]
    assert epochs[2] == [(1, 0), (1, 4), (1, 11), (1, 1), (1, 2), (1, 5)]


def test_the_order_hangs_on_the_seed_alone() -> None:
    assert steps(50, 7, 30) == steps(50, 7, 30) == steps(50, 7, 30, whole=True)
    assert steps(50, 7, 30, seed=4) != steps(50, 7, 30)


def test_nothing_in_is_nothing_out() -> None:
    assert steps(0, 4, 4) == []


def test_runs_that_share_a_spool_have_the_orders_that_they_have_alone(tmp_path: Path) -> None:
    spool = filled(Spool(tmp_path), 50)
    runs = [Feed(intake.whole, spool, seed).steps(told, 7) for seed in (3, 4, 3)]
    seen = [[step for _, step in islice(run, 20)] for run in runs]
    assert seen == [steps(50, 7, 20, buffer=module.SHUFFLE_BUFFER, seed=seed) for seed in (3, 4, 3)]


def test_the_first_epoch_begins_before_the_input_ends(tmp_path: Path) -> None:
    read = []

    def endless() -> Iterator[Chunk]:
        for number in count():
            read.append(number)
            yield chunk([example(number)])

    with patch.object(module, "SHUFFLE_BUFFER", 10):
        feed = Feed(lambda *known: endless(), Spool(tmp_path / "spool"), 0).steps(told, 4)
        seen = [number for _, step in islice(feed, 5) for _, number in step]
    assert len(read) == 10 + 20
    assert len(set(seen)) == 20
    assert seen != sorted(seen)


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9), min_size=1, max_size=30), st.randoms())
def test_a_spool_gives_back_what_it_got(rows: list[list[int]], rng: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool")
        for number, row in enumerate(rows):
            spool.append({"ids": np.array(row, np.int32), "key": np.frombuffer(str(row).encode(), np.uint8)})
            assert len(spool) == number + 1
            for index in {0, number, rng.randrange(number + 1)}:  # type: ignore[attr-defined]
                assert spool[index]["ids"].tolist() == rows[index]
                assert spool[index]["key"].tobytes().decode() == str(rows[index])
                assert spool[index]["ids"].dtype == np.int32


def test_a_spool_leaves_no_trace_and_two_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    first, second = Spool(tmp_path), Spool(tmp_path)
    first.append(example(1))
    second.append(example(2))
    assert [first[0]["number"].tolist(), second[0]["number"].tolist()] == [[1], [2]]
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@given(st.integers(1, 40), st.integers(1, 50), st.sampled_from([0.5, 1, 2, 3]))
def test_with_epochs_each_example_comes_as_often_as_they_say(count: int, batch: int, epochs: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        feed = Feed(intake.whole, filled(Spool(Path(folder)), count), seed=3)
        steps = [step for _, step in feed.steps(told, batch, epochs=epochs)]
    assert len(steps) == math.ceil(math.ceil(count * epochs) / batch)
    seen = Counter(number for step in steps for _, number in step)
    assert seen.total() == math.ceil(count * epochs)
    assert max(seen.values()) - min(seen[number] for number in range(count)) <= (epochs % 1 > 0)
