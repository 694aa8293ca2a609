"""The one error boundary: each kind of failure has its status and one line, and no command leaves a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Result, environment

from bertcli import __version__, cli, errors
from bertcli.errors import BadData, BertcliError, Status


def test_help_lists_the_commands_in_pipeline_order(invoke: Callable[..., Result]) -> None:
    result = invoke("--help")
    assert (result.status, result.err) == (0, "")
    table = result.out.decode().split("Commands, in pipeline order:\n")[1]
    assert [line.split()[0] for line in table.splitlines() if line[2:3] != " "] == list(cli.COMMANDS)


def test_version(invoke: Callable[..., Result]) -> None:
    assert invoke("--version") == (0, f"bertcli, version {__version__}\n".encode(), "")


@pytest.mark.parametrize("line", [["nothing"], ["--nothing"], ["read"], ["read", "texts"], ["read", "text", "--no"]])
def test_wrong_usage_is_2_and_says_how(invoke: Callable[..., Result], line: list[str]) -> None:
    result = invoke(*line)
    assert (result.status, result.out) == (2, b"")
    assert result.err.startswith("Usage: bertcli")
    assert "--help" in result.err


def test_every_error_has_its_own_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BertcliError)]
    assert {kind.status for kind in kinds} == set(Status) - {Status.DONE}
    assert len({kind.status for kind in kinds}) == len(kinds) - 1  # a model that diverges is a failure like others
    assert [int(status) for status in Status] == [0, 1, 2, 65, 66, 73, 74, 75]


def test_a_message_has_its_parts_in_order() -> None:
    assert str(BadData("broken")) == "broken"
    full = BadData("broken", file="a.txt", line=3, field="text", found={"a": 1}, expected="a string")
    assert str(full) == "a.txt:3: field 'text': broken; found an object, expected a string"
    assert str(BadData(found="x" * 99, expected="less").at("a.txt", None)).endswith("…, expected less")
    assert str(full.at("b.txt", 9)) == str(full)


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        ("errors.BertcliError('no\\nluck')", 1, "bertcli: no luck\n"),
        ("errors.BadData('bad', file='f', line=2)", 65, "bertcli: f:2: bad\n"),
        ("errors.CannotCreate('there already')", 73, "bertcli: there already\n"),
        ("errors.Stopped('saved')", 75, "bertcli: saved\n"),
        ("OSError(28, 'No space left on device')", 74, "bertcli: No space left on device\n"),
        ("FileNotFoundError(2, 'No such file', 'x')", 74, "bertcli: x: No such file\n"),
        ("MemoryError()", 1, "bertcli: out of memory\n"),
        ("RuntimeError('[enforce fail] can\\'t allocate memory: you tried 9 bytes')", 1, "bertcli: out of memory\n"),
        ("ImportError('libtorch_cpu.so: failed to map segment from shared object')", 1, "bertcli: out of memory\n"),
        ("KeyboardInterrupt('stopped by SIGINT')", -signal.SIGINT, "bertcli: stopped by SIGINT\n"),
        ("ZeroDivisionError('oh')", 1, "bertcli: internal error: ZeroDivisionError: oh"),
        ("BrokenPipeError()", -signal.SIGPIPE, ""),
        ("KeyboardInterrupt()", -signal.SIGINT, ""),
        ("click.Abort()", -signal.SIGINT, ""),
    ],
)
def test_what_a_command_raises_becomes_a_status_and_one_line(raised: str, status: int, said: str) -> None:
    done = fail(f"raise {raised}")
    assert done.returncode == status
    assert done.stderr.decode().startswith(said)
    assert done.stderr.count(b"\n") == bool(said)


def fail(body: str, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """Runs a command with the given body behind the error boundary."""
    code = f"""
import sys, click
from bertcli import cli, errors
@cli.group.command("fail")
def fail():
    {body}
cli.LazyGroup.get_command = lambda self, context, name: fail
sys.argv = ["bertcli", "fail"]
cli.main()"""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment(), check=False)


def test_what_was_said_is_handed_on_before_the_end() -> None:
    said = fail("sys.stdout.write('said')")
    assert (said.returncode, said.stdout) == (0, b"said")
    with open("/dev/full", "wb") as full:
        assert fail("sys.stdout.write('said')", full).returncode == 74


def test_standard_output_that_fails_is_74(shell: Callable[..., Result]) -> None:
    assert shell("bertcli --help > /dev/full").status == 74
    assert shell("echo '{}' | bertcli score pretraining --on-error skip > /dev/full").status == 74


def test_an_interrupt_ends_the_process_by_its_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bertcli", "read", "text", "--plain", "--document", "line"]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **options) as process:  # type: ignore[call-overload]
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == b'{"id":"0","text":"a"}\n'
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
        assert process.stderr.read() == b""


def test_plain_by_option_or_environment_and_zstd_else(shell: Callable[..., Result]) -> None:
    head = "| head -c 1 | od -An -c"
    assert shell(f"echo a | bertcli read text {head}").out.split() == [b"("]
    assert shell(f"echo a | bertcli read text --plain {head}").out.split() == [b"{"]
    assert shell(f"echo a | BERTCLI_PLAIN=1 bertcli read text {head}").out.split() == [b"{"]
    assert shell(f"echo a | BERTCLI_PLAIN=0 bertcli read text {head}").out.split() == [b"("]
