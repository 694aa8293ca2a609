"""What resuming needs, on disk whole or not at all: weights, moments, random states, step and settings.

`checkpoint/N/` is complete once it has that name. The place in the data follows from the step, for the feed's order
depends on the seed and the epoch alone.
"""

from __future__ import annotations

import os
import shutil
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


def save(path: Path, network: nn.Module, optimizer: Optimizer, state: dict[str, Any], keep: int = 1) -> None:
    """Write `checkpoint/STEP/` under a model folder, then remove all but the newest `keep`. Raises `IOFailed`.

    `state` has the step, the settings, and whatever else of the run is to be known again.
    """
    home = path / "checkpoint"
    temporary, final = home / f".{state['step']}", home / str(state["step"])
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_file({name: tensor.cpu() for name, tensor in network.state_dict().items()}, temporary / WEIGHTS)
        save_file(_moments(network, optimizer), temporary / OPTIMIZER)
        save_file(_random_states(network), temporary / RANDOM)
        folder.write_json(temporary / STATE, state)
        _sync(temporary)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        _sync(home)
        for old in complete(path)[:-keep]:
            shutil.rmtree(old)
    except (OSError, SafetensorError) as error:  # the latter is safetensors' word for a full disk
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


def restore(home: Path, network: nn.Module, optimizer: Optimizer, settings: dict[str, Any]) -> dict[str, Any]:
    """Fill network, optimizer and random generators; returns the state. Raises `UsageError` where settings differ."""
    state = folder.read_json(home / STATE)
    old = state["settings"]
    changed = [name for name in sorted({*old, *settings}) if old.get(name) != settings.get(name)]
    if changed:
        told = ", ".join(f"{name} was {old.get(name)} and is now {settings.get(name)}" for name in changed)
        raise UsageError(f"{home}: --resume goes on with the same settings only: {told}")
    network.load_state_dict(load_file(home / WEIGHTS))
    moments = load_file(home / OPTIMIZER)
    for name, parameter in network.named_parameters():
        own = {key.partition("/")[2]: moments[key] for key in moments if key.partition("/")[0] == name}
        if own:
            optimizer.adam.state[parameter] = {key: value.to(parameter.device) for key, value in own.items()}
    states = load_file(home / RANDOM)
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and (device := _device(network)).type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
    return state


def _moments(network: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value.cpu()
        for name, parameter in network.named_parameters()
        for key, value in optimizer.adam.state.get(parameter, {}).items()
    }


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


def _random_states(network: nn.Module) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if (device := _device(network)).type == "cuda":  # where dropout draws
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _sync(directory: Path) -> None:
    for path in [*directory.iterdir(), directory]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
