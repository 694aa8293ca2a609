"""Worker processes: the same results in the same order, whatever they are and however they end."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result, environment

from bertcli.errors import BadData, BertcliError
from bertcli.lines import Batch, Source
from bertcli.parallel import Pool
from bertcli.parallel.pool import ALONE, OPEN
from bertcli.parallel.processes import Fork
from bertcli.records import Anything, Document
from bertcli.stages import Stage
from bertcli.stream import Reader, Record, joined, loads

MANY = 5 * ALONE


def ordered(function: Callable[[Any], Any], items: Iterable[Any], workers: int = 1) -> Iterator[Any]:
    """Yields what a pool makes that does nothing else."""
    with Pool(workers) as pool:
        yield from pool.ordered(function, items)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, ALONE, ALONE + 1, MANY])
def test_results_come_in_order(workers: int, count: int) -> None:
    def slow_at_first(item: int) -> int:
        time.sleep(0.02 / (1 + item))
        return item * item

    assert list(ordered(slow_at_first, range(count), workers)) == [item * item for item in range(count)]


def test_the_work_is_shared_once_there_is_much() -> None:
    def whose(_: int) -> int:
        time.sleep(0.01)
        return os.getpid()

    processes = list(ordered(whose, range(MANY), 2))
    assert set(processes[:ALONE]) == {os.getpid()}
    assert len(set(processes[ALONE:])) == 2


def test_large_items_and_results_do_not_block_each_other() -> None:
    items = [bytes([index % 256]) * (1 << 22) for index in range(ALONE + 8)]
    assert list(ordered(lambda item: item * 2, items, 2)) == [item * 2 for item in items]


def test_a_pause_hands_on_all_results_first() -> None:
    seen: list[int] = []

    def items() -> Iterator[int | None]:
        for item in range(MANY):
            yield item
            if item % 3 == 2:
                yield None
                assert seen == list(range(item + 1))

    for result in ordered(lambda item: item, items(), 2):
        seen.append(result)
    assert seen == list(range(MANY))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pause_is_told_to_who_comes_next(workers: int) -> None:
    items = [number if number % 4 else None for number in range(MANY)]
    with Pool(workers) as pool:
        assert list(pool.paced(lambda item: item, items)) == items


def below() -> list[int]:
    """Returns the processes that this one has started."""
    return list(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_processes_share_the_work_on_two_streams_of_which_one_feeds_the_other(workers: int) -> None:
    """There are never more of them than asked for."""
    before, seen = len(below()), 0
    with Pool(workers) as pool:
        halves = pool.paced(lambda item: [item, -item], (item if item % 7 else None for item in range(9 * MANY)))
        flat = (half for pair in halves for half in pair or [None])
        for result in pool.paced(lambda item: (os.getpid(), item), flat):
            seen = max(seen, len(below()) - before)
            assert result is None or isinstance(result, tuple)
    assert seen == workers - 1
    assert len(below()) == before
    with Pool(workers) as pool:
        halves = pool.paced(lambda item: [item, -item], range(MANY))
        results = pool.ordered(lambda item: 2 * item, (half for pair in halves for half in pair or []))
        assert list(results) == [2 * half for item in range(MANY) for half in (item, -item)]


def test_all_processes_can_be_started_at_once() -> None:
    before = len(below())
    with Pool(3) as pool:
        results = pool.ordered(lambda item: item, range(MANY))
        pool.start()
        assert len(below()) - before == 2
        assert list(results) == list(range(MANY))
        assert len(below()) - before == 2


def test_an_error_comes_in_its_place() -> None:
    def refuse(item: int) -> int:
        if item == MANY - 3:
            raise BadData("no", file="f", line=item, field="x", found=1, expected="2")
        return item

    seen: list[int] = []
    with pytest.raises(BadData, match=f"f:{MANY - 3}: field 'x': no; found 1, expected 2"):
        seen.extend(ordered(refuse, range(MANY), 2))
    assert seen == list(range(MANY - 3))


def test_a_failure_that_cannot_be_told_is_no_hang() -> None:
    here = os.getpid()

    def refuse(item: int) -> int:
        if os.getpid() != here:
            raise KeyboardInterrupt
        return item

    with pytest.raises(BertcliError, match="a worker process died"):
        list(ordered(refuse, range(MANY), 2))


def test_a_result_that_cannot_travel_is_no_hang() -> None:
    here = os.getpid()
    with pytest.raises(BertcliError, match="a worker process died"):
        list(ordered(lambda item: item if os.getpid() == here else (lambda: item), range(MANY), 2))


def test_a_killed_process_is_told_not_waited_for() -> None:
    here = os.getpid()

    def die(item: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    with pytest.raises(BertcliError, match=r"a worker process died \(exit status -9\)"):
        list(ordered(die, range(MANY), 2))


def test_only_so_many_results_wait_for_a_slow_one() -> None:
    here, taken = os.getpid(), []

    def slow_elsewhere(item: int) -> int:
        time.sleep(0 if os.getpid() == here else 1)
        return item

    def items() -> Iterator[int]:
        for item in range(10 * MANY):
            taken.append(item)
            yield item

    results = ordered(slow_elsewhere, items(), 2)
    for _ in range(ALONE + 1):
        next(results)
    assert len(taken) <= ALONE + 2 * OPEN + 1
    results.close()


# -- batches of lines ------------------------------------------------------------------------------------------------


def upper(record: Record, index: int) -> Record:
    if record.get("bad"):
        raise BadData(field="bad", found=record["bad"], expected="nothing")
    return record | {"index": index}


STAGE = Stage(Anything, each=upper, whole=list)


def source(data: bytes, name: str = "in") -> Source:
    return Source(io.BytesIO(data), name)


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from([b"{}", b"", b"  ", b'{"bad": 1}', b"nonsense", b'{"a": [1]}']), max_size=40),
    st.integers(1, 4000),
)
def test_batches_make_what_one_by_one_makes(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    reader = Reader([source(data), source(data, "again")], Anything, on_error="skip")
    batches = [batch for batch in reader.batches(size) if batch]
    made = list(map(STAGE, batches))
    assert all(batch.size - 1 - len(batch.lines[-1]) < size for batch in batches if batch.lines)
    filled = [line for line in lines * 2 if line.strip()]
    good = [index for index, line in enumerate(filled) if line in (b"{}", b'{"a": [1]}')]
    assert [record["index"] for result, *_ in made for record in result] == good
    one_by_one = Reader([source(data), source(data, "again")], Anything, on_error="skip")
    assert len(list(one_by_one.map(lambda record: upper(record, 0)))) == len(good)
    assert [fault for _, skipped, _ in made for fault in skipped] == one_by_one.skipped


def test_what_came_before_a_bad_line_is_not_lost() -> None:
    reader = Reader([source(b'{"a": 1}\n\n{"bad": 2}\n{"a": 3}\n')], Anything)
    made = [STAGE(batch) for batch in reader.batches() if batch]
    assert [result for result, *_ in made] == [[{"a": 1, "index": 0}]]
    assert str(made[0].fault) == "in:3: field 'bad': found 2, expected nothing"


def test_what_came_before_a_fault_of_the_input_is_not_lost() -> None:
    whole = b"".join(b'{"a": %d}\n' % number for number in range(9))
    batches = Reader([source(zstandard.compress(whole) + zstandard.compress(whole)[:-2])], Anything).batches()
    seen: list[Batch | None] = []
    with pytest.raises(BadData, match="truncated"):
        seen.extend(batches)
    assert seen[-1] is None  # everything before is handed on
    assert [record for batch in seen if batch for record in STAGE(batch).result] == [
        {"a": number, "index": number} for number in range(9)
    ]


def test_the_first_line_decides_for_a_source_whether_it_is_text() -> None:
    sources = [source(b"\nplain\n{\n"), source(b'{"text": "a"}\n')]
    stage = Stage(Document, each=lambda record, index: record["text"], whole=list)
    batches = list(Reader(sources, Document, text=None).batches(1))
    assert [text for batch in batches if batch for text in stage(batch).result] == ["plain", "{", "a"]
    assert len([batch for batch in batches if batch is None]) == 2  # the next source may have to be waited for


def test_a_producer_that_waits_ends_a_batch() -> None:
    far, near = os.pipe()
    with open(far, "rb", buffering=0) as reading, open(near, "wb", buffering=0) as writing:
        batches = Reader([Source(reading, "in")], Anything).batches()
        for _ in range(2):
            writing.write(b"{}\n{}\n")
            batch = next(batches)
            assert batch is not None
            assert batch.lines == [b"{}", b"{}"]
            assert next(batches) is None


def test_joined_records_are_lines() -> None:
    assert list(map(loads, joined([{"a": 1}, {"b": "\n"}]).splitlines())) == [{"a": 1}, {"b": "\n"}]
    assert joined([]) == b""


# -- as processes ----------------------------------------------------------------------------------------------------

PIECES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n##a\n.\n"


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of many batches, with a vocabulary beside it."""
    (tmp_path / "vocab.txt").write_text(PIECES)
    path = tmp_path / "long.txt"
    line = "a ab ba é bab a b 한국 a ab b abba 中文 “b” " * 3
    path.write_text("".join(f"{line}b{index}.\n" + "\n" * (index % 5 == 0) for index in range(50_000)))
    return path


