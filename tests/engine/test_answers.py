"""Lines to answered lines in several processes: the same, whoever reads and writes them, and however they end."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import models
import numpy as np
import pytest
import torch
import toys
import warm
from program import Result

from bertcli.engine import predict
from bertcli.engine.answers import Encoded, answers, reading
from bertcli.engine.device import choose
from bertcli.engine.lanes import lanes
from bertcli.errors import Diverged
from bertcli.lines import Source
from bertcli.parallel import Pool
from bertcli.stream import Reader
from bertcli.tasks.embedding import Embedding, parse_layers

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("BertForSequenceClassification", {"num_labels": 3}),
    "regression": ("BertForSequenceClassification", {"num_labels": 1}),
    "tagging": ("BertForTokenClassification", {"num_labels": 3}),
    "span": ("BertForQuestionAnswering", {}),
    "choice": ("BertForMultipleChoice", {}),
}
SMALL = ("--max-tokens", 16, "--device", "cpu", "--plain")  # so that a few records are many batches


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with two models of each kind, `KIND-0` and `KIND-1`, records of it, and a pre-trained model."""
    home = tmp_path_factory.mktemp("home")
    for kind, (name, config) in KINDS.items():
        for number in range(2):
            models.save(models.theirs(name, seed=number, **config), home / f"{kind}-{number}")
        own = toys.records(kind, 120, seed=3)
        own += models.coloured(3, longest=90) if kind == "classification" else []  # with windows
        (home / f"{kind}.jsonl").write_bytes(models.lines(own))
    toys.start(home / "pretrained-0")
    (home / "pretrained.jsonl").write_bytes(
        b'{"text": "the [MASK] was red"}\n' * 9 + models.lines(models.pairs(90)) + b'{"text": "a [MASK]"}\n' * 9
    )
    return home


@pytest.fixture(scope="module")
def ran(home: Path, program: warm.Program) -> Callable[..., Result]:
    """Runs a command in the folder of models, with records on stdin or none."""

    def ran(*words: object, stdin: bytes = b"") -> Result:
        return program.run(list(map(str, words)), home, stdin)

    return ran


