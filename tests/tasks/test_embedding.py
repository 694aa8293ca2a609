"""Vectors: those of transformers, for each word or piece once, from windows where a text is long."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from program import Result
from safetensors.numpy import load

from bertcli.engine.answers import BYTES, SENT, reading
from bertcli.engine.device import choose
from bertcli.engine.predict import predict
from bertcli.errors import BadData, BertcliError, Diverged, UsageError
from bertcli.model.heads import Network
from bertcli.tasks.embedding import Embedding, Layers, parse_layers
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import Example, build
from bertcli.text.windows import best_window, paired, windows
from bertcli.vectors import array_of as array
from bertcli.vectors import source_of
from bertcli.weights.folder import fingerprint, open_folder

WORDPIECE = models.wordpiece()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.theirs("BertModel", layers=5), tmp_path_factory.mktemp("embedding") / "model")


@cache
def network_of(path: Path) -> Network:
    folder = open_folder(path)
    return models.network_of(folder, Embedding(folder.wordpiece, 64, LAST))


def embedded(path: Path, records: list[dict[str, Any]], layers: str = "last", **options: Any) -> list[dict[str, Any]]:
    folder = open_folder(path)
    max_tokens, length = options.pop("max_tokens", 4096), options.pop("max_length", folder.max_length)
    options = {"dtype": "float32", **options}
    chosen = parse_layers(layers, folder.config.num_hidden_layers)
    task = Embedding(folder.wordpiece, length, chosen, **options)
    encoded = [(record, task.encode(record)) for record in records]
    return list(predict([network_of(path)], task, encoded, choose("cpu", max_tokens=max_tokens)))


@torch.no_grad()
def framed(model: Any, *sides: list[int]) -> Any:
    """Returns what transformers' last layer makes of [CLS] A [SEP], or of that and B [SEP]."""
    return model(**models.framed(*sides)).last_hidden_state[0].numpy()


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
LAST = Layers("last", (-1,), apart=False)
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
        task = Embedding(WORDPIECE, max_length, LAST, pool=pool)
        examples = task.encode({"words": words})
        answered = [number for example in examples for number in example["ids"][example["rows"]]]
        assert answered == wanted
        assert all(len(example["ids"]) <= max_length for example in examples)
    (first,) = Embedding(WORDPIECE, max_length, LAST, pool="cls").encode({"words": words})
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


# -- records of any type --------------------------------------------------------------------------------------------


def ids(text: str) -> list[int]:
    return WORDPIECE.text_ids(text)


SEP = WORDPIECE.sep
TYPES: list[tuple[dict[str, Any], list[list[int]]]] = [
    ({"text": "the dog"}, [ids("the dog")]),
    ({"text": "the dog", "text_pair": "a cat, xyz"}, [ids("the dog"), ids("a cat, xyz")]),
    ({"question": "is it", "context": "it is red", "text": "no"}, [ids("is it"), ids("it is red")]),
    ({"question": "is it", "text": "the dog"}, [ids("the dog")]),
    ({"sentences": ["the dog", " ", ["xyz", "was"]]}, [[*ids("the dog"), SEP, *ids("xyz was")]]),
    ({"text": "the dog", "sentences": ["a", "b"], "tokens": ["x"]}, [ids("the dog")]),
    ({"tokens": ["[CLS]", "the", "[SEP]"]}, [ids("the")]),
    (
        {"tokens": ["[CLS]", "the", "[SEP]", "[MASK]", "[SEP]"], "segment_b": 3, "masked_positions": [3]},
        [ids("the"), [WORDPIECE.mask]],
    ),
]


@pytest.mark.parametrize(("record", "sides"), TYPES)
def test_a_record_of_any_type_is_read_as_its_task_reads_it(
    model: Path, record: dict[str, Any], sides: list[list[int]]
) -> None:
    theirs = models.transformers.BertModel.from_pretrained(model).eval()
    (answer,) = embedded(model, [record])
    np.testing.assert_allclose(array(answer["vectors"]), framed(theirs, *sides), atol=1e-5)
    whole = [WORDPIECE.cls, *(number for side in sides for number in [*side, SEP])]
    assert answer["tokens"] == [models.PIECES[number] for number in whole]