@pytest.mark.parametrize(
    "command",
    ["tokenize long.txt", "read text long.txt | bertcli pairs", "mask pairs.jsonl --whole-word", "vocab long.txt"],
)
def test_output_is_the_same_for_any_workers(long: Path, shell: Callable[..., Result], command: str) -> None:
    if command.startswith("mask"):
        assert shell("bertcli read text long.txt | bertcli pairs --plain --max-length 32 > pairs.jsonl").status == 0
    lines = [f"export BERTCLI_PLAIN=1; bertcli {command} --workers {count} --quiet | sha256sum" for count in (1, 2, 3)]
    one, two, three = map(shell, lines)
    assert three.out == two.out
    assert one.status == two.status == 0
    assert one.out == two.out != b""


def test_threads_of_tokenizers_do_not_block_workers(tmp_path: Path, shell: Callable[..., Result]) -> None:
    """Asked to use threads, it would lose them in the fork, and wait for them."""
    (tmp_path / "vocab.txt").write_text(PIECES)
    text = tmp_path / "accents.txt"
    text.write_text(
        "".join(f"{chr(0xE0 + index % 30)}{index} {chr(0x3B1 + index % 20)}x{index}\n" for index in range(300_000))
    )
    line = "TOKENIZERS_PARALLELISM=true timeout 100 bertcli tokenize accents.txt --workers 2 --plain --quiet | wc -l"
    assert shell(line).out.strip() == b"300000"


