"""A model folder with its tensors, as safetensors, whole or sharded.

Every tensor that a network needs is found there or named in an error; only a new head may be fresh.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertcli import folder, publish, target
from bertcli.errors import BadData, NoInput, UsageError
from bertcli.headers import FILE, TensorHeader, tensor_headers
from bertcli.model.config import (
    FEATURES,
    Config,
    FeatureConfig,
    architecture,
    features_from_json,
    from_json,
    to_json,
)
from bertcli.model.heads import Network
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.keys import ENCODER_LAYER, TIED, canonical, theirs

ENCODER = ("bert.embeddings.", "bert.encoder.")  # what hidden states are made of: neither pooler nor heads
LARGER = 2  # times: a config asks for more numbers than there are where a few tensors are missing, which are then named


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder with weights, not yet read."""

    path: Path
    config: Config | FeatureConfig
    notes: dict[str, Any]  # bertcli.json
    seen: int  # by which it is known whether another model has come into the folder since

    @property
    def doubt(self) -> str:
        """Returns what was taken to be so although no file of the folder says it, "" where nothing was."""
        return ""

    def fill(self, network: Network, *, new_head: bool = False, keep_head: bool = True) -> list[str]:
        """Fill a network as `load` does. Raises `NoInput` where the folder has not the model any more that it had."""
        fresh = load(self.path, network, new_head=new_head, keep_head=keep_head)
        if publish.seen(self.path) != self.seen:
            raise NoInput(f"{self.path}: another model has come there while this one was read")
        return fresh


@dataclass(frozen=True, kw_only=True)
class FeatureFolder(Folder):
    """A tagger on vectors, which has no BERT and no vocabulary."""

    config: FeatureConfig

    def length(self, max_length: int | None) -> int:
        """Returns 0, for there is no limit; raises `UsageError` where one is asked for."""
        if max_length is not None:
            raise UsageError(f"--max-length {max_length}: {self.path} reads vectors, of whole sentences")
        return 0


@dataclass(frozen=True, kw_only=True)
class ModelFolder(Folder):
    """A folder of BERT's."""

    config: Config
    architecture: str | None
    wordpiece: WordPiece
    casing_from: str
    max_length: int  # tokens a sequence, specials included

    @property
    def doubt(self) -> str:
        """Returns the casing where the folder's files leave it open."""
        is_told = self.casing_from == "tokenizer_config.json"
        return "" if is_told else f"{self.path}: {self.wordpiece.casing} ({self.casing_from})"

    def length(self, max_length: int | None, usual: int | None = None) -> int:
        """Returns the tokens of a sequence: those asked for, else the usual ones, else the folder's.

        Raises `UsageError` where more are asked for than there are positions; the usual ones are then fewer.
        """
        if max_length is not None and max_length > self.config.max_position_embeddings:
            positions = self.config.max_position_embeddings
            raise UsageError(f"--max-length {max_length}: {self.path} has {positions} positions")
        return max_length or min(usual or self.max_length, self.config.max_position_embeddings)


def open_folder(path: Path, **casing: bool | None) -> ModelFolder:
    """Returns a folder's config, tokenizer and notes; raises `NoInput`, or `BadData` naming file and field.

    `casing` are switches of `WordPiece.open`, that go before the folder's own.
    """
    seen, values = _begun(path)
    config = from_json(values, str(path / "config.json"))
    wordpiece, casing_from = WordPiece.open(folder.vocabulary_file(path), **casing)
    if len(wordpiece.pieces) > config.vocab_size:
        problem = f"{len(wordpiece.pieces)} pieces, but the config has vocab_size {config.vocab_size}"
        raise BadData(problem, file=str(folder.vocabulary_file(path)))
    check_sizes(config, tensor_headers(path), path / "config.json")
    longest = folder.read_max_length(path)
    max_length = min(longest or config.max_position_embeddings, config.max_position_embeddings)
    return ModelFolder(
        path=path,
        config=config,
        architecture=architecture(values, str(path / "config.json")),
        wordpiece=wordpiece,
        casing_from=casing_from,
        max_length=max_length,
        notes=folder.read_notes(path),
        seen=seen,
    )


def open_any(path: Path) -> ModelFolder | FeatureFolder:
    """Returns what `open_folder` does, or a tagger on vectors."""
    seen, values = _begun(path)
    if values.get("model_type") != FEATURES:
        return open_folder(path)
    config = features_from_json(values, str(path / "config.json"))
    check_sizes(config, tensor_headers(path), path / "config.json")
    return FeatureFolder(path=path, config=config, notes=folder.read_notes(path), seen=seen)


def _begun(path: Path) -> tuple[int, dict[str, Any]]:
    if told := target.lacking(path):
        raise NoInput(told)
    return publish.seen(path), folder.read_json(path / "config.json")


def save_folder(
    path: Path,
    network: Network,
    head: str | None,
    wordpiece: WordPiece | None,
    max_length: int,
    notes: dict[str, Any],
) -> None:
    """Write a model folder whose files appear together, in the place of an old model's. Raises `IOFailed`.

    `head` is the transformers class that reads it, None where there is none; a network on vectors has no vocabulary.
    """
    with publish.publishing(path) as draft:
        save(draft, network)
        if wordpiece:
            folder.write_tokenizer(draft, wordpiece.pieces, wordpiece.casing, max_length)
        pad = {"pad_token_id": wordpiece.pad} if wordpiece else {}
        folder.write_json(draft / "bertcli.json", notes)
        folder.write_json(draft / "config.json", to_json(network.config, head, **pad))


