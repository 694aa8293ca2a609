"""The program as many processes from one start: a server that has imported everything forks one for each command.

Each is a real process with pipes, folder and environment of its own, and ends by the status or the signal of
`cli.main`. Shared are only the seconds that importing torch takes, and the seed of Python's hashes.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from program import ROOT, Result, environment

PATIENCE = 30  # seconds after which a process counts as hanging


@dataclass
class Process:
    """A command at work; `report` says its end."""

    pid: int
    report: IO[bytes]

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def is_alive(self) -> bool:
        return not select.select([self.report], [], [], 0)[0]

    def wait(self) -> int:
        """Returns the exit status, negative for a signal."""
        ended = select.select([self.report], [], [], PATIENCE)[0]
        if not ended:
            self.send_signal(signal.SIGKILL)
        with self.report:
            status = int(self.report.readline())
        assert ended, "hung"
        return status


class Program:
    """Starts commands by way of the server."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server

    def start(self, words: list[str], cwd: Path, files: list[IO[Any] | int], **variables: str) -> Process:
        """Returns `bertcli WORDS...` at work with these files as stdin, stdout and stderr."""
        inlet, outlet = os.pipe()
        request = json.dumps({"words": words, "cwd": str(cwd), "variables": variables})
        descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
        socket.send_fds(self._server, [request.encode()], [*descriptors, outlet])
        os.close(outlet)
        report = os.fdopen(inlet, "rb", buffering=0)
        return Process(int(report.readline()), report)

    def run(
        self, words: list[str], cwd: Path, stdin: bytes = b"", stdout: IO[Any] | None = None, **variables: str
    ) -> Result:
        """Returns how a command ended that was given these bytes by a pipe; its output as it is, if not elsewhere."""
        with open(filled(stdin), "rb") as inlet, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = self.start(words, cwd, [inlet, stdout or out, err], **variables).wait()
            out.seek(0)
            err.seek(0)
            return Result(status, out.read(), err.read().decode())

    def script(self, command: list[str], cwd: Path, **variables: str) -> Result:
        """Returns how a script ended that runs `bertcli` by its name: each time a client.py of the server."""
        with tempfile.TemporaryDirectory() as folder:
            client = Path(folder, "bertcli")
            client.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {ROOT}/tests/client.py "$@"\n')
            client.chmod(0o755)
            own = environment()
            own |= {"PATH": f"{folder}:{own['PATH']}", "WARM_SERVER": str(self._server.fileno())} | variables
            done = subprocess.run(
                command, cwd=cwd, env=own, pass_fds=[self._server.fileno()], capture_output=True, check=False
            )
        return Result(done.returncode, done.stdout, done.stderr.decode())


def filled(data: bytes) -> int:
    """Returns the reading end of a pipe that holds these bytes, at most a megabyte, and nothing after them."""
    inlet, outlet = os.pipe()
    fcntl.fcntl(outlet, fcntl.F_SETPIPE_SZ, 1 << 20)
    with open(outlet, "wb") as file:
        file.write(data)
    return inlet


@contextmanager
def program() -> Iterator[Program]:
    """Gives the program, its server at work."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "stdin": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment(), **options):
            theirs.close()
            try:
                yield Program(ours)
            finally:
                ours.close()  # by which the server ends


# -- the server ---------------------------------------------------------------------------------------------------


def serve(requests: socket.socket) -> None:
    """Fork an attendant for each request, until nobody can make one any more."""
    import bertcli

    for module in pkgutil.walk_packages(bertcli.__path__, "bertcli."):
        if module.name != "bertcli.__main__":
            importlib.import_module(module.name)
    importlib.import_module("torch._dynamo")  # which torch imports with the first optimizer
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for attendants
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1 << 16, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            attend(files, **json.loads(message))
        for file in files:
            os.close(file)


def attend(files: list[int], words: list[str], cwd: str, variables: dict[str, str]) -> None:
    """Fork one command, say its process id on the last of the files, and at its end its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, report = files
    command = os.fork()
    if command == 0:
        os.close(report)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
            os.close(stream)
        os.chdir(cwd)
        os.environ.update(variables)
        sys.argv = ["bertcli", *words]
        try:
            importlib.import_module("bertcli.cli").main()
        except BaseException:  # which a user would see too
            traceback.print_exc()
        os._exit(1)
    for stream in streams:
        os.close(stream)
    os.write(report, b"%d\n" % command)
    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]))
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