def numbers(value: Any) -> list[float]:
    """Returns all the numbers in a value, in order."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []


def same(one: Result, other: Result) -> None:
    """Asserts that two answers are the same records, numbers up to rounding."""
    assert (one.status, other.status) == (0, 0), one.err + other.err
    assert len(one.records) == len(other.records) > 0
    for a, b in zip(one.records, other.records, strict=True):
        assert list(a) == list(b)
        assert a.get("id") == b.get("id")
        np.testing.assert_allclose(numbers(a), numbers(b), atol=1e-5)
    assert one.err == other.err


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", [*KINDS, "pretrained"])
def test_answers_are_the_same_for_any_workers(ran: Callable[..., Result], kind: str, count: int) -> None:
    if (kind, count) == ("pretrained", 2):
        pytest.skip("no ensemble")
    folders = [word for number in range(count) for word in ("-m", f"{kind}-{number}")]
    line = ["predict", f"{kind}.jsonl", *folders, *SMALL]
    one = ran(*line)
    for workers in (2, 4):
        same(one, ran(*line, "--workers", workers))
    assert [{**record, **given} for record, given in zip(one.records, _given(one, kind), strict=True)] == one.records


def _given(result: Result, kind: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in r.items() if name not in ("prediction", "details")} for r in result.records]


@pytest.mark.parametrize("options", [("--pool", "mean"), ("--layers", "weighted-all"), ("--vectors", "list")])
def test_vectors_are_the_same_for_any_workers(ran: Callable[..., Result], options: tuple[str, ...]) -> None:
    line = ["embed", "classification.jsonl", "-m", "pretrained-0", "--dtype", "float32", *options, *SMALL]
    one, three = ran(*line), ran(*line, "--workers", 3)
    unneeded = "pretrained-0: not needed: bert.pooler, cls.predictions, cls.seq_relationship (9 tensors)\n"
    assert (one.status, one.err) == (three.status, three.err) == (0, unneeded)
    for a, b in zip(one.records, three.records, strict=True):
        assert {**a, "vectors": 0} == {**b, "vectors": 0}


def test_what_is_cut_is_counted_wherever_it_was(ran: Callable[..., Result]) -> None:
    line = ["predict", "span.jsonl", "-m", "span-0", "--max-question", 2, *SMALL]
    for workers in (1, 4):
        assert "120 of 120 questions were cut to 2 tokens" in ran(*line, "--workers", workers).err


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_bad_line_is_named_and_what_came_before_it_is_answered(ran: Callable[..., Result], workers: int) -> None:
    records = models.lines(models.coloured(120))
    line = ["predict", "-m", "classification-0", *SMALL, "--workers", workers]
    stopped = ran(*line, stdin=records + b'{"text": 1}\n' + records)
    assert (stopped.status, len(stopped.records)) == (65, 120)
    assert stopped.err == "bertcli predict: <stdin>:121: field 'text': found 1, expected a string\n"
    skipped = ran(*line, "--on-error", "skip", stdin=records + b'{"text": 1}\n' + records)
    assert (skipped.status, len(skipped.records)) == (0, 240)
    assert skipped.err.startswith("bad lines skipped: 1; the first: <stdin>:121: field 'text'")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_vector_that_does_not_fit_loses_nothing_before_it(workers: int) -> None:
    """The answers of a batch come out up to the one that cannot be told."""
    task = Embedding(models.wordpiece(), 64, parse_layers("last", 2), pool="mean", dtype="float16")
    device = choose("cpu", max_tokens=64)
    network = _Overflowing(task, at=37)
    encoded = _encoded(task, [{"text": "the cat"}] * 60, device.max_tokens)
    came: list[bytes] = []
    with pytest.raises(Exception, match="does not fit float16"), Pool(workers) as pool:
        came.extend(answers([network.network], network, encoded, device, pool))
    assert b"".join(came).count(b"\n") == 37


class _Overflowing(Embedding):
    """A task whose decoding fails at one record."""

    def __init__(self, task: Embedding, at: int) -> None:
        super().__init__(task.wordpiece, task.max_length, task.layers, pool="mean")
        from bertcli.tasks.task import build

        self.network, self._at = build(task, models.config()), at

    def decode(self, record: Any, examples: Any, answer: Any) -> Any:
        whole = [1e9 * each for each in answer] if record["id"] == self._at else answer
        return super().decode(record, examples, whole)


def _encoded(task: Embedding, records: list[dict[str, Any]], max_tokens: int) -> list[Encoded | None]:
    import io

    stage = reading(task, choose("cpu", max_tokens=max_tokens))
    data = models.lines([{"id": number, **record} for number, record in enumerate(records)])
    batches = Reader([Source(io.BytesIO(data), "in")], stage.schema).batches(stage.size)
    return [None if batch is None else stage(batch).result for batch in batches]


def test_weights_that_overflow_lose_nothing_before_them() -> None:
    """What was answered before comes out, as with any other error."""
    task = Embedding(models.wordpiece(), 64, parse_layers("last", 2), pool="mean")
    network = _Overflowing(task, at=-1).network
    encoded = iter(_encoded(task, [{"text": "the cat"}] * 30, 64))

    def broken() -> Any:
        yield from encoded
        raise Diverged("the model's answer is not a finite number")

    came: list[bytes] = []
    with pytest.raises(Diverged), Pool(3) as pool:
        came.extend(answers([network], task, broken(), choose("cpu", max_tokens=64), pool))
    assert b"".join(came).count(b"\n") == 30


@pytest.fixture
def running(home: Path, program: warm.Program) -> Callable[..., tuple[warm.Process, int, int]]:
    """Starts `predict` with some workers; gives the process and the ends of its pipes, to write and to read."""

    def running(workers: int) -> tuple[warm.Process, int, int]:
        (inlet, feed), (out, outlet) = os.pipe(), os.pipe()
        line = ["predict", "-m", "classification-0", *SMALL, "--workers", workers]
        errors = os.open(home / "errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        process = program.start(list(map(str, line)), home, [inlet, outlet, errors])
        for end in (inlet, outlet, errors):
            os.close(end)
        return process, feed, out

    return running


def lines_of(file: int, count: int) -> list[dict[str, Any]]:
    """Returns so many records from a pipe."""
    data = b""
    while data.count(b"\n") < count:
        data += os.read(file, 1 << 16)
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("workers", [1, 4])
def test_answers_come_while_the_producer_waits(running: Callable[..., Any], workers: int) -> None:
    process, feed, out = running(workers)
    for number in range(12):  # the later ones by other processes
        os.write(feed, b'{"id": %d, "text": "the cat"}\n{"text": "a dog"}\n' % number)
        assert lines_of(out, 2)[0]["id"] == number
    os.close(feed)
    assert os.read(out, 1) == b""
    assert process.wait() == 0
    os.close(out)


def _workers(process: warm.Process, count: int) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 20
    while len(found := children.read_text().split()) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return list(map(int, found))


def test_a_worker_that_is_killed_is_told(running: Callable[..., Any], home: Path) -> None:
    process, feed, out = running(4)
    for _ in range(12):
        os.write(feed, b'{"text": "the cat"}\n')
        lines_of(out, 1)
    for worker in _workers(process, 3):
        os.kill(worker, signal.SIGKILL)
    os.write(feed, b'{"text": "the cat"}\n' * 50)
    os.close(feed)
    assert process.wait() == 1
    assert "a worker process died (exit status -9)" in (home / "errors").read_text()
    os.close(out)


def test_workers_go_when_their_command_does(running: Callable[..., Any]) -> None:
    process, feed, out = running(4)
    for _ in range(12):
        os.write(feed, b'{"text": "the cat"}\n')
        lines_of(out, 1)
    workers = _workers(process, 3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [worker for worker in workers if Path(f"/proc/{worker}/cmdline").exists()]
    os.close(feed)
    os.close(out)


def test_a_reader_that_has_gone_ends_it_quietly(running: Callable[..., Any], home: Path) -> None:
    process, feed, out = running(4)
    os.write(feed, b'{"text": "the cat"}\n' * 12)
    lines_of(out, 1)
    os.close(out)
    os.write(feed, b'{"text": "the cat"}\n' * 100)
    os.close(feed)
    assert process.wait() == -signal.SIGPIPE
    assert (home / "errors").read_text() == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gpu_answers_as_the_cpu_does(ran: Callable[..., Result], precision: str) -> None:
    line = ["predict", "classification.jsonl", "-m", "classification-0", "-m", "classification-1", "--plain"]
    cpu = ran(*line, "--device", "cpu")
    gpu = ran(*line, "--device", "cuda", "--precision", precision, "--max-tokens", 64)
    assert (gpu.status, len(gpu.records)) == (0, len(cpu.records)), gpu.err
    for a, b in zip(cpu.records, gpu.records, strict=True):
        np.testing.assert_allclose(numbers(a), numbers(b), atol=1e-5 if precision == "fp32" else 5e-2)


def test_weights_in_half_precision_answer_alike(ran: Callable[..., Result]) -> None:
    line = ["predict", "classification.jsonl", "-m", "classification-0", "--plain", "--device", "cpu"]
    whole, half = ran(*line), ran(*line, "--precision", "bf16")
    for a, b in zip(whole.records, half.records, strict=True):
        np.testing.assert_allclose(numbers(a["details"]), numbers(b["details"]), atol=5e-2)
    assert whole.out != half.out


def test_workers_are_there_before_threads_that_have_a_gpu_in_hand() -> None:
    """A process with such threads is not to be copied."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before, seen = len(children.read_text().split()), []

    @contextmanager
    def watched(device: torch.device, count: int) -> Iterator[Any]:
        seen.append(len(children.read_text().split()) - before)
        with lanes(device, count) as start:
            yield start
        seen.append(len(children.read_text().split()) - before)

    task = Embedding(models.wordpiece(), 64, parse_layers("last", 2), pool="mean")
    network, device = _Overflowing(task, at=-1).network, choose("cpu", max_tokens=64)
    encoded = _encoded(task, [{"text": "the cat"}] * 200, device.max_tokens)
    assert len(encoded) > 20
    with patch.object(predict, "lanes", watched), Pool(3) as pool:
        assert b"".join(answers([network], task, encoded, device, pool)).count(b"\n") == 200
    assert seen == [2, 2]
