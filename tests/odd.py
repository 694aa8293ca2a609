"""Folders of BERTs as people have them, odd or damaged: what is wrong with each, and what is to happen.

Each is a small BertForPreTraining of transformers, changed.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import models
import torch
from program import ROOT
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcli.headers import FILE, INDEX
from bertcli.weights import google, pickled
from bertcli.weights.keys import TRANSPOSED, googles
from bertcli.weights.tensorflow import bundle
from bertcli.weights.tensors import named

Tensors = dict[str, Tensor]
WORDS = "bert.embeddings.word_embeddings.weight"
QUERY = "bert.encoder.layer.0.attention.self.query.weight"
SQUARE = "bert.encoder.layer.0.attention.output.dense.weight"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


class Odd(NamedTuple):
    """What a folder is like, how it is made from a sound one, and what is to happen to it."""

    what: str
    make: Callable[[Path], object]
    said: str = ""  # in the one line of the error, or where it loads, to the numbers of the sound one, in the warning
    status: int = 65
    dtype: torch.dtype = torch.float32  # through which the numbers have gone


def sound(path: Path) -> Path:
    """Returns a folder with nothing wrong."""
    return models.save(models.theirs("BertForPreTraining"), path)


def tensors(change: Callable[[Tensors], Tensors]) -> Callable[[Path], None]:
    """Returns what changes a folder's tensors."""

    def make(path: Path) -> None:
        save_file(change(load_file(path / FILE)), path / FILE, metadata={"format": "pt"})

    return make


def renamed(*pairs: tuple[str, str], before: str = "") -> Callable[[Path], None]:
    """Returns what renames tensors, and puts a word before all names."""

    def spelled(name: str) -> str:
        for old, new in pairs:
            name = name.replace(old, new)
        return before + name

    return tensors(lambda found: {spelled(name): tensor for name, tensor in found.items()})


def without(*parts: str) -> Callable[[Path], None]:
    """Returns what leaves out the tensors whose names have one of some parts."""
    return tensors(lambda found: {name: t for name, t in found.items() if not any(part in name for part in parts)})


def added(name: str, tensor: Callable[[Tensors], Tensor]) -> Callable[[Path], None]:
    """Returns what adds a tensor, or puts it in the place of another."""
    return tensors(lambda found: found | {name: tensor(found).contiguous()})


def config(**values: Any) -> Callable[[Path], None]:
    """Returns what changes a folder's config; None takes a field out."""

    def make(path: Path) -> None:
        old = json.loads((path / "config.json").read_text()) | values
        (path / "config.json").write_text(json.dumps({name: each for name, each in old.items() if each is not None}))

    return make


def both(*makes: Callable[[Path], object]) -> Callable[[Path], None]:
    """Returns what makes one change after another."""

    def make(path: Path) -> None:
        for each in makes:
            each(path)

    return make


def cast(dtype: torch.dtype) -> Callable[[Path], None]:
    """Returns what saves the tensors in another type."""
    return tensors(lambda found: {name: tensor.to(dtype) for name, tensor in found.items()})


def cut(name: str, share: float = 0.5) -> Callable[[Path], None]:
    """Returns what cuts the end of a file off."""
    return lambda path: os.truncate(path / name, int((path / name).stat().st_size * share))


def flipped(name: str, place: float = 0.5) -> Callable[[Path], None]:
    """Returns what flips a bit of a file."""

    def make(path: Path) -> None:
        data = bytearray((path / name).read_bytes())
        data[int(len(data) * place)] ^= 16
        (path / name).write_bytes(data)

    return make


