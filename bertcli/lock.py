"""One process at a time in a folder: a lock that ends with its holder, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bertcli.errors import CannotCreate

NAME = ".lock"
HELD = (errno.EACCES, errno.EAGAIN)
WITHOUT = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of file systems that have no locks


@contextmanager
def held(folder: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Holds a folder's lock. Raises `CannotCreate` naming who has it, or why a file cannot be made there.

    It is a lock of POSIX, on a file that says whose it is: the process's own, so that what it has forked does not hold
    it any longer than itself, and a file that a killed process leaves is locked by nobody. It works on NFS. Where there
    are no locks `warn` is told, and the work goes on without.
    """
    path = folder / NAME
    try:
        file = _locked(path, warn)
    except OSError as error:
        raise CannotCreate(f"{folder}: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            if _is_at(path, file):
                path.unlink()
        os.close(file)


def _locked(path: Path, warn: Callable[[str], None]) -> int:
    """Returns the descriptor of the file at the path, locked."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            _lock(file, path, warn)
            if _is_at(path, file):  # else its holder has just ended, and removed it
                os.ftruncate(file, 0)
                with suppress(OSError):  # a full disk: the lock holds without its holder's name
                    os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(file: int, path: Path, warn: Callable[[str], None]) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            holder = os.pread(file, 200, 0).decode(errors="replace").strip() or "another process"
            raise CannotCreate(f"{path.parent}: {holder} is at work there") from error
        if error.errno not in WITHOUT:
            raise
        warn(f"{path.parent}: no locks on its disk ({error.strerror}): no other run may be at work there")


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False