def test_a_document_has_a_separator_between_its_sentences_as_the_tagger_has(model: Path) -> None:
    theirs = models.transformers.BertModel.from_pretrained(model).eval()
    words = ["the", "xyz", ".", "a", "dog"]
    expected = framed(theirs, [*ids("the xyz ."), SEP, *ids("a dog")])[[1, 2, 5, 7, 8]]
    for record in ({"words": words, "sentences": [0, 3]}, {"sentences": [words[:3], [], words[3:]]}):
        (answer,) = embedded(model, [record])
        np.testing.assert_allclose(array(answer["vectors"]), expected, atol=1e-5)
        (seen,) = Embedding(WORDPIECE, 64, LAST).encode(record)
        (tagged,) = Tagging(WORDPIECE, 64, ["O"]).encode({"words": words, "sentences": [0, 3]})
        assert (seen["ids"].tolist(), seen["rows"].tolist()) == (tagged["ids"].tolist(), tagged["rows"].tolist())


def test_choices_have_their_rows_one_after_another(model: Path) -> None:
    record = {"text": "the dog", "choices": ["a cat", "", "xyz was here"]}
    pairs = [{"text": record["text"], "text_pair": choice} for choice in record["choices"]]
    for pool in ("cls", "mean", "tokens"):
        for length in (8, 64):
            (answer,) = embedded(model, [record], "weighted4", pool=pool, max_length=length)
            alone = [array(own["vectors"]) for own in embedded(model, pairs, "weighted4", pool=pool, max_length=length)]
            np.testing.assert_allclose(array(answer["vectors"]), np.concatenate(alone, 1), atol=1e-5)
            assert pool == "tokens" or array(answer["vectors"]).shape == (4, 3, 32)


def test_a_minimal_pair_has_the_rows_of_both_sentences(model: Path) -> None:
    (answer,) = embedded(model, [{"id": "p-0", "good": "the dog was here", "bad": "the dog"}], pool="mean")
    alone = embedded(model, [{"text": "the dog was here"}, {"text": "the dog"}], pool="mean")
    wanted = np.concatenate([array(own["vectors"]) for own in alone])
    np.testing.assert_allclose(array(answer["vectors"]), wanted, atol=1e-5)


def test_a_field_of_any_name_is_text_or_words(model: Path) -> None:
    one, other = embedded(
        model, [{"text": "a", "mine": "the dog"}, {"text": "a", "mine": ["the", "dog"]}], field="mine"
    )
    text, words = embedded(model, [{"text": "the dog"}, {"words": ["the", "dog"]}])
    assert one["tokens"] == text["tokens"]
    assert "tokens" not in other
    for found, expected in ((one, text), (other, words)):
        np.testing.assert_allclose(array(found["vectors"]), array(expected["vectors"]), atol=1e-5)


