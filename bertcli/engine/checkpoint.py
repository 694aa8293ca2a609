"""What resuming needs, on disk whole or not at all: weights, moments, random states, step and settings.

`checkpoint/N/` is complete once it has that name. The place in the data follows from the step, for the feed's order
depends on the seed and the epoch alone.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertcli import folder
from bertcli.engine.optim import Optimizer
from bertcli.errors import IOFailed, UsageError

WEIGHTS, OPTIMIZER, RANDOM, STATE = (
    "weights.safetensors",
    "optimizer.safetensors",
    "random.safetensors",
    "state.json",
)


def write(
    path: Path,
    state: dict[str, Any],
    weights: dict[str, Tensor],
    moments: dict[str, Tensor],
    randoms: Sequence[dict[str, Tensor]],
    keep: int = 1,
) -> None:
    """Write `checkpoint/STEP/` under a model folder, then remove all but the newest `keep`. Raises `IOFailed`.

    `state` has the step, the settings, and whatever else of the run is to be known again; `randoms` are the states of
    each rank's random generators. All tensors are on the host.
    """
    home = path / "checkpoint"
    temporary, final = home / f".{state['step']}", home / str(state["step"])
    named = {f"{name}/{rank}" if rank else name: one for rank, own in enumerate(randoms) for name, one in own.items()}
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for file, tensors in ((WEIGHTS, weights), (OPTIMIZER, moments), (RANDOM, named)):
            save_file(tensors, temporary / file)
        (temporary / STATE).write_text(json.dumps(state, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        _sync(temporary)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        _sync(home)
        for old in complete(path)[:-keep]:
            shutil.rmtree(old)
    except (OSError, SafetensorError) as error:  # the latter is safetensors' word for a full disk
        shutil.rmtree(temporary, ignore_errors=True)  # whose room is wanted
        raise IOFailed(f"{home}: {getattr(error, 'strerror', None) or error}") from error


def complete(path: Path) -> list[Path]:
    """Returns a model folder's complete checkpoints, the newest last."""
    homes = (path / "checkpoint").glob("[0-9]*")
    return sorted((home for home in homes if home.name.isdecimal()), key=lambda home: int(home.name))


def begin(path: Path) -> None:
    """Make the place of a model folder's checkpoints, by which it is known that the model is not finished."""
    (path / "checkpoint").mkdir(exist_ok=True)


def discard(path: Path, *, is_finished: bool) -> None:
    """Remove a run's checkpoints, and where the model is finished with it their place."""
    home = path / "checkpoint"
    for old in [home] if is_finished else home.glob("*/"):
        shutil.rmtree(old, ignore_errors=True)


def restore(
    home: Path, network: nn.Module, optimizer: Optimizer, settings: dict[str, Any], rank: int = 0
) -> dict[str, Any]:
    """Fill network, optimizer and random generators; returns the state. Raises `UsageError` where settings differ.

    A rank that was not there when the checkpoint was made keeps its random generators as they are.
    """
    state = folder.read_json(home / STATE)
    old = state["settings"]
    changed = [name for name in sorted({*old, *settings}) if old.get(name) != settings.get(name)]
    if changed:
        told = ", ".join(f"{name} was {old.get(name)} and is now {settings.get(name)}" for name in changed)
        raise UsageError(f"{home}: --resume goes on with the same settings only: {told}")
    network.load_state_dict(load_file(home / WEIGHTS))
    kept = load_file(home / OPTIMIZER)
    for name, parameter in network.named_parameters():
        own = {key.partition("/")[2]: kept[key] for key in kept if key.partition("/")[0] == name}
        if own:
            optimizer.adam.state[parameter] = {key: value.to(parameter.device) for key, value in own.items()}
    states = load_file(home / RANDOM)
    suffix = f"/{rank}" if rank else ""
    torch.set_rng_state(states.get(f"cpu{suffix}", torch.get_rng_state()))
    if f"cuda{suffix}" in states and (device := _device(network)).type == "cuda":
        torch.cuda.set_rng_state(states[f"cuda{suffix}"], device)
    return state


def moments(network: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Returns what an optimizer keeps of each parameter, where it lies, as `PARAMETER/NAME`."""
    return {
        f"{name}/{key}": value
        for name, parameter in network.named_parameters()
        for key, value in optimizer.adam.state.get(parameter, {}).items()
    }


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


def random_states(network: nn.Module) -> dict[str, Tensor]:
    """Returns the states of the generators that dropout draws from."""
    states = {"cpu": torch.get_rng_state()}
    if (device := _device(network)).type == "cuda":  # where dropout draws
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


class Randoms:
    """The random states after those steps of which it is not known yet whether they were good."""

    def __init__(self) -> None:
        """Know none yet."""
        self._states: dict[int, dict[str, Tensor]] = {}

    def add(self, step: int, network: nn.Module, good: int) -> None:
        """Keep those of now, after a step, and forget those before the last one that is known to be good."""
        self._states = {number: states for number, states in self._states.items() if number >= good}
        self._states[step] = random_states(network)

    def of(self, step: int) -> dict[str, Tensor]:
        """Returns those after a step."""
        return self._states[step]


def _sync(directory: Path) -> None:
    for path in [*directory.iterdir(), directory]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
