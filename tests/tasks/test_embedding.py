"""Vectors: those of transformers, for each word or piece once, from windows where a text is long."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.engine.device import choose
from bertcli.engine.predict import predict
from bertcli.errors import BadData, BertcliError, Diverged, UsageError
from bertcli.model.heads import Network
from bertcli.tasks.embedding import Embedding, Layers, parse_layers
from bertcli.tasks.task import build
from bertcli.weights.safetensors import load, open_folder

WORDPIECE = models.wordpiece()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.theirs("BertModel", layers=5), tmp_path_factory.mktemp("embedding") / "model")


def network_of(path: Path) -> Network:
    folder = open_folder(path)
    network = build(
        Embedding(folder.wordpiece, 64, parse_layers("last", folder.config.num_hidden_layers)), folder.config
    )
    load(path, network)
    return network


def embedded(path: Path, records: list[dict[str, Any]], layers: str = "last", **options: Any) -> list[dict[str, Any]]:
    folder = open_folder(path)
    max_tokens, length = options.pop("max_tokens", 4096), options.pop("max_length", folder.max_length)
    options = {"dtype": "float32", **options}
    chosen = parse_layers(layers, folder.config.num_hidden_layers)
    task = Embedding(folder.wordpiece, length, chosen, **options)
    encoded = [(record, task.encode(record)) for record in records]
    return list(predict([network_of(path)], task, encoded, choose("cpu", max_tokens=max_tokens)))


def array(vectors: Any) -> Any:
    if isinstance(vectors, list):
        return np.array(vectors)
    return np.frombuffer(base64.b64decode(vectors["data"]), np.dtype(vectors["dtype"])).reshape(vectors["shape"])


@torch.no_grad()
def states_of(model: Any, tokenizer: Any, text: str, pair: str | None = None) -> list[Any]:
    inputs = tokenizer(text, pair, return_tensors="pt")
    return [state[0].numpy() for state in model(**inputs, output_hidden_states=True).hidden_states]


REAL = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair, we had everything before us."
)
TEXTS = ["the tree", "", "a dog and a cat, in the house.", "xyz " * 9, "water"]
LAYERS = {
    "embeddings": lambda s: s[0],
    "last": lambda s: s[-1],
    "second-to-last": lambda s: s[-2],
    "concat4": lambda s: np.concatenate(s[-4:], -1),
    "weighted4": lambda s: np.stack(s[-4:]),
    "weighted-all": lambda s: np.stack(s[1:]),
    "-1,0,2": lambda s: np.concatenate([s[-1], s[0], s[2]], -1),
}


@pytest.mark.parametrize("layers", LAYERS)
def test_layers_are_those_of_transformers(model: Path, layers: str) -> None:
    theirs = models.transformers.BertModel.from_pretrained(model).eval()
    for record in embedded(model, [{"text": text} for text in TEXTS], layers):
        states = states_of(theirs, models.tokenizer(), record["text"])
        np.testing.assert_allclose(array(record["vectors"]), LAYERS[layers](states), atol=1e-5)
        ids = models.tokenizer()(record["text"])["input_ids"]
        assert record["tokens"] == [models.PIECES[number] for number in ids]


def test_concat4_of_the_real_model_is_that_of_transformers() -> None:
    path = models.minilm()
    theirs = models.transformers.BertModel.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    texts = ["Jim Henson was a puppeteer.", "Überraschung: 3.14 % naïve cafés!", REAL]
    for record in embedded(path, [{"text": text} for text in texts], "concat4", max_length=512):
        states = states_of(theirs, tokenizer, record["text"])
        np.testing.assert_allclose(array(record["vectors"]), np.concatenate(states[-4:], -1), atol=1e-5)


def test_pools(model: Path) -> None:
    theirs = models.transformers.BertModel.from_pretrained(model).eval()
    text, pair = "the dog, xyz", "a cat"
    whole, both = states_of(theirs, models.tokenizer(), text)[-1], states_of(theirs, models.tokenizer(), text, pair)[-1]

    def rows(record: dict[str, Any], pool: str | None) -> Any:
        (answer,) = embedded(model, [record], pool=pool)
        assert ("tokens" in answer) == (pool == "tokens" or (pool is None and "words" not in record))
        return array(answer["vectors"])

    words = {"words": ["the", "dog", ",", "xyz"]}
    np.testing.assert_allclose(rows({"text": text}, "cls"), whole[:1], atol=1e-5)
    np.testing.assert_allclose(rows({"text": text}, "mean"), whole.mean(0, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(rows(words, None), whole[1:5], atol=1e-5)  # xyz: its first piece alone
    np.testing.assert_allclose(rows(words, "words"), whole[1:5], atol=1e-5)
    np.testing.assert_allclose(rows(words, "tokens"), whole, atol=1e-5)
    np.testing.assert_allclose(rows({"text": text, "text_pair": pair}, None), both, atol=1e-5)
    np.testing.assert_allclose(rows({"text": text, "text_pair": pair}, "mean"), both.mean(0, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(rows({"text": text, "text_pair": pair}, "cls"), both[:1], atol=1e-5)
    assert rows({"words": []}, "words").shape == (0, 32)
    assert rows({"words": ["", "\u200b"]}, "words").shape == (2, 32)  # nothing is left of them: [UNK]
    with pytest.raises(BadData, match="field 'words': found nothing, expected a list of strings, as --pool words"):
        rows({"text": text}, "words")


@given(st.lists(st.sampled_from(["a", "the", "xyz", "q" * 25, "", "\u00e9"]), max_size=60), st.integers(8, 20))
def test_every_token_of_a_long_text_is_answered_for_once(words: list[str], max_length: int) -> None:
    ids = [number for word in WORDPIECE.encode_words(words) for number in word]
    for pool, wanted in (("tokens", [2, *ids, 3]), ("words", [own[0] for own in WORDPIECE.encode_words(words)])):
        task = Embedding(WORDPIECE, max_length, Layers("last", (-1,), apart=False), pool=pool)
        examples = task.encode({"words": words})
        answered = [number for example in examples for number in example["ids"][example["rows"]]]
        assert answered == wanted
        assert all(len(example["ids"]) <= max_length for example in examples)
    (first,) = Embedding(WORDPIECE, max_length, Layers("last", (-1,), apart=False), pool="cls").encode({"words": words})
    assert first["rows"].tolist() == [0]


def test_a_token_comes_from_the_window_with_most_context(model: Path) -> None:
    theirs = models.transformers.BertModel.from_pretrained(model).eval()
    letters = " ".join(random.Random(1).choices(models.LETTERS, k=40))
    (answer,) = embedded(model, [{"text": letters}], max_length=18)
    vectors = array(answer["vectors"])
    assert vectors.shape == (42, 32)
    # Windows of 16 start every 8 tokens: token 12 has 3 after it in the first, 4 before it in the second.
    for token, start in ((0, 0), (11, 0), (12, 8), (20, 16), (39, 24)):
        window = letters.split(" ")[start : start + 16]
        state = states_of(theirs, models.tokenizer(), " ".join(window))[-1]
        np.testing.assert_allclose(vectors[1 + token], state[1 + token - start], atol=1e-5)
    ends = states_of(theirs, models.tokenizer(), " ".join(letters.split(" ")[:16]))[-1]
    np.testing.assert_allclose(vectors[0], ends[0], atol=1e-5)


def test_lists_equal_base64(model: Path) -> None:
    for dtype, atol in (("float16", 0.004), ("float32", 0)):
        for pool in ("tokens", "mean"):
            records = [{"text": text} for text in TEXTS]
            compact = embedded(model, records, "weighted4", dtype=dtype, pool=pool)
            listed = embedded(model, records, "weighted4", dtype=dtype, pool=pool, as_list=True)
            exact = embedded(model, records, "weighted4", pool=pool)
            for one, other, third in zip(compact, listed, exact, strict=True):
                assert one["vectors"]["dtype"] == dtype
                assert np.array_equal(array(one["vectors"]), array(other["vectors"]))
                np.testing.assert_allclose(array(one["vectors"]), array(third["vectors"]), atol=atol)


def test_order_is_kept_and_max_tokens_changes_nothing(model: Path) -> None:
    rng = random.Random(4)
    records = [{"id": number, "text": models.text(rng, rng.randint(0, 60))} for number in range(300)]
    one, other = (embedded(model, records, pool="mean", max_tokens=count) for count in (64, 100_000))
    assert [record["id"] for record in one] == list(range(300))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(array(first["vectors"]), array(second["vectors"]), atol=1e-5)


def test_names_of_layers() -> None:
    assert parse_layers("concat4", 4) == Layers("concat4", (-4, -3, -2, -1), apart=False)
    assert parse_layers("weighted-all", 3) == Layers("weighted-all", (1, 2, 3), apart=True)
    assert parse_layers("0,-4", 3) == Layers("0,-4", (0, -4), apart=False)
    for text, said in (("4", "4 is not one"), ("concat4", "-4 is not one"), ("middle", "neither one of embeddings")):
        with pytest.raises(UsageError, match=said):
            parse_layers(text, 2)


def test_a_vector_that_does_not_fit_is_an_error() -> None:
    task = Embedding(WORDPIECE, 64, Layers("last", (-1,), apart=False))
    (example,) = task.encode({"text": "a"})
    with pytest.raises(BertcliError, match="does not fit float16: try --dtype float32"):
        task.decode({"text": "a"}, [example], [np.full((3, 4), 1e6, np.float32)])


def test_vectors_that_are_no_numbers_are_told_as_what_they_are() -> None:
    """A wider type would not help."""
    task = Embedding(WORDPIECE, 64, Layers("last", (-1,), apart=False))
    network = build(task, models.config()).eval()
    torch.nn.init.constant_(network.bert.embeddings.word.weight, torch.nan)
    with pytest.raises(Diverged, match="not a finite number: are its weights whole"):
        task.outputs(network, task.collate(task.encode({"text": "a"})))


def test_the_command(bertcli: Callable[..., Result], model: Path) -> None:
    stdin = models.lines([{"words": ["a", "xyz"], "own": [2**70]}, {"text": "the dog " * 40}])
    line = ["embed", "-m", model, "--plain", "--dtype", "float32"]
    compact, listed = bertcli(*line, stdin=stdin), bertcli(*line, "--vectors", "list", stdin=stdin)
    assert (compact.status, compact.err) == (0, "")
    assert [record["vectors"]["shape"] for record in compact.records] == [[2, 32], [82, 32]]
    assert compact.out.startswith(b'{"words":["a","xyz"],"own":[%d],"vectors":' % 2**70)
    for one, other in zip(compact.records, listed.records, strict=True):
        np.testing.assert_array_equal(array(one["vectors"]), np.array(other["vectors"], np.float32))
    assert bertcli(*line, "--layers", "9", stdin=stdin).status == 2
    assert bertcli(*line, "--max-length", 65, stdin=stdin).status == 2