def load(path: Path, network: Network, *, new_head: bool = False, keep_head: bool = True) -> list[str]:
    """Fill a network with a folder's weights; returns the names of the tensors left as they were.

    With `new_head` the heads, and the pooler as part of them, may be missing in the folder; without `keep_head` its
    heads are not taken even if they are there. Raises `BadData` listing the tensors that are missing, of another
    shape, of layers that the config does not have, or that are not tied as they are here.
    """
    found = _locations(path)
    for copy, original in TIED.items():
        if copy in found:
            found.setdefault(original, found[copy])
    wanted = {ours: theirs(ours) for ours in network.state_dict()}
    absent = [
        ours
        for ours, names in wanted.items()
        if any(name not in found for name in names) or (ours.startswith(("heads.", "bilstm.")) and not keep_head)
    ]
    head = ("heads.", "bert.pooler.", "bilstm.") if new_head else ()
    if missing := [name for ours in absent if not ours.startswith(head) for name in wanted[ours]]:
        raise BadData(f"weights are missing: {listed(missing)}", file=str(path))
    layers = network.config.num_hidden_layers if isinstance(network.config, Config) else 0
    surplus = [name for name in found if (layer := ENCODER_LAYER.match(name)) and int(layer[1]) >= layers]
    if surplus:
        raise BadData(f"{listed(surplus)}: the config has {layers} layers only", file=str(path))
    filled = {ours: names for ours, names in wanted.items() if ours not in absent}
    if any(ours.startswith("heads.mlm.") for ours in filled):
        _check_ties(found)
    network.load_state_dict(_read(found, filled, network), strict=False, assign=True)
    return absent


def _check_ties(found: dict[str, tuple[Path, str]]) -> None:
    for copy, original in TIED.items():
        if copy in found and not torch.equal(_tensor(*found[copy]), _tensor(*found[original])):
            raise BadData(f"{copy} is not the same as {original}: an untied model", file=str(found[copy][0]))


def _tensor(file: Path, name: str) -> Tensor:
    with _opened(file) as tensors:
        tensor: Tensor = tensors.get_tensor(name)
    return tensor


def _locations(path: Path) -> dict[str, tuple[Path, str]]:
    """Returns where each tensor is, by its canonical name: a file, and its name there."""
    return {canonical(name): (header.file, name) for name, header in tensor_headers(path).items()}


def check_sizes(config: Config | FeatureConfig, headers: dict[str, TensorHeader], file: Path) -> None:
    """Raise `BadData` where a config tells of a network far larger than the tensors: nobody is to make room for it.

    That some are missing, or of another shape, is for `load` to find.
    """
    wanted = 8 * config.bilstm * (config.hidden_size + 4 * config.bilstm)
    if isinstance(config, Config):
        found = {layer[1] for name in headers if (layer := ENCODER_LAYER.match(canonical(name)))}
        if config.num_hidden_layers > len(found):
            expected = f"at most the {len(found)} layers that the weights have"
            raise BadData(file=str(file), field="num_hidden_layers", found=config.num_hidden_layers, expected=expected)
        rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
        layers = config.num_hidden_layers * (4 * config.hidden_size + 2 * config.intermediate_size)
        wanted += config.hidden_size * (rows + layers)
    there = sum(header.size for header in headers.values())
    if wanted > LARGER * there:
        raise BadData(f"its sizes are those of {wanted} numbers, and the weights have {there}", file=str(file))


def _opened(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise BadData(f"not a whole safetensors file ({error})", file=str(file)) from None


def _read(
    found: dict[str, tuple[Path, str]], filled: dict[str, tuple[str, ...]], network: Network
) -> dict[str, Tensor]:
    shapes = {ours: tensor.shape for ours, tensor in network.state_dict().items()}
    state: dict[str, Tensor] = {}
    files: dict[Path, Any] = {}
    for ours, names in filled.items():
        parts = []
        for name in names:
            file, spelled = found[name]
            if file not in files:
                files[file] = _opened(file)
            parts.append(files[file].get_tensor(spelled))
            rows, *others = shapes[ours]
            _check(parts[-1], name, [rows // len(names), *others], file)
        state[ours] = torch.cat(parts).float()
    return state


def _check(tensor: Tensor, name: str, shape: list[int], file: Path) -> None:
    if list(tensor.shape) != shape:
        raise BadData(f"{name}: found {list(tensor.shape)}, the config asks for {shape}", file=str(file))
    if tensor.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise BadData(f"{name}: found {tensor.dtype}, not a floating-point type of 16 bits or more", file=str(file))
    # A sum is quick to make, and finite only where each of the numbers is; that of large ones may overflow.
    if not tensor.sum().isfinite() and not tensor.isfinite().all():
        raise BadData(f"{name}: holds numbers that are not finite", file=str(file))


def listed(names: list[str], limit: int = 8) -> str:
    """Returns names for a message, the first of them where they are many."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def fingerprint(path: Path) -> str:
    """Returns eight hexadecimal digits by which a folder's BERT is known, however its files are divided.

    They are of its biases and norms, as float32, which are quick to read; another training has changed them all.
    """
    flat = {
        canonical(name): (header.file, name) for name, header in tensor_headers(path).items() if len(header.shape) == 1
    }
    digest = hashlib.blake2b(digest_size=4)
    for name in sorted(flat):
        if name.startswith(ENCODER):
            digest.update(name.encode() + _tensor(*flat[name]).float().numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def save(path: Path, network: Network) -> None:
    """Write a network's weights in float32, tied ones once, as transformers names them. Raises `OSError`."""
    tensors = {}
    for ours, tensor in network.state_dict().items():
        names = theirs(ours)
        parts = tensor.detach().float().cpu().chunk(len(names))
        tensors.update({name: part.contiguous() for name, part in zip(names, parts, strict=True)})
    try:
        save_file(tensors, path / FILE, metadata={"format": "pt"})
    except SafetensorError as error:  # its word for a full disk
        raise OSError(f"{FILE}: {error}") from error
