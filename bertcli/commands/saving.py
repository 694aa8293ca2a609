"""Where a training run leaves its model: the options that say so, and the folder made ready for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands.options import F, Integer, applied
from bertcli.commands.streams import Streams
from bertcli.errors import CannotCreate, UsageError, many

if TYPE_CHECKING:
    from bertcli.engine.distributed import Ranks
    from bertcli.engine.settings import Output, Settings


place = applied(
    click.option(
        "-o",
        "--output",
        "path",
        required=True,
        type=click.Path(path_type=Path),
        help="The model folder to write.",
    ),
    click.option("--force", is_flag=True, help="Overwrite a model that is there."),
)


def options(save_every: int) -> Callable[[F], F]:
    """Adds the options that say where a run leaves its model, and when it saves on the way."""
    return applied(
        place,
        click.option(
            "--resume",
            is_flag=True,
            help="Go on from the newest complete checkpoint there, as all ranks do that torchrun --max-restarts starts "
            "anew.",
        ),
        click.option(
            "--save-every",
            type=Integer(0),
            default=save_every,
            show_default=True,
            help="Steps between checkpoints; 0: none.",
        ),
        click.option(
            "--keep",
            type=Integer(1),
            default=1,
            show_default=True,
            help="The newest checkpoints that stay, until the run is finished.",
        ),
        click.option(
            "--save-at",
            default="",
            callback=parse_steps,
            help="Steps after which to keep a whole model in steps/N, as in 1000,5000.",
        ),
        click.option(
            "--spool",
            type=click.Path(path_type=Path),
            help="Where ids are kept until the run is complete.  [default: under -o]",
        ),
    )


def parse_steps(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    """Returns the numbers of a list such as `1000,5000`; raises click's error where one is no number."""
    try:
        steps = tuple(int(part) for part in value.split(",") if part)
    except ValueError:
        steps = (0,)
    if min(steps, default=1) < 1:
        raise click.BadParameter(f"{value!r} is not a list of steps, as in 1000,5000")
    return steps


def prepare(
    streams: Streams, output: Output, runs: list[Settings], ranks: Ranks, *, force: bool, start: Path | None
) -> None:
    """Make the output folder, and hold it; a `--resume` of what is finished ends the command here, with its figures.

    The settings are those of each run. Raises `UsageError` where it is the folder to start from, whose weights are read
    only later, or where a finished run had other settings; `CannotCreate` where it may not be written.
    """
    from bertcli import target
    from bertcli.engine.signals import later

    if force and output.resume:
        raise UsageError("--force and --resume: begin anew, or go on?")
    if start is not None:
        check_apart(output.path, start)
    own = target.taken(output.path, force=force, resume=output.resume, warn=streams.warn)
    if output.resume and ranks.of_first(target.is_finished(output.path)):
        if ranks.is_first:
            with suppress(CannotCreate), own:  # puts in order what a process has left that was killed at its very end
                pass
        _tell_finished(streams, output.path, runs)
        raise click.exceptions.Exit(0)
    with ranks.as_one(), later():
        if ranks.is_first:
            click.get_current_context().with_resource(own)


def check_apart(path: Path, start: Path) -> None:
    """Raise `UsageError` where the folder to write is the one to start from, or has it inside."""
    if start.resolve().is_relative_to(path.resolve()):
        raise UsageError(f"-o {path}: must be another folder than the model to start from, {start}")


def _tell_finished(streams: Streams, path: Path, runs: list[Settings]) -> None:
    from bertcli import folder

    notes = folder.read_notes(path)
    if told := _changed(notes, runs):
        raise UsageError(f"{path}: --resume goes on with the same settings only, and is finished: {told}")
    streams.note(f"{path}: finished already")
    figures = {name: notes[name] for name in ("step", "dev") if name in notes}
    streams.write_result({"model": str(path)} | figures)


def _changed(notes: dict[str, Any], runs: list[Settings]) -> str:
    """Returns how finished runs differ from those that are asked for, "" where they do not."""
    from bertcli.engine.sweep import CELL

    old, now = notes.get("settings", {}), asdict(runs[0])
    own = (*CELL, "seed")  # in which runs differ from each other
    rows = notes.get("runs", [old])
    if len(rows) > 1 or len(runs) > 1:
        if [[row.get(name) for name in own] for row in rows] != [[getattr(run, name) for name in own] for run in runs]:
            return f"it has {many(len(rows), 'run')} of its own"
        now = {name: value for name, value in now.items() if name not in own}
    # What is None, or 0 steps, was left to the run itself.
    changed = [name for name, value in now.items() if value is not None and (value or name != "steps")]
    return ", ".join(f"{name} was {old[name]}" for name in changed if old.get(name, now[name]) != now[name])
