"""A model folder with its tensors: opened, its sizes compared with them, and written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertcli import folder, publish, target
from bertcli.errors import BadData, NoInput, UsageError
from bertcli.headers import TensorHeader, elsewhere
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
from bertcli.weights import safetensors
from bertcli.weights.keys import COUNTED, EMBEDDINGS, ENCODER, ENCODER_LAYER, family, part_of
from bertcli.weights.tensors import Account, Tensors, fill, filled_up

LARGER = 2  # times: a config asks for more numbers than there are where a few tensors are missing, which are then named


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder with weights, not yet read."""

    path: Path
    config: Config | FeatureConfig
    notes: dict[str, Any]  # bertcli.json
    tensors: Tensors
    seen: int = 0  # by which it is known whether another model has come into the folder since

    @property
    def doubt(self) -> str:
        """Returns what was taken to be so although no file of the folder says it, "" where nothing was."""
        return ""

    @property
    def suspicion(self) -> str:
        """Returns what looks wrong, "" where nothing does."""
        return ""

    def fill(self, network: Network, *, new_head: bool = False, keep_head: bool = True) -> Account:
        """Fill a network, see `tensors.fill`. Raises `NoInput` where the folder has not the model any more it had."""
        account = fill(network, self.tensors, new_head=new_head, keep_head=keep_head)
        if publish.seen(self.path) != self.seen:
            raise NoInput(f"{self.path}: another model has come there while this one was read")
        return account


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
    unread: str  # tokens that its texts have and are not looked for, "" where there are none

    @property
    def doubt(self) -> str:
        """Returns the casing where the folder's files leave it open."""
        is_told = self.casing_from == "tokenizer_config.json"
        return "" if is_told else f"{self.path}: {self.wordpiece.casing} ({self.casing_from})"

    @property
    def suspicion(self) -> str:
        """Returns what looks wrong, "" where nothing does: added tokens, rows that are neither pieces nor filling."""
        pieces, rows = len(self.wordpiece.pieces), self.config.vocab_size
        told = f"{self.path}: {pieces} pieces for {rows} rows: is its vocabulary whole?"
        return self.unread or ("" if filled_up(rows, pieces) else told)

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
    file, vocabulary = path / "config.json", folder.vocabulary_file(path)
    return replace(of_parts(path, file, values, vocabulary, safetensors.opened(path), **casing), seen=seen)


def of_parts(
    path: Path, file: Path, values: dict[str, Any], vocabulary: Path, tensors: Tensors, **casing: bool | None
) -> ModelFolder:
    """Returns a model from its parts: what its config file says, its vocabulary, its tensors; raises `BadData`."""
    config = from_json(values, str(file))
    wordpiece, casing_from = WordPiece.open(vocabulary, **casing)
    if len(wordpiece.pieces) > config.vocab_size:
        problem = f"{len(wordpiece.pieces)} pieces, but the config has vocab_size {config.vocab_size}"
        raise BadData(problem, file=str(vocabulary))
    folder.check_alike(vocabulary, wordpiece.pieces)
    if other := family(tensors.headers):
        raise BadData(f"the weights are not BERT's but those of {other}", file=str(path))
    check_sizes(config, tensors.headers, file)
    longest = folder.read_max_length(vocabulary.parent)
    return ModelFolder(
        path=path,
        config=config,
        architecture=architecture(values, str(file)),
        wordpiece=wordpiece,
        casing_from=casing_from,
        max_length=min(longest or config.max_position_embeddings, config.max_position_embeddings),
        unread=folder.unread(vocabulary.parent),
        notes=folder.read_notes(path if path.is_dir() else path.parent),
        tensors=tensors,
    )


def open_any(path: Path) -> ModelFolder | FeatureFolder:
    """Returns what `open_folder` does, or a tagger on vectors."""
    seen, values = _begun(path)
    if values.get("model_type") != FEATURES:
        return open_folder(path)
    config, tensors = features_from_json(values, str(path / "config.json")), safetensors.opened(path)
    check_sizes(config, tensors.headers, path / "config.json")
    return FeatureFolder(path=path, config=config, notes=folder.read_notes(path), tensors=tensors, seen=seen)


def _begun(path: Path) -> tuple[int, dict[str, Any]]:
    if told := target.lacking(path):
        raise NoInput(told)
    if not (path / "config.json").exists() and (other := elsewhere(path)):
        raise NoInput(f"{path}: no config.json{other}")
    return publish.seen(path), folder.read_json(path / "config.json")


def save_folder(
    path: Path,
    network: Network,
    head: str | None,
    wordpiece: WordPiece | None,
    max_length: int,
    notes: dict[str, Any],
    save: Callable[[Path, Network], None] = safetensors.save,
) -> None:
    """Write a model folder whose files appear together, in the place of an old model's. Raises `IOFailed`.

    `head` is the transformers class that reads it, None where there is none; a network on vectors has no vocabulary.
    `save` writes the tensors into a folder.
    """
    with publish.publishing(path) as draft:
        save(draft, network)
        if wordpiece:
            folder.write_tokenizer(draft, wordpiece.pieces, wordpiece.casing, max_length)
        pad = {"pad_token_id": wordpiece.pad} if wordpiece else {}
        folder.write_json(draft / "bertcli.json", notes)
        folder.write_json(draft / "config.json", to_json(network.config, head, **pad))


def check_sizes(config: Config | FeatureConfig, headers: Mapping[str, TensorHeader], file: Path) -> None:
    """Raise `BadData` where a config tells of a network far larger than the tensors: nobody is to make room for it.

    That some are missing, or of another shape, is for `fill` to find.
    """
    wanted = 8 * config.bilstm * (config.hidden_size + 4 * config.bilstm)
    if isinstance(config, Config):
        found = {layer[1] for name in headers if (layer := ENCODER_LAYER.match(name))}
        if config.num_hidden_layers > len(found):
            expected = f"at most the {len(found)} layers that the weights have"
            raise BadData(file=str(file), field="num_hidden_layers", found=config.num_hidden_layers, expected=expected)
        rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
        layers = config.num_hidden_layers * (4 * config.hidden_size + 2 * config.intermediate_size)
        wanted += config.hidden_size * (rows + layers)
    there = sum(header.size for header in headers.values())
    if wanted > LARGER * there:
        raise BadData(f"its sizes are those of {wanted} numbers, and the weights have {there}", file=str(file))


def fingerprint(path: Path) -> str:
    """Returns eight hexadecimal digits by which a folder's BERT is known, however its files are divided.

    They are of its biases and norms, as float32, which are quick to read; another training has changed them all.
    """
    tensors, digest = safetensors.opened(path), hashlib.blake2b(digest_size=4)
    for name in sorted(tensors.headers):
        is_flat = len(tensors.headers[name].shape) == 1 and not COUNTED.search(name)
        if is_flat and part_of(name) in (EMBEDDINGS, ENCODER):
            digest.update(name.encode() + tensors.read(name).numpy().astype("<f4").tobytes())
    return digest.hexdigest()
