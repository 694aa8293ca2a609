"""How files come and go on a disk: whole or not at all, alone or as a set, also where the process or the power fails.

What is on its way has a hidden name, `.NAME.PROCESS.new`, what is going `.NAME.PROCESS.old`. `settle` puts in order
what a process has left that was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertcli.errors import IOFailed

MARK = "config.json"  # by which a model folder is known: it goes first, and comes last
# The weights of a model in all forms, and what says how they are read: of another model none may stay beside `MARK`.
WEIGHTS = (
    *("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json", "model.onnx"),
    *("pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json"),
    *("bert_model.ckpt.*", "bert_config.json", "modules.json", "1_Pooling", "sentence_bert_config.json"),
)
LIST = ".files"  # with their names, for some of them may be moved already
COMMITTED = ".model"  # files that are on the disk, all of them, and only have to be moved into the folder above


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary path beside `path` and renames it there, on disk, once it was written without an error.

    A link stays what it is, and the file that it names is replaced.
    """
    path = Path(os.path.realpath(path))
    temporary = _hidden(path, "new")
    try:
        yield temporary
        _settle_rights(temporary)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def publishing(folder: Path) -> Iterator[Path]:
    """Gives a temporary folder, whose files are the folder's once all were written without an error.

    A folder that is not there appears with all of them at once. In one that is, they take the places of others of the
    same names, and `MARK` is not there meanwhile: whoever reads finds the old files, the new ones, or that it lacks.
    Raises `IOFailed`; the old files are then whole, or the new ones are `settle`'s to move.
    """
    is_there = folder.exists()
    draft = _hidden(folder / "model" if is_there else folder, "new")
    try:
        draft.mkdir(parents=True)
        yield draft
        if is_there:
            for path in draft.iterdir():
                if (folder / path.name).exists() and (folder / path.name).is_dir() != path.is_dir():
                    raise OSError(f"{path.name} is in the way")
            (draft / LIST).write_text("".join(f"{path.name}\n" for path in draft.iterdir()))
        for path in [*draft.rglob("*"), draft]:
            if path.is_file():
                _settle_rights(path)
            sync(path)
        draft.rename(folder / COMMITTED if is_there else folder)
        sync(folder if is_there else folder.parent)
        if is_there:
            _move_in(folder)
    except OSError as error:
        raise IOFailed(f"{folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_in(folder: Path) -> None:
    """Move the committed files to their places; each step is on the disk before the next one."""
    committed = folder / COMMITTED
    (folder / MARK).unlink(missing_ok=True)
    sync(folder)
    new = (committed / LIST).read_text().splitlines()
    for old in weights(folder):
        if old.name not in new or (committed / old.name).is_dir():
            vanish(old)
    for path in committed.iterdir():
        if path.name not in (MARK, LIST):
            path.replace(folder / path.name)
    sync(folder)
    (committed / MARK).replace(folder / MARK)
    (committed / LIST).unlink()
    committed.rmdir()
    sync(folder)


def seen(folder: Path) -> int:
    """Returns what another number stands for as soon as other files were published; 0 where there is no model."""
    try:
        return (folder / MARK).stat().st_mtime_ns
    except OSError:
        return 0


def weights(folder: Path) -> list[Path]:
    """Returns what of `WEIGHTS` is in a folder."""
    return [path for pattern in WEIGHTS for path in folder.glob(pattern)]


def vanish(path: Path) -> None:
    """Remove a file or a folder, if it is there; a folder is whole as long as it has its name. Raises `OSError`."""
    if path.is_file() or path.is_symlink():
        path.unlink()
    elif path.exists():
        going = _hidden(path, "old")
        path.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def settle(folder: Path) -> None:
    """Finish, or undo, what a killed process was at in a folder, which nobody else may be at. Raises `OSError`."""
    if (folder / COMMITTED / MARK).exists():
        _move_in(folder)
    left = [path for end in ("new", "old") for path in folder.glob(f".*.[0-9]*.{end}")]
    for path in [*left, folder / COMMITTED]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Let a file's content be on the disk, or a directory's names. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hidden(path: Path, end: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{end}")


def _settle_rights(file: Path) -> None:
    """Give a file the rights that the user gives: some libraries make files that nobody else can read.

    They are those of a file that is made beside it; to ask for the mask would be to change it, also for other threads.
    """
    sample = file.with_name(f".{file.name}.{os.getpid()}.new")
    sample.touch()
    file.chmod(sample.stat().st_mode & 0o777)
    sample.unlink()
