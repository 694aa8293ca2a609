"""What `pretrain` and `finetune` share: the options of a run, its folder, and how it is watched."""

from __future__ import annotations

import functools
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands.options import F, Integer, Number, applied, seed
from bertcli.commands.streams import Streams, readable
from bertcli.errors import BadData, UsageError

if TYPE_CHECKING:
    from bertcli.engine.run import Output, Run, Settings
    from bertcli.model.heads import Network
    from bertcli.records import Record
    from bertcli.tasks.task import Example


def options(*, lr: float, warmup: float, batch_size: int, save_every: int) -> Callable[[F], F]:
    """Adds the options of a training run with a command's own defaults; it gets them as `settings` and `output`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_run(*args: Any, **kwargs: Any) -> Any:
            from bertcli.engine.run import Output, Settings

            settings, output = (
                kind(**{name: kwargs.pop(name) for name in kind.__dataclass_fields__ if name in kwargs})
                for kind in (Settings, Output)
            )
            return function(*args, settings=settings, output=output, **kwargs)

        return applied(saving(save_every), learning(lr, warmup, batch_size), seed)(with_run)  # type: ignore[return-value]

    return decorate


def saving(save_every: int) -> Callable[[F], F]:
    """Adds the options that say where a run leaves its model, and when it saves on the way."""
    path = click.Path(path_type=Path)
    return applied(
        click.option("-o", "--output", "path", required=True, type=path, help="The model folder to write."),
        click.option("--force", is_flag=True, help="Overwrite a model that is there."),
        click.option("--resume", is_flag=True, help="Go on from the newest complete checkpoint there."),
        click.option(
            "--save-every",
            type=Integer(0),
            default=save_every,
            show_default=True,
            help="Steps between checkpoints; 0: none.",
        ),
        click.option(
            "--save-at",
            default="",
            callback=parse_steps,
            help="Steps after which to keep a whole model in steps/N, as in 1000,5000.",
        ),
        click.option("--spool", type=path, help="Where ids are kept while training.  [default: under -o]"),
    )


def learning(lr: float, warmup: float, batch_size: int) -> Callable[[F], F]:
    """Adds the options of the optimizer and of what it steps on."""
    return applied(
        click.option(
            "--lr",
            type=Number(0, min_open=True),
            default=lr,
            show_default=True,
            help="The highest learning rate.",
        ),
        click.option(
            "--warmup",
            type=Number(0),
            default=warmup,
            show_default=True,
            help="Steps to reach it: below 1 a share, from 1 on a count.",
        ),
        click.option(
            "--schedule",
            type=click.Choice(["linear", "google", "constant"]),
            default="linear",
            show_default=True,
            help="How the rate falls: from its peak to 0; from the first step on, as in Google's code; not at all.",
        ),
        click.option(
            "--bias-correction/--no-bias-correction",
            default=True,
            show_default=True,
            help="Adam's; Google's code has none.",
        ),
        click.option(
            "--batch-size",
            type=Integer(1),
            default=batch_size,
            show_default=True,
            help="Examples an optimizer step.",
        ),
        click.option(
            "--dropout",
            type=Number(0, 1, max_open=True),
            default=0.1,
            show_default=True,
            help="On activations and on attention.",
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


def command_line() -> str:
    """Returns this command as it was typed, for the notes of its model."""
    return readable(shlex.join(["bertcli", *sys.argv[1:]]))


def prepare(streams: Streams, output: Output, settings: Settings, *, force: bool, start: Path | None) -> None:
    """Make the output folder; a `--resume` of what is finished ends the command here, with the figures of then.

    Raises `UsageError` where it is the folder to start from, whose weights are read only later, or where a finished
    run had other settings.
    """
    from bertcli import folder

    if force and output.resume:
        raise UsageError("--force and --resume: begin anew, or go on?")
    if start is not None and start.resolve().is_relative_to(output.path.resolve()):
        raise UsageError(f"-o {output.path}: must be another folder than the model to start from, {start}")
    if output.resume and folder.is_finished(output.path):
        notes = folder.read_notes(output.path)
        old = notes.get("settings", {})
        told_now = {name: value for name, value in asdict(settings).items() if name != "steps" or settings.steps}
        changed = [name for name, value in told_now.items() if old.get(name) != value]
        if changed:
            told = ", ".join(f"{name} was {old.get(name)}" for name in changed)
            raise UsageError(f"{output.path}: --resume goes on with the same settings only, and is finished: {told}")
        streams.note(f"{output.path}: finished already")
        figures = {name: notes[name] for name in ("step", "dev") if name in notes}
        streams.write_result({"model": str(output.path)} | figures)
        raise click.exceptions.Exit(0)
    folder.create(output.path, force=force, resume=output.resume)


def start_from(streams: Streams, network: Network, model: Path, *, keep_head: bool) -> None:
    """Fill a network from a model folder; stderr names what stays fresh."""
    from bertcli.weights.safetensors import load

    fresh = load(model, network, new_head=True, keep_head=keep_head)
    parts = sorted({name.rpartition(".")[0] for name in fresh})
    streams.note(f"starting from {model}" + (f"; fresh: {', '.join(parts)}" if parts else ""))


def read_dev(
    streams: Streams,
    file: str | None,
    encode: Callable[[Record], list[Example]],
    complete: Callable[[Record], Record] = lambda record: record,
) -> list[tuple[Record, list[Example]]]:
    """Returns a dev file's records, completed with what they lack, beside what they are encoded to.

    There are none where there is no file. Raises `BadData` where there is a file without records.
    """
    if file is None:
        return []
    from bertcli.records import Anything

    dev = streams.of(file)
    records = dev.reader(Anything).map(lambda record: (whole := complete(record), encode(whole)))
    scored = list(records)
    if not scored:
        raise BadData("there is no record to score the model on", file=file)
    return scored


def watch(streams: Streams, run: Run, rows: Iterable[Record]) -> None:
    """Go through a run's rows, under a bar with loss, rate, tokens/s and time left where there is a terminal.

    The last line on stderr sums the run up; its figures go to stdout as one line.
    """
    from tqdm import tqdm

    hidden = streams.quiet or sys.stderr is None or not sys.stderr.isatty()
    tokens, begun = 0, time.monotonic()
    with tqdm(total=run.last, unit=" steps", file=sys.stderr, disable=hidden) as bar:
        for row in rows:
            if not tokens:
                bar.initial = bar.n = row["step"] - 1  # more than 0 on --resume
            tokens += row["tokens"]
            rate = tokens / max(1e-9, time.monotonic() - begun)
            figures = f"loss {row['loss']:.3f}, lr {row['lr']:.2e}, {rate / 1000:.1f} k tokens/s"
            bar.set_postfix_str(figures, refresh=False)
            bar.update()
    figures = "".join(f"{name} {value:.4f}, " for name, value in run.last_row.items() if "loss" in name)
    rate = tokens / max(1e-9, time.monotonic() - begun)
    end = "is complete" if run.last == run.steps else f"is stopped at step {run.last} of {run.steps}"
    streams.note(f"step {run.last}: {figures}{rate / 1000:.1f} k tokens/s; {run.output.path} {end}")
    streams.report_skipped()
    streams.write_result(run.result())