@pytest.mark.parametrize(
    ("record", "options", "said"),
    [
        ({"id": 1}, {}, "field 'text': nothing to read: none of words, or question and context, or text, or sentences"),
        ({"question": "a"}, {}, "field 'text': nothing to read"),
        ({"text": 5}, {}, "field 'text': found 5, expected a string"),
        ({"words": ["a", 5]}, {}, "field 'words': found 5, expected a string at [1]"),
        ({"words": ["a"], "sentences": [1]}, {}, "field 'sentences': found '[1]', expected the rising indices"),
        ({"text": "a", "choices": []}, {}, "field 'choices': found an empty list, expected one text or more"),
        ({"sentences": [5]}, {}, "field 'sentences': found 5, expected a string or a list of words at [0]"),
        ({"tokens": ["[CLS]", "q!", "[SEP]"]}, {}, "field 'tokens': found 'q!', expected a piece of the vocabulary"),
        ({"tokens": ["a"]}, {}, "field 'tokens': tokens without their frame; found 'a', expected [CLS] A [SEP], or"),
        ({"tokens": []}, {}, "field 'tokens': tokens without their frame"),
        ({"tokens": ["[CLS]", "a", "[SEP]"], "segment_b": 3}, {}, "field 'tokens': tokens without their frame"),
        ({"tokens": ["[CLS]", "a", "b", "[SEP]"], "segment_b": 2}, {}, "field 'tokens': tokens without their frame"),
        ({"tokens": ["[CLS]", "a", "[SEP]"], "segment_b": -1}, {}, "field 'tokens': tokens without their frame"),
        ({"text": "a"}, {"field": "mine"}, "field 'mine': found nothing, expected a string or a list of strings"),
        ({"mine": [5]}, {"field": "mine"}, "field 'mine': found 5, expected a string at [0]"),
        ({"mine": "a"}, {"field": "mine", "pool": "words"}, "field 'mine': found 'a', expected a list of strings, as"),
        (
            {"sentences": ["a", ["b"]]},
            {"pool": "words"},
            "field 'words': found nothing, expected a list of strings, as",
        ),
    ],
)
def test_a_record_that_cannot_be_read_names_its_field(
    record: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadData) as caught:
        Embedding(WORDPIECE, 64, LAST, **options).encode(record)
    assert str(caught.value).startswith(said)


# -- windows --------------------------------------------------------------------------------------------------------

SIDES = st.lists(st.sampled_from(models.LETTERS), max_size=40)


@given(SIDES, SIDES, st.integers(8, 20))
def test_every_token_of_a_long_pair_is_answered_for_once_in_order(
    first: list[str], second: list[str], max_length: int
) -> None:
    record = {"text": " ".join(first), "text_pair": " ".join(second)}
    examples = Embedding(WORDPIECE, max_length, LAST).encode(record)
    places = np.concatenate([example["places"] for example in examples])
    pieces = np.concatenate([example["pieces"] for example in examples])
    (whole,) = Embedding(WORDPIECE, 100, LAST).encode(record)
    assert sorted(places) == list(range(len(whole["ids"])))
    assert pieces[np.argsort(places)].tolist() == whole["ids"].tolist()
    for example in examples:
        assert len(example["ids"]) <= max_length
        border = int(example["segment_b"][0])
        assert example["ids"][border - 1] == example["ids"][-1] == SEP
    (mine,) = Embedding(WORDPIECE, max_length, LAST, pool="cls").encode(record)
    assert mine["ids"].tolist() == examples[0]["ids"].tolist()
    assert sum(len(each["rows"]) for each in Embedding(WORDPIECE, max_length, LAST, pool="mean").encode(record)) == len(
        whole["ids"]
    )


def test_a_vector_is_what_its_window_gives_as_a_record_of_its_own(model: Path) -> None:
    """Of a text longer than the model its window is the context that a word has."""
    rng = random.Random(0)
    words, first, second = (rng.choices([*models.LETTERS, "the"], k=count) for count in (50, 7, 60))
    (answer,) = embedded(model, [{"words": words}], max_length=18)
    spans = windows(50, 16, 8)
    owner = best_window(spans, 50)
    parts = embedded(model, [{"words": words[start:end]} for start, end in spans])
    expected = [array(parts[own]["vectors"])[word - spans[own][0]] for word, own in enumerate(owner)]
    np.testing.assert_allclose(array(answer["vectors"]), expected, atol=1e-5)

    (answer,) = embedded(model, [{"text": " ".join(first), "text_pair": " ".join(second)}], max_length=24)
    sides = [(" ".join(first[a:b]), " ".join(second[c:d])) for (a, b), (c, d) in paired(7, 60, 21)]
    parts = embedded(model, [{"text": one, "text_pair": other} for one, other in sides])
    spans = [span for _, span in paired(7, 60, 21)]
    owner = best_window(spans, 60)
    expected = [array(parts[own]["vectors"])[9 + token - spans[own][0]] for token, own in enumerate(owner)]
    found = array(answer["vectors"])
    np.testing.assert_allclose(found[9:-1], expected, atol=1e-5)
    np.testing.assert_allclose(found[:9], array(parts[0]["vectors"])[:9], atol=1e-5)
    np.testing.assert_allclose(found[-1], array(parts[-1]["vectors"])[-1], atol=1e-5)
    (mean,) = embedded(model, [{"text": " ".join(first), "text_pair": " ".join(second)}], pool="mean", max_length=24)
    np.testing.assert_allclose(array(mean["vectors"])[0], found.mean(0), atol=1e-5)