def vocabulary_alone(path: Path) -> None:
    """Leave a `vocab.txt` only, as in 2018."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (path / name).unlink()
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))


def sharded(path: Path) -> None:
    """Save the tensors in several files."""
    model = models.transformers.BertForPreTraining.from_pretrained(path)
    (path / FILE).unlink()
    model.save_pretrained(path, max_shard_size="20KB")


def twice(path: Path) -> None:
    """Save the tensors in several files, two of which have one of them."""
    sharded(path)
    first, second = sorted(path.glob("*.safetensors"))[:2]
    save_file(load_file(second) | dict([next(iter(load_file(first).items()))]), second, metadata={"format": "pt"})


def untrue_index(path: Path) -> None:
    """Let an index name a file elsewhere."""
    sharded(path)
    index = json.loads((path / INDEX).read_text())
    index["weight_map"][WORDS] = "../other.safetensors"
    (path / INDEX).write_text(json.dumps(index))


def pickle(wrap: Callable[[Tensors], Any] = dict, **options: Any) -> Callable[[Path], None]:
    """Returns what saves the tensors as torch pickles them."""

    def make(path: Path) -> None:
        torch.save(wrap(load_file(path / FILE)), path / pickled.FILE, **options)
        (path / FILE).unlink()

    return make


def sharded_pickle(path: Path) -> None:
    """Save the tensors as transformers 4 did where they were too large for one file."""
    state = load_file(path / FILE)
    files = {name: f"pytorch_model-{number % 2 + 1:05}-of-00002.bin" for number, name in enumerate(state)}
    for file in set(files.values()):
        torch.save({name: state[name] for name in state if files[name] == file}, path / file)
    (path / pickled.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": files}))
    (path / FILE).unlink()


def pickles_twice(path: Path) -> None:
    """Let two of several pickles have the same tensor."""
    sharded_pickle(path)
    first, second = sorted(path.glob("*.bin"))
    torch.save(torch.load(second) | dict([next(iter(torch.load(first).items()))]), second)


def compressed(path: Path) -> None:
    """Pack a pickle's archive anew, as programs for archives do."""
    pickle()(path)
    file = path / pickled.FILE
    with zipfile.ZipFile(file) as old:
        parts = {part.filename: old.read(part) for part in old.infolist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in parts.items():
            new.writestr(name, data)


def two_vocabularies(path: Path) -> None:
    """Put a `vocab.txt` of another order beside a `tokenizer.json`."""
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in [*models.PIECES[:5], *models.PIECES[:4:-1]]))


def google_twice(path: Path) -> None:
    """Save a tensor of a checkpoint under two names that mean the same."""
    network = models.opened(path)[1]
    tensorflow(path)
    tensors = {googles(name): t.T if googles(name).endswith(TRANSPOSED) else t for name, t in named(network)}
    bundle.write(path / google.NAME, [*tensors.items(), ("module/bert/pooler/dense/bias", torch.zeros(32))])


class Creating:
    """What a pickle asks for that is no tensor: here, that a file be created."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns what unpickling is to run."""
        return os.system, ("touch created",)


def tensorflow(path: Path) -> None:
    """Save the tensors as Google's code does, and nothing else but config and vocabulary."""
    network = models.opened(path)[1]
    google.save(path, network)
    vocabulary_alone(path)
    for name in (FILE, "config.json"):
        (path / name).unlink()


def keras(path: Path) -> None:
    """Save the tensors under the names of Keras's objects."""
    network = models.opened(path)[1]
    bundle.write(path / "ckpt-1", ((f"model/{name}/.ATTRIBUTES/VARIABLE_VALUE", t) for name, t in named(network)))
    (path / FILE).unlink()


def only(name: str) -> Callable[[Path], None]:
    """Returns what leaves a file of another program in the place of the tensors."""
    return lambda path: (path / FILE).rename(path / name)


def layers(number: int) -> Callable[[Path], None]:
    """Returns what gives a folder so many layers, by copying the first."""

    def change(found: Tensors) -> Tensors:
        own = {name: tensor for name, tensor in found.items() if ".layer.0." in name}
        kept = {name: tensor for name, tensor in found.items() if ".layer." not in name}
        many = range(number)
        return kept | {name.replace(".0.", f".{each}.", 1): t.clone() for each in many for name, t in own.items()}

    return tensors(change)


def golden(name: str) -> Callable[[Path], None]:
    """Returns what puts one of TensorFlow's own checkpoints in the place of a folder."""

    def make(path: Path) -> None:
        shutil.rmtree(path)
        shutil.copytree(ROOT / "tests" / "golden" / "tensorflow" / name, path)

    return make


ZEROS = torch.zeros(32, 32)
GAMMA, BETA = ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")
IDLE = torch.ones(96 - len(models.PIECES), 32)  # rows that fill up the vocabulary to a multiple of 32

