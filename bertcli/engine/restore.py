"""A run's newest whole checkpoint, read and checked before anything of it is put where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from bertcli import folder
from bertcli.engine.checkpoint import OPTIMIZER, RANDOM, STATE, WEIGHTS, checksum, complete, device_of, random_states
from bertcli.engine.optim import Optimizer
from bertcli.engine.scores import Scored
from bertcli.engine.settings import Input
from bertcli.errors import BadData, NoInput, UsageError

Form = tuple[torch.Size, torch.dtype]


class Saved(NamedTuple):
    """All that a checkpoint holds, found to be whole."""

    state: dict[str, Any]
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    randoms: dict[str, Tensor]


def restored(
    path: Path,
    network: nn.Module,
    optimizer: Optimizer,
    settings: dict[str, Any],
    rank: int = 0,
    warn: Callable[[str], None] = lambda message: None,
) -> dict[str, Any] | None:
    """Fill network, optimizer and random generators from a model folder's newest whole checkpoint; returns its state.

    A damaged one is named to `warn` and passed over. Returns None where there is no checkpoint. Raises `BadData` where
    all are damaged, `UsageError` where settings differ, both before anything is filled. A rank that was not there when
    the checkpoint was made keeps its random generators as they are.
    """
    faults: list[BadData] = []
    for home in reversed(complete(path)):
        try:
            saved = _read(home, network, optimizer, settings)
        except BadData as error:
            faults.append(error)
            continue
        for fault in faults:
            warn(f"{fault}: this checkpoint is passed over")
        _fill(saved, network, optimizer, rank)
        return saved.state
    if faults:
        raise faults[0]
    return None


def _read(home: Path, network: nn.Module, optimizer: Optimizer, settings: dict[str, Any]) -> Saved:
    state = _state(home)
    old = state["settings"]
    changed = [name for name in sorted({*old, *settings}) if old.get(name) != settings.get(name)]
    if changed:
        told = ", ".join(f"{name} was {old.get(name)} and is now {settings.get(name)}" for name in changed)
        raise UsageError(f"{home}: --resume goes on with the same settings only: {told}")
    weights, moments, randoms = (
        _tensors(home / file, state["checks"].get(file)) for file in (WEIGHTS, OPTIMIZER, RANDOM)
    )
    now = random_states(network)
    own = {name: tensor for name, tensor in randoms.items() if _kind(name) in now}  # else of a GPU that is not here
    _check(home / WEIGHTS, weights, {name: _form(tensor) for name, tensor in network.state_dict().items()})
    _check(home / OPTIMIZER, moments, _forms(network, {name.partition("/")[0] for name in moments}))
    _check(home / RANDOM, own, {name: _form(now[_kind(name)]) for name in {"cpu", *own}})
    return Saved(state, weights, moments, randoms)


def _kind(name: str) -> str:
    """Returns of which device a random state is, without the rank."""
    return name.partition("/")[0]


def _state(home: Path) -> dict[str, Any]:
    """Returns what `state.json` holds, with all that a run needs of it. Raises `BadData`."""
    file = home / STATE
    try:
        state = folder.read_json(file)
    except NoInput:
        raise BadData("is not there", file=str(file)) from None
    for name in ("settings", "checks"):
        if not isinstance(state.get(name), dict):
            raise BadData(file=str(file), field=name, found=state.get(name), expected="an object")
    if type(state.get("step")) is not int or state["step"] != int(home.name):
        raise BadData(file=str(file), field="step", found=state.get("step"), expected=home.name)
    for name, kind in (("input", Input), ("best", Scored)):
        own = state.get(name, "nothing")
        if not (name == "best" and own is None) and {*own} != {each.name for each in fields(kind)}:
            raise BadData(file=str(file), field=name, found=own, expected="what the run knew of it")
    return state


def _tensors(file: Path, check: int | None) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(file)
        is_same = checksum(file) == check
    except FileNotFoundError:
        raise BadData("is not there", file=str(file)) from None
    except (SafetensorError, OSError) as error:
        raise BadData(f"not a whole safetensors file ({error})", file=str(file)) from None
    if not is_same:
        raise BadData("is not what was written: its checksum is another", file=str(file))
    return tensors


def _form(tensor: Tensor) -> Form:
    return tensor.shape, tensor.dtype


def _forms(network: nn.Module, names: set[str]) -> dict[str, Form]:
    """Returns what an optimizer keeps of parameters of these names: nothing of one that has had no gradient."""
    forms: dict[str, Form] = {}
    for name, parameter in network.named_parameters():
        if name in names:
            forms |= {f"{name}/{moment}": _form(parameter) for moment in ("exp_avg", "exp_avg_sq")}
            forms[f"{name}/step"] = torch.Size(), torch.float32
    return forms


def _check(file: Path, tensors: dict[str, Tensor], forms: dict[str, Form]) -> None:
    """Raise `BadData` naming the first tensor that is missing, of another form, or one too many."""
    for name in sorted({*tensors, *forms}):
        found = _told(_form(tensors[name])) if name in tensors else None
        expected = _told(forms[name]) if name in forms else "no such tensor"
        if found != expected:
            raise BadData(file=str(file), field=name, found=found, expected=expected)


def _told(form: Form) -> str:
    shape, dtype = form
    return f"{list(shape)} of {dtype}"


def _fill(saved: Saved, network: nn.Module, optimizer: Optimizer, rank: int) -> None:
    network.load_state_dict(saved.weights)
    names = {name.partition("/")[0] for name in saved.moments}
    for name, parameter in network.named_parameters():
        if name in names:
            own = {moment: saved.moments[f"{name}/{moment}"] for moment in ("step", "exp_avg", "exp_avg_sq")}
            optimizer.adam.state[parameter] = {moment: tensor.to(parameter.device) for moment, tensor in own.items()}
    suffix = f"/{rank}" if rank else ""
    torch.set_rng_state(saved.randoms.get(f"cpu{suffix}", torch.get_rng_state()))
    if f"cuda{suffix}" in saved.randoms and (device := device_of(network)).type == "cuda":
        torch.cuda.set_rng_state(saved.randoms[f"cuda{suffix}"], device)
