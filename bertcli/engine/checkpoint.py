"""What resuming needs, on disk whole or not at all: weights, moments, random states, step and settings.

`checkpoint/N/` is complete once it has that name; under another, hidden one it is on its way, or going. The place in
the data follows from the step, for the feed's order depends on the seed and the epoch alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from bertcli import folder, publish
from bertcli.engine.optim import Optimizer
from bertcli.errors import IOFailed
from bertcli.target import complete as complete
from bertcli.target import remove_spools

FILES = WEIGHTS, OPTIMIZER, RANDOM, STATE = (
    "weights.safetensors",
    "optimizer.safetensors",
    "random.safetensors",
    "state.json",
)

BLOCK = 1 << 24  # bytes read at once


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
    each rank's random generators. All tensors are on the host. Checkpoints of later steps go too: from them nobody has
    gone on, for they are damaged.
    """
    home = path / "checkpoint"
    temporary, final = home / f".{state['step']}", home / str(state["step"])
    named = {f"{name}/{rank}" if rank else name: one for rank, own in enumerate(randoms) for name, one in own.items()}
    groups = {WEIGHTS: weights, OPTIMIZER: moments, RANDOM: named}
    try:
        begin(path)
        for stale in home.glob(".*/"):  # whose room is wanted
            shutil.rmtree(stale)
        temporary.mkdir()
        for file, tensors in groups.items():
            save_file(tensors, temporary / file)
        folder.write_json(temporary / STATE, {**state, "checks": {file: checksum(temporary / file) for file in groups}})
        for file in FILES:
            publish.sync(temporary / file)
        publish.sync(temporary)
        publish.vanish(final)
        temporary.rename(final)
        publish.sync(home)
        homes = complete(path)
        newest = homes[: homes.index(final) + 1][-keep:]
        for old in homes:
            if old not in newest:
                publish.vanish(old)
    except (OSError, SafetensorError) as error:  # the latter is safetensors' word for a full disk
        shutil.rmtree(temporary, ignore_errors=True)
        raise IOFailed(f"{home}: {getattr(error, 'strerror', None) or error}") from error


def checksum(path: Path) -> int:
    """Returns a checksum of all that a file holds. Raises `OSError`."""
    check = 0
    with path.open("rb") as file:
        while data := file.read(BLOCK):
            check = crc32(data, check)
    return check


def begin(path: Path) -> None:
    """Make the place of a model folder's checkpoints, by which it is known that the model is not finished."""
    if not (path / "checkpoint").exists():
        (path / "checkpoint").mkdir(parents=True)
        publish.sync(path)


def discard(path: Path, *, is_finished: bool) -> None:
    """Remove a run's checkpoints, and where the model is finished with it their place. Raises `IOFailed`."""
    try:
        for old in [path / "checkpoint"] if is_finished else complete(path):
            publish.vanish(old)
        publish.sync(path)
        if is_finished:
            remove_spools(path)
    except OSError as error:
        raise IOFailed(f"{path / 'checkpoint'}: {error.strerror}") from error


def moments(network: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Returns what an optimizer keeps of each parameter, where it lies, as `PARAMETER/NAME`."""
    return {
        f"{name}/{key}": value
        for name, parameter in network.named_parameters()
        for key, value in optimizer.adam.state.get(parameter, {}).items()
    }


def device_of(network: nn.Module) -> torch.device:
    """Returns where a network lies."""
    return next(network.parameters()).device


def random_states(network: nn.Module) -> dict[str, Tensor]:
    """Returns the states of the generators that dropout draws from."""
    states = {"cpu": torch.get_rng_state()}
    if (device := device_of(network)).type == "cuda":  # where dropout draws
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
