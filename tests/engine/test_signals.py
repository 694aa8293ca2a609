"""Signals before, between and after the runs of a command: they end it by what they mean, and nothing swallows them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import models
import pytest
import toys
import warm

from bertcli.engine import signals
from bertcli.engine.signals import AtOnce, Signals
from bertcli.errors import Stopped


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@contextmanager
def sending_behind() -> Iterator[None]:
    yield
    send()


@contextmanager
def turned_into(error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        raise error from None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_what_is_inside_and_then_has_its_old_meaning(number: int) -> None:
    old, went_on = signal.getsignal(number), []

    def inside() -> None:
        with AtOnce("here"):
            send(number)
            went_on.append(True)

    told = f"^stopped by {signal.Signals(number).name} here$"
    with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else Stopped, match=told):
        inside()
    assert not went_on
    assert signal.getsignal(number) is old


@pytest.mark.parametrize("border", ["_handled", "_restore"])
def test_a_signal_at_the_borders_is_not_lost(monkeypatch: pytest.MonkeyPatch, border: str) -> None:
    """When handlers have just been set, or are about to be given back."""
    act = getattr(signals, border)

    def acted(*arguments: Any, **options: Any) -> Any:
        if border == "_restore":
            send()
        done = act(*arguments, **options)
        if border == "_handled":
            send()
        return done

    monkeypatch.setattr(signals, border, acted)
    old = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped, match=r"^stopped by SIGTERM here$"), AtOnce("here"):
        pass
    assert signal.getsignal(signal.SIGTERM) is old


def test_what_is_swallowed_or_taken_for_another_error_is_not_lost() -> None:
    with pytest.raises(Stopped), AtOnce("here"), suppress(BaseException):
        send()
    with pytest.raises(Stopped), AtOnce("here"), turned_into(ZeroDivisionError):
        send()
    with AtOnce("here"):
        with suppress(BaseException):
            send()
        with Signals() as signals:
            assert signals.caught == signal.SIGTERM
            with pytest.raises(Stopped, match="after step 3; --resume goes on from there"):
                signals.stop(3)


def test_what_is_ignored_stays_ignored() -> None:
    """As under `nohup`, or in the background of a script."""
    old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with AtOnce("here"), Signals() as signals:
            send(signal.SIGUSR1)
            assert signals.caught is None
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_after_a_run_signals_wait_for_the_end() -> None:
    with AtOnce("before"):
        with Signals():
            pass
        send()
    with (
        pytest.raises(Stopped, match="afterwards"),
        AtOnce("outer"),
        AtOnce("before", "afterwards"),
        sending_behind(),
        Signals(),
    ):
        pass
    with AtOnce("outer"):
        with AtOnce("before"), Signals():
            pass
        send()  # the last run is over, and so is all


def test_after_a_run_that_failed_they_do_not_wait() -> None:
    with (
        pytest.raises(Stopped, match="before"),
        AtOnce("before"),
        sending_behind(),
        suppress(ZeroDivisionError),
        Signals(),
    ):
        raise ZeroDivisionError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
@pytest.mark.parametrize("old", [True, False])
def test_a_signal_while_input_is_read_leaves_what_was_there(
    program: warm.Program, tmp_path: Path, number: int, old: bool
) -> None:
    toys.start(tmp_path / "start")
    if old:
        toys.start(tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*")}
    line = ["finetune", "classification", "-m", "start", "-o", "out", "--device", "cpu", *["--force"] * old]
    inlet, outlet = os.pipe()
    os.write(outlet, models.lines(toys.records("classification", 5)))
    with open(os.devnull, "r+b") as nothing, (tmp_path / "err").open("wb") as err:
        process = program.start(line, tmp_path, [inlet, nothing, err])
    os.close(inlet)
    ends = time.monotonic() + warm.PATIENCE
    while not (tmp_path / "out" / ".lock").exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait() == (-number if number == signal.SIGINT else 75)
    os.close(outlet)
    (told,) = (tmp_path / "err").read_text().splitlines()
    assert told == f"bertcli finetune: stopped by {signal.Signals(number).name} before the first step"
    assert (tmp_path / "out").exists() == old
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*")} == before
