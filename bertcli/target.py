"""The folder that a training run writes: whose it is, what in it is worth keeping, and what an old run has left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertcli import lock, publish
from bertcli.errors import CannotCreate

MODEL = ("config.json", "model.safetensors", "bertcli.json")
# In the order in which they go: a model is none any more at once, and what says that it is not finished goes last.
MADE_BY_TRAINING = (*MODEL, "steps", "runs", "log.jsonl", "scores.jsonl", "checkpoint")


@contextmanager
def taken(folder: Path, *, force: bool, resume: bool | None, warn: Callable[[str], None]) -> Iterator[None]:
    """Makes an output folder and holds it for one run. Raises `CannotCreate`, also where another run is at work there.

    `resume` is None where there is nothing that could go on.

    Nothing in it is lost: the old model stays until the new one's first step, see `clear`, and what a killed run was at
    is finished, or undone. Of what is made here nothing is left at the end if the folder is empty.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _making(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with lock.held(folder, warn):
            with _making(folder):
                for place in (folder, folder / "steps", *steps(folder), folder / "checkpoint"):
                    publish.settle(place)
                if is_finished(folder):
                    remove_spools(folder)
            _check(folder, force=force, resume=resume)
            yield
    finally:
        for path in made:
            with suppress(OSError):  # where there is something in it
                path.rmdir()


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotCreate(f"{error.filename or folder}: {error.strerror}") from error


def _check(folder: Path, *, force: bool, resume: bool | None) -> None:
    """Raise `CannotCreate` where a folder holds what may be neither overwritten nor resumed."""
    is_foreign = (folder / "config.json").exists() and not (folder / "bertcli.json").exists()
    if not force and (is_foreign if resume else is_worth_keeping(folder)):
        more = "" if resume is None else ", --resume goes on with a run"
        raise CannotCreate(f"{folder}: holds a model already (--force overwrites it{more})")


def is_worth_keeping(folder: Path) -> bool:
    """Returns whether a model is in a folder, or what one can be made of: not only what a failed run has said."""
    files = [folder / name for name in (*MODEL, "checkpoint/runs.jsonl")]
    return any(file.exists() for file in files) or bool(publish.weights(folder) or steps(folder) or complete(folder))


def complete(folder: Path) -> list[Path]:
    """Returns a model folder's complete checkpoints, the newest last."""
    return _numbered(folder / "checkpoint")


def steps(folder: Path) -> list[Path]:
    """Returns the whole models that a run has kept on its way, the newest last."""
    return _numbered(folder / "steps")


def _numbered(place: Path) -> list[Path]:
    homes = (home for home in place.glob("[0-9]*") if home.name.isdecimal() and home.is_dir())
    return sorted(homes, key=lambda home: int(home.name))


def create_empty(folder: Path, *, force: bool) -> None:
    """Make a folder; raises `CannotCreate` where it holds anything, unless `force` says to write over that."""
    with _making(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not force:
            raise CannotCreate(f"{folder}: is not empty (--force writes over what is there)")


def clear(folder: Path, *, keep: Sequence[str] = ()) -> None:
    """Take an old model, its log and its checkpoints out of a folder, but for what to keep. Raises `CannotCreate`."""
    with _making(folder):
        for path in [folder / name for name in MADE_BY_TRAINING if name not in keep]:
            is_folder = path.is_dir() and not path.is_symlink()
            publish.vanish(path) if is_folder else path.unlink(missing_ok=True)  # half a checkpoint would be damaged


def is_finished(folder: Path) -> bool:
    """Returns whether training ran to its last step there: a model of ours stands, and no checkpoint waits."""
    is_ours = (folder / "config.json").exists() and (folder / "bertcli.json").exists()
    return is_ours and not (folder / "checkpoint").exists()


def remove_spools(folder: Path) -> None:
    """Remove what is left of a finished run's input, as by a machine that was not there then. Raises `OSError`."""
    for path in [folder / "spool", *folder.glob("spool-[0-9]*")]:
        if (path / "index.jsonl").exists() and not path.is_symlink():
            publish.vanish(path)


# -- what is not finished -------------------------------------------------------------------------------------------


def unfinished(folder: Path) -> dict[str, Any] | None:
    """Returns how far the training in a folder is, None where it is finished, or where there was none.

    `step` is that of the newest checkpoint, if there is one, `steps` are the whole models in `steps/`. Of several runs
    `runs` is their number and `finished` that of those that are; both are only known when the first one is.
    """
    if not (folder / "checkpoint").is_dir():
        return None
    found: dict[str, Any] = {"step": int(newest[-1].name)} if (newest := complete(folder)) else {}
    with suppress(OSError, ValueError, KeyError, TypeError):  # no table yet, or none of ours
        plan, *rows = map(json.loads, (folder / "checkpoint" / "runs.jsonl").read_bytes().splitlines())
        found |= {"finished": len(rows), "runs": len(plan["runs"])}
    if whole := steps(folder):
        found["steps"] = [int(path.name) for path in whole]
    return found


def lacking(folder: Path) -> str | None:
    """Returns why a folder has no model yet, where its training has begun and is not finished; else None."""
    found = unfinished(folder)
    if found is None or (folder / "config.json").exists():
        return None
    saved = f"--resume goes on after step {found['step']}" if "step" in found else "nothing is saved yet"
    models = f"; whole models: {', '.join(f'steps/{step}' for step in found['steps'])}" if "steps" in found else ""
    return f"{folder}: training is not finished there: {saved}{models}"


def best_yet(folder: Path) -> str | None:
    """Returns of which runs a model is only the best yet, where others are to follow; else None."""
    found = unfinished(folder)
    if found is None or not (folder / "config.json").exists():
        return None
    told = f"{found['finished']} of its {found['runs']} runs are finished" if "runs" in found else "no run is finished"
    return f"{folder}: the best model yet: {told}; --resume goes on with them"