LOADING = [
    Odd("norms called gamma and beta", renamed(GAMMA, BETA)),
    Odd("`module.` before all names (DistributedDataParallel)", renamed(before="module.")),
    Odd("`_orig_mod.` before all names (torch.compile)", renamed(before="_orig_mod.")),
    Odd("NVIDIA's `dense_act`", renamed(("intermediate.dense", "intermediate.dense_act"))),
    Odd("no `bert.` before names, nor heads (BertModel)",
        both(without("cls."), renamed(("bert.", "")), config(architectures=["BertModel"]))),
    Odd("the decoder's weight and bias doubled", tensors(lambda found: found | {
        "cls.predictions.decoder.weight": found[WORDS].clone(),
        "cls.predictions.decoder.bias": found["cls.predictions.bias"].clone(),
    })),
    Odd("the head's bias as the decoder's only", renamed(("cls.predictions.bias", "cls.predictions.decoder.bias"))),
    Odd("`position_ids` among the tensors",
        added("bert.embeddings.position_ids", lambda _: torch.arange(64)[None])),
    Odd("no pooler, and a head of masked words only",
        both(without("pooler", "seq_relationship"), config(architectures=["BertForMaskedLM"]))),
    Odd("rows beyond the vocabulary, as the config says", both(
        tensors(lambda found: found | {
            WORDS: torch.cat([found[WORDS], IDLE]),
            "cls.predictions.bias": torch.cat([found["cls.predictions.bias"], IDLE[:, 0]]),
        }),
        config(vocab_size=96),
    )),
    Odd("rows filled up to a multiple of 32, which the config does not say", tensors(lambda found: found | {
        WORDS: torch.cat([found[WORDS], IDLE]),
        "cls.predictions.bias": torch.cat([found["cls.predictions.bias"], IDLE[:, 0]]),
    })),
    Odd("two tokens added to the vocabulary", both(
        tensors(lambda found: found | {
            WORDS: torch.cat([found[WORDS], IDLE[:2]]),
            "cls.predictions.bias": torch.cat([found["cls.predictions.bias"], IDLE[:2, 0]]),
        }),
        config(vocab_size=len(models.PIECES) + 2),
        lambda path: (path / "added_tokens.json").write_text('{"[E1]": 92, "[/E1]": 93}'),
    ), "2 added tokens ('[/E1]', '[E1]') will not be looked for in texts"),
    Odd("pieces of the vocabulary declared as additional special tokens", lambda path: (
        path / "special_tokens_map.json").write_text('{"additional_special_tokens": ["the", {"content": "cat"}]}'),
        "2 added tokens ('cat', 'the') will not be looked for in texts"),
    Odd("safetensors in several files", sharded),
    Odd("float16", cast(torch.float16), dtype=torch.float16),
    Odd("bfloat16", cast(torch.bfloat16), dtype=torch.bfloat16),
    Odd("float64", cast(torch.float64)),
    Odd("`vocab.txt` only", vocabulary_alone),
    Odd("`tokenizer.json` only", lambda path: (path / "tokenizer_config.json").unlink()),
    Odd("no class in the config, as in 2018", config(architectures=None)),
    Odd("`pytorch_model.bin`", pickle()),
    Odd("`pytorch_model.bin` of torch before 1.6", pickle(_use_new_zipfile_serialization=False)),
    Odd("`pytorch_model.bin` in several files", sharded_pickle),
    Odd("a training loop's state, with its optimizer's", pickle(lambda found: {
        "epoch": 3,
        "model": {f"module.{name}": tensor for name, tensor in found.items()},
        "optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1}]},
    })),
    Odd("a TensorFlow checkpoint, `bert_config.json` and `vocab.txt`", tensorflow),
]  # fmt: skip