# -- alone and among others -----------------------------------------------------------------------------------------


def of_all_types(rng: random.Random) -> dict[str, Any]:
    text, other = (models.text(rng, rng.randint(0, 40)) for _ in range(2))
    kinds: list[dict[str, Any]] = [
        {"text": text},
        {"text": text, "text_pair": other},
        {"words": text.split()},
        {"sentences": [text.split(), other.split()]},
        {"question": text, "context": other},
        {"text": text, "choices": [other, "the dog"]},
    ]
    return rng.choice(kinds)


@pytest.mark.parametrize("pool", [None, "cls", "mean"])
def test_a_vector_depends_on_nothing_but_its_record(model: Path, pool: str | None) -> None:
    rng = random.Random(1)
    records = [{"id": number, **of_all_types(rng)} for number in range(40)]

    def found(records: list[dict[str, Any]], max_tokens: int) -> dict[int, Any]:
        made = embedded(model, records, "concat4", pool=pool, max_length=32, max_tokens=max_tokens)
        assert [record["id"] for record in made] == [record["id"] for record in records]
        return {record["id"]: array(record["vectors"]) for record in made}

    alone = {number: own for record in records for number, own in found([record], 4096).items()}
    for max_tokens in (1, 100, 4096):
        rng.shuffle(records)
        among = found(records, max_tokens)
        for number, own in alone.items():
            np.testing.assert_allclose(among[number], own, atol=1e-5)


def test_real_vectors_depend_on_nothing_but_their_record() -> None:
    path, words = models.minilm(), REAL.replace(",", " ,").split()
    records = [{"id": end, "words": words[:end]} for end in range(1, len(words), 4)]
    among = embedded(path, records[::-1], "concat4", max_length=32)[::-1]
    for record, own in list(zip(records, among, strict=True))[::3]:
        (alone,) = embedded(path, [record], "concat4", max_length=32)
        np.testing.assert_allclose(array(own["vectors"]), array(alone["vectors"]), atol=1e-5)


# -- as they are written --------------------------------------------------------------------------------------------


def test_the_source_is_layers_pool_and_weights(model: Path) -> None:
    records = [{"text": "a"}, {"words": ["a"]}]
    for pool, expected in ((None, ["tokens", "words"]), ("mean", ["mean", "mean"])):
        made = embedded(model, records, "-1,-2", pool=pool, model=fingerprint(model))
        assert [source_of(each["vectors"]) for each in made] == [
            f"-1,-2/{own}/{fingerprint(model)}" for own in expected
        ]