def test_batches_grow_up_to_their_size() -> None:
    reader = Reader([source(b"{}\n" * 30_000)], Anything)
    sizes = [batch.size for batch in reader.batches(6400) if batch]
    assert sizes[:7] == [102, 201, 402, 801, 1602, 3201, 6402]
    assert set(sizes[7:-1]) == {6402}


def test_a_bad_value_of_any_depth_is_told_in_its_place(long: Path, shell: Callable[..., Result]) -> None:
    """By a worker too, from which it travels."""
    deep = """python -c "print('{\\"text\\": ' + '[' * 1000 + ']' * 1000 + '}')\""""
    lines = 'sed \'s/.*/{"text": "&"}/\' long.txt'
    for count in (1, 3):
        result = shell(f"({lines}; {deep}) | bertcli tokenize --workers {count} --plain --quiet | wc -l")
        assert result.out.strip() == b"60000"
        assert result.err == "bertcli tokenize: <stdin>:60001: field 'text': found a list, expected a string\n"
        skipped = shell(f'({deep}; echo \'{{"text": "a"}}\') | bertcli tokenize --on-error skip --plain --quiet')
        assert (skipped.status, len(skipped.records)) == (0, 1)


@pytest.mark.parametrize("pause", [0.02, 0.08])
def test_a_steady_slow_producer_does_not_starve_the_next_stage(long: Path, pause: float) -> None:
    command = [sys.executable, "-m", "bertcli", "tokenize", "--workers", "2", "--plain", "--quiet"]
    with subprocess.Popen(
        command, cwd=long.parent, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        os.set_blocking(process.stdout.fileno(), False)
        came = b""
        for _ in range(int(4 / pause)):
            process.stdin.write(b"a b\n" * 20)
            process.stdin.flush()
            time.sleep(pause)
            came += process.stdout.read() or b""
        assert came.count(b"\n") > 20 * int(1 / pause)


def test_an_interrupt_of_all_processes_ends_them_quietly(long: Path) -> None:
    command = [sys.executable, "-m", "bertcli", "tokenize", long.name, "--workers", "3", "--plain", "--quiet"]
    process = subprocess.Popen(
        command,
        cwd=long.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert process.stdout
    while len(children.read_text().split()) < 2:
        assert process.stdout.read(1 << 20)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (-signal.SIGINT, b"")


def test_workers_do_not_outlive_their_command(long: Path) -> None:
    command = [sys.executable, "-m", "bertcli", "tokenize", long.name, "--workers", "3", "--plain", "--quiet"]
    process = subprocess.Popen(command, cwd=long.parent, env=environment(), stdout=subprocess.PIPE)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    assert process.stdout
    while len(workers := children.read_text().split()) < 2:
        assert process.stdout.read(1 << 20)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [worker for worker in workers if Path(f"/proc/{worker}/cmdline").exists()]


def test_a_bad_line_far_into_the_input_is_named(long: Path, shell: Callable[..., Result]) -> None:
    lines = 'sed \'s/.*/{"text": "&"}/\' long.txt'
    result = shell(f"({lines}; echo '{{\"text\": 1}}'; {lines}) | bertcli tokenize --workers 2 --plain --quiet | wc -l")
    assert result.out.strip() == b"60000"
    assert "<stdin>:60001: field 'text': found 1, expected a string" in result.err


def test_a_process_that_cannot_be_started_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", none)
    with pytest.raises(BertcliError, match=r"^no process can be started: Resource temporarily unavailable$"):
        Fork(lambda pipe: None)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}