REFUSED = [
    Odd("RoBERTa, by its config", config(model_type="roberta"), "field 'model_type': found 'roberta', expected bert"),
    Odd("RoBERTa, by its names", renamed(("bert.", "roberta.")), "not BERT's but those of RoBERTa"),
    Odd("DistilBERT, by its names", renamed(("bert.", "distilbert.")), "not BERT's but those of DistilBERT"),
    Odd("relative positions", config(position_embedding_type="relative_key"), "field 'position_embedding_type'"),
    Odd("an activation that BERT has not", config(hidden_act="silu"), "field 'hidden_act': found 'silu'"),
    Odd("a truncated safetensors file", cut(FILE), "not a whole safetensors file"),
    Odd("a pointer of Git LFS for the safetensors file",
        lambda path: (path / FILE).write_bytes(POINTER), "git lfs pull brings the file"),
    Odd("a safetensors file missing of several",
        both(sharded, lambda path: sorted(path.glob("*.safetensors"))[0].unlink()), "No such file", 66),
    Odd("a tensor in two of several files", twice, "is also in model-00001-of-"),
    Odd("an index that names a file elsewhere", untrue_index, "field 'weight_map'"),
    Odd("a truncated `pytorch_model.bin`", both(pickle(), cut(pickled.FILE)), "not a whole file of tensors"),
    Odd("a pointer of Git LFS for `pytorch_model.bin`",
        both(pickle(), lambda path: (path / pickled.FILE).write_bytes(POINTER)), "git lfs pull brings the file"),
    Odd("a tensor in two of several pickles", pickles_twice, "is also in pytorch_model-00001-of-00002.bin"),
    Odd("a `pytorch_model.bin` that was packed anew", compressed, "a compressed archive, as torch writes none"),
    Odd("a pickle that would create a file",
        pickle(lambda _: Creating()), "asks for posix.system, and is not read: plain tensors only"),
    Odd("a pickle of a model, not of its tensors",
        pickle(lambda _: models.theirs("BertModel")), "and is not read: plain tensors only"),
    Odd("the encoder missing, heads only", without("encoder", "embeddings"), "num_hidden_layers"),
    Odd("a layer too few", both(layers(1), config(num_hidden_layers=2)), "at most the 1 layers that the weights have"),
    Odd("a layer too many", layers(3), "the config has 2 layers only"),
    Odd("a tensor missing", without("layer.1.attention.self.key.bias"),
        "weights are missing: bert.encoder.layer.1.attention.self.key.bias"),
    Odd("a tensor of another shape", added(SQUARE, lambda found: found[SQUARE][:, :16]),
        f"{SQUARE}: found [32, 16], the config asks for [32, 32]"),
    Odd("fewer rows than the vocabulary has", added(WORDS, lambda found: found[WORDS][:50]),
        f"{WORDS}: found [50, 32], the config asks for [92, 32]"),
    Odd("a vocabulary of more pieces than rows",
        both(vocabulary_alone, lambda path: (path / "vocab.txt").open("a").write("more\n")),
        "93 pieces, but the config has vocab_size 92"),
    Odd("a `vocab.txt` and a `tokenizer.json` that differ", two_vocabularies,
        "is 5 in vocab.txt and 91 in tokenizer.json"),
    Odd("words that MeCab cuts", lambda path: (path / "tokenizer_config.json").write_text(
        '{"do_lower_case": false, "word_tokenizer_type": "mecab"}'),
        "field 'word_tokenizer_type': found 'mecab', expected basic"),
    Odd("heads that were pruned", config(pruned_heads={"0": [1]}), "field 'pruned_heads': found an object"),
    Odd("an adapter within the layers", added("bert.encoder.layer.0.adapter.down.weight", lambda _: ZEROS),
        "no place in a BERT: bert.encoder.layer.0.adapter.down.weight"),
    Odd("an adapter without its model",
        only("adapter_model.safetensors"), "adapter_model.safetensors is an adapter without its model", 66),
    Odd("a name in two spellings", added("module.bert.pooler.dense.bias", lambda _: torch.zeros(32)),
        "tensors that come in two spellings: bert.pooler.dense.bias"),
    Odd("numbers that are not finite", added(QUERY, lambda found: found[QUERY] / 0),
        f"{QUERY}: holds numbers that are not finite"),
    Odd("numbers too large for float32", added(QUERY, lambda found: found[QUERY].double() * 1e300),
        f"{QUERY}: holds numbers that are not finite"),
    Odd("8-bit integers", added(QUERY, lambda found: found[QUERY].to(torch.int8)), f"{QUERY}: found I8"),
    Odd("a decoder that is not tied", added("cls.predictions.decoder.weight", lambda found: -found[WORDS]),
        "an untied model"),
    Odd("a class whose heads are not there", without("cls."), "weights are missing: cls.predictions.bias"),
    Odd("half a head", without("seq_relationship.bias"), "weights are missing: cls.seq_relationship.bias"),
    Odd("no weights", lambda path: (path / FILE).unlink(), "no model.safetensors", 66),
    Odd("Keras's HDF5 only", only("tf_model.h5"), "tf_model.h5 is Keras's HDF5", 66),
    Odd("no config", lambda path: (path / "config.json").unlink(), "no config.json", 66),
    Odd("no vocabulary", lambda path: (path / "tokenizer.json").unlink(), "no vocab.txt and no tokenizer.json", 66),
    Odd("a truncated index of a checkpoint", both(tensorflow, cut("bert_model.ckpt.index")), "bert_model.ckpt.index"),
    Odd("a bit of a checkpoint's index flipped", both(tensorflow, flipped("bert_model.ckpt.index")), "damaged"),
    Odd("truncated numbers of a checkpoint",
        both(tensorflow, cut("bert_model.ckpt.data-00000-of-00001")), "bert_model.ckpt.data-00000-of-00001"),
    Odd("a bit of a checkpoint's numbers flipped",
        both(tensorflow, flipped("bert_model.ckpt.data-00000-of-00001")), "damaged"),
    Odd("a name in two spellings, of a checkpoint", google_twice,
        "tensors that come in two spellings: bert/pooler/dense/bias"),
    Odd("a checkpoint that is not there, of two that its folder tells of", both(tensorflow, lambda path: (
        path / "checkpoint").write_text('model_checkpoint_path: "/run/model.ckpt-900"\n')),
        "tells of model.ckpt-900, which is not there; there is model/bert_model.ckpt", 66),
    Odd("a checkpoint of Keras objects", keras, "a checkpoint of Keras objects, not of Google's BERT"),
]  # fmt: skip