def test_batches_of_lines_are_small_where_their_vectors_are_large() -> None:
    chosen, device = parse_layers("concat4", 12), choose("cpu", max_tokens=65_536)
    words, sums = (Embedding(WORDPIECE, 64, chosen, pool=pool, width=768) for pool in (None, "mean"))
    assert (words.held, sums.held) == (4 * 768 * 2, 0)
    assert reading(words, device).size == BYTES * (SENT // words.held)
    assert reading(sums, device).size == BYTES * device.max_tokens


def test_fewer_records_wait_for_each_other_where_their_vectors_are_large(model: Path) -> None:
    def ahead(width: int) -> int:
        """Returns how many records are read at most before one of them is answered."""
        task = Embedding(WORDPIECE, 64, LAST, width=width)
        taken: list[int] = []

        def encoded() -> Iterator[tuple[dict[str, Any], list[Example]]]:
            for number in range(200):
                taken.append(number)
                yield {}, task.encode({"words": ["a", "dog"]})

        made = predict([network_of(model)], task, encoded(), choose("cpu", max_tokens=64))
        return max(len(taken) - number for number, _ in enumerate(made))

    assert ahead(1 << 26) * 3 < ahead(32)


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


def test_names_of_layers() -> None:
    assert parse_layers("concat4", 4) == Layers("concat4", (-4, -3, -2, -1), apart=False)
    assert parse_layers("weighted-all", 3) == Layers("weighted-all", (1, 2, 3), apart=True)
    assert parse_layers("0,-4", 3) == Layers("0,0", (0, -4), apart=False)
    for text, name in (("6", "last"), ("3,-3,5,-1", "concat4"), ("-7", "embeddings"), ("1,2", "-6,-5")):
        assert parse_layers(text, 6).name == name
    for text, said in (("4", "4 is not one"), ("concat4", "-4 is not one"), ("middle", "neither one of embeddings")):
        with pytest.raises(UsageError, match=said):
            parse_layers(text, 2)


def test_a_vector_that_does_not_fit_is_an_error() -> None:
    task = Embedding(WORDPIECE, 64, LAST)
    (example,) = task.encode({"text": "a"})
    with pytest.raises(BertcliError, match="does not fit float16: try --dtype float32"):
        task.decode({"text": "a"}, [example], [np.full((3, 4), 1e6, np.float32)])


def test_vectors_that_are_no_numbers_are_told_as_what_they_are() -> None:
    """A wider type would not help."""
    task = Embedding(WORDPIECE, 64, LAST)
    network = build(task, models.config()).eval()
    torch.nn.init.constant_(network.bert.embeddings.word.weight, torch.nan)
    with pytest.raises(Diverged, match="not a finite number: are its weights whole"):
        task.outputs(network, task.collate(task.encode({"text": "a"})))


def test_the_command(bertcli: Callable[..., Result], model: Path) -> None:
    stdin = models.lines([{"words": ["a", "xyz"], "own": [2**70]}, {"text": "the dog " * 40}])
    line = ["embed", "-m", model, "--plain", "--dtype", "float32"]
    compact, listed = bertcli(*line, stdin=stdin), bertcli(*line, "--vectors", "list", stdin=stdin)
    assert (compact.status, compact.err) == (0, f"{model}: not needed: bert.pooler (2 tensors)\n")
    assert (listed.status, bertcli(*line, "--quiet", stdin=stdin).err) == (0, "")
    assert [record["vectors"]["shape"] for record in compact.records] == [[2, 32], [82, 32]]
    assert compact.out.startswith(b'{"words":["a","xyz"],"own":[%d],"vectors":' % 2**70)
    for one, other in zip(compact.records, listed.records, strict=True):
        np.testing.assert_array_equal(array(one["vectors"]), np.array(other["vectors"], np.float32))
    rows = [row for record in listed.records for row in record["vectors"]]
    for form, read in (
        ("npy", lambda data: np.load(io.BytesIO(data))),
        ("safetensors", lambda data: load(data)["vectors"]),
    ):
        np.testing.assert_array_equal(read(bertcli("write", form, stdin=compact.out).out), np.array(rows, np.float32))
    assert bertcli(*line, "--layers", "9", stdin=stdin).status == 2
    result = bertcli(*line, "--field", "own", stdin=stdin)
    assert (result.status, result.out) == (65, b"")
    told = f"bertcli embed: <stdin>:1: field 'own': found {2**70}, expected a string at [0]"
    assert result.err.splitlines()[-1].startswith(told)
    assert bertcli(*line, "--max-length", 65, stdin=stdin).status == 2
