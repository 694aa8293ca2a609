"""What `pretrain` and `finetune` share: the options of a run, its folder, its start and its dev records."""

from __future__ import annotations

import functools
import itertools
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bertcli import torchrun
from bertcli.commands import computing, saving
from bertcli.commands.options import F, Integer, Number, Several, applied, seed
from bertcli.commands.streams import Streams, readable
from bertcli.errors import BadData, BertcliError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bertcli.engine.device import Device
    from bertcli.engine.settings import Output
    from bertcli.model.heads import Network
    from bertcli.records import Record
    from bertcli.tasks.task import Example, Task
    from bertcli.weights.folder import ModelFolder


class Usual(NamedTuple):
    """What a task has where nothing else is asked for."""

    lr: float
    batch_size: int
    epochs: float
    max_length: int


def options(*, lr: float, warmup: float, batch_size: int, save_every: int) -> Callable[[F], F]:
    """Adds the options of a training run with a command's own defaults; it gets them as `settings` and `output`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_run(*args: Any, **kwargs: Any) -> Any:
            from bertcli.engine.settings import Output, Settings

            settings, output = Settings(**_taken(Settings, kwargs)), Output(**_taken(Output, kwargs))
            if output.eval_every and kwargs["dev"] is None:
                raise UsageError("--eval-every needs --dev")
            return function(*args, settings=settings, output=output, **kwargs)

        rates = learning(str(lr), str(batch_size), Number(0, min_open=True), Integer(1), warmup)
        return applied(saving.options(save_every), rates, seed)(with_run)  # type: ignore[return-value]

    return decorate


def grid(tasks: Mapping[str, Usual]) -> Callable[[F], F]:
    """Adds the options of training runs on a task's records; the command gets them as `cells` and `output`.

    What is not given is what the task that is asked for usually has; the cells are the settings of each combination
    of what is given several times.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_cells(*args: Any, task_name: str, **kwargs: Any) -> Any:
            from bertcli.engine.settings import Output, Settings
            from bertcli.engine.sweep import CELL

            name = "--features" if kwargs["features"] else task_name
            given, usual = _taken(Settings, kwargs), tasks[name]._asdict()
            values = [given.pop(name) or (usual[name],) for name in CELL]
            cells = [Settings(**given, **dict(zip(CELL, cell, strict=True))) for cell in itertools.product(*values)]
            output = Output(**_taken(Output, kwargs))
            return function(*args, task_name=task_name, cells=cells, output=output, **kwargs)

        several = click.option(
            "--epochs",
            type=Several(Number(0, min_open=True)),
            help=f"Passes over the records.  [default: {_told(tasks, 'epochs')}]",
        )
        lr, batch_size = (_told(tasks, name) for name in ("lr", "batch_size"))
        rates = learning(lr, batch_size, Several(Number(0, min_open=True)), Several(Integer(1)), 0.1)
        return applied(several, saving.options(0), rates, seed)(with_cells)  # type: ignore[return-value]

    return decorate


def _told(tasks: Mapping[str, Usual], name: str) -> str:
    """Returns a setting's usual values, for the help: the commonest, then the others with their tasks."""
    values = {task: f"{getattr(usual, name):g}" for task, usual in tasks.items()}
    (common, _), *_ = Counter(values.values()).most_common()
    return "; ".join([common, *(f"{task} {value}" for task, value in values.items() if value != common)])


def _taken(kind: type, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns those of a command's arguments that are fields of a dataclass, taken out of the others."""
    return {each.name: kwargs.pop(each.name) for each in fields(kind) if each.name in kwargs}


def learning(
    lr: str, batch_size: str, rate: click.ParamType[Any], size: click.ParamType[Any], warmup: float
) -> Callable[[F], F]:
    """Adds the options of the optimizer and of what it steps on.

    The first two come with their defaults as the help tells them, and with the types of what may be given; where the
    type is of several values, the command finds the default itself.
    """
    is_one = not isinstance(rate, Several)
    return applied(
        click.option(
            "--lr",
            type=rate,
            default=lr if is_one else None,
            show_default=is_one,
            help="The highest learning rate." + ("" if is_one else f"  [default: {lr}]"),
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
            "--optimizer",
            type=click.Choice(["adamw", "lamb"]),
            default="adamw",
            show_default=True,
            help="lamb: each matrix changes in proportion to its own length, for batches of thousands of examples.",
        ),
        click.option(
            "--bias-correction/--no-bias-correction",
            default=True,
            show_default=True,
            help="Of the optimizer's moments; Google's code has none.",
        ),
        click.option(
            "--batch-size",
            type=size,
            default=batch_size if is_one else None,
            show_default=is_one,
            help="Examples an optimizer step, over all ranks." + ("" if is_one else f"  [default: {batch_size}]"),
        ),
        click.option(
            "--dropout",
            type=Number(0, 1, max_open=True),
            default=0.1,
            show_default=True,
            help="On activations and on attention.",
        ),
    )


def ranked(function: F) -> F:
    """Lets of several processes that `torchrun` has started only the first one speak, and signals end them all."""

    @functools.wraps(function)
    def with_voice(*args: Any, streams: Streams, **kwargs: Any) -> Any:
        from bertcli.engine.signals import AtOnce

        streams.is_silent = torchrun.place().rank > 0
        try:
            with AtOnce("before the first step"):
                return function(*args, streams=streams, **kwargs)
        except BertcliError as error:
            if streams.is_silent and error.is_shared:
                raise click.exceptions.Exit(error.status) from error
            raise
        except KeyboardInterrupt:
            if streams.is_silent:
                raise KeyboardInterrupt from None
            raise

    return with_voice  # type: ignore[return-value]


def compute(function: F) -> F:
    """Adds what all commands compute with, and what training alone does; the command gets them as `device`."""

    @functools.wraps(function)
    def with_more(
        *args: Any,
        device: Device,
        gradient_checkpointing: bool,
        cuda_graphs: str,
        deterministic: bool,
        workers: int | None,
        output: Output,
        force: bool,
        **kwargs: Any,
    ) -> Any:
        from bertcli.engine.distributed import join
        from bertcli.engine.signals import AtOnce

        ranks = join(device.device)
        more = replace(
            device,
            recomputes=gradient_checkpointing,
            graphs=cuda_graphs == "auto",
            is_deterministic=deterministic,
            workers=workers or device.workers,
            ranks=ranks,
        )
        with ranks.as_one(), AtOnce("before the first step"):
            restarts, *_ = ranks.meet([torchrun.restarts()])
            if any(restarts):  # what was typed was for the first start
                output, force = replace(output, resume=True), False
            return function(*args, device=more, output=output, force=force, **kwargs)

    recomputing = click.option(
        "--gradient-checkpointing",
        is_flag=True,
        help="Keep of each layer its input alone, and compute the rest again in the backward pass: the same result in "
        "less memory and more time.",
    )
    recording = click.option(
        "--cuda-graphs",
        type=click.Choice(["auto", "off"]),
        default="auto",
        show_default=True,
        help="auto: on a GPU in bf16, small passes are recorded, and their kernels issued all at once, as far as there "
        "is memory for it.",
    )
    repeating = click.option(
        "--deterministic",
        is_flag=True,
        help="On a GPU too, a run repeats, and goes on when resumed, bit for bit, on the same kind of machine with the "
        "same versions: sums are made in a fixed order, which costs some speed. A CPU's always are.",
    )
    feeding = click.option(
        "--workers",
        type=Integer(1),
        help="Processes of a machine that get batches ready while others train, 1: those themselves; the result is the "
        "same.  [default: 1, for each GPU 8, as far as there are cores]",
    )
    return computing.compute(applied(recomputing, recording, repeating, feeding)(with_more))  # type: ignore[return-value]


def notes() -> dict[str, Any]:
    """Returns what a model's folder is to say of how it was made."""
    return {"command": readable(shlex.join(["bertcli", *sys.argv[1:]]))}


def start_from(streams: Streams, network: Network, model: ModelFolder, *, keep_head: bool) -> None:
    """Fill a network from a model folder; stderr names what stays fresh, and what of the folder is left out."""
    account = model.fill(network, new_head=True, keep_head=keep_head)
    parts = ", ".join(sorted({name.rpartition(".")[0] for name in account.fresh}))
    fresh, left = f"; fresh: {parts}" * bool(parts), f"; left out: {account.without}" * bool(account.without)
    streams.note(f"starting from {model.path}{fresh}{left}")


def read_dev(
    streams: Streams,
    file: str | None,
    task: Task,
    room: Path,
    complete: Callable[[Record], Record] = lambda record: record,
) -> list[tuple[Record, list[Example]]]:
    """Returns a dev file's records, completed with what they lack, beside what they are encoded to, on disk.

    There are none where there is no file. Raises `BadData` where there is a file without records.
    """
    if file is None:
        return []
    from bertcli.engine.spool import Spool
    from bertcli.records import Anything

    dev, spool = streams.of(file), Spool(room)

    def encoded(record: Record) -> tuple[Record, range]:
        whole = complete(record)
        begin = len(spool)
        for example in task.encode(whole):
            spool.append(example)
        task.gold(whole)
        return task.essence(whole), range(begin, len(spool))

    scored = list(dev.reader(Anything).map(encoded))
    if not scored:
        raise BadData("there is no record to score the model on", file=file)
    return [(record, [spool[index] for index in indices]) for record, indices in scored]


def tell(streams: Streams, result: Record) -> None:
    """Say what was skipped, and write what became of it all to stdout."""
    streams.report_skipped()
    streams.write_result(result)
