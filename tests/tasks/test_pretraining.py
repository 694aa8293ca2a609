"""Hidden tokens and next sentences: what is asked of the network, and what is said of its answers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from program import Result

from bertcli.errors import BadData
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build
from bertcli.text.mask import Masking, MaskRule

WORDPIECE = models.wordpiece()
PAIRS = models.pairs(20)
RULES = [
    MaskRule(),
    MaskRule(rate=0.4, fates=(0.2, 0.3, 0.5)),
    MaskRule(rate=0.3, whole_word=True),
    MaskRule(rate=0.3, bernoulli=True, max_masks=4),
    MaskRule(rate=0.5, ngram=3, whole_word=True),
]


def masked_by_training(task: Pretraining, records: list[dict[str, Any]], epoch: int) -> list[dict[str, Any]]:
    examples = [task.at_epoch(task.encode(record, index)[0], epoch) for index, record in enumerate(records)]
    return [
        {
            "tokens": [models.PIECES[number] for number in example["ids"]],
            "masked_positions": example["masked_positions"].tolist(),
            "masked_tokens": [models.PIECES[number] for number in example["masked_ids"]],
        }
        for example in examples
    ]


@pytest.mark.parametrize("with_id", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_an_epochs_masks_are_those_of_the_copy_that_mask_writes(rule: MaskRule, with_id: bool) -> None:
    records = [dict(record) for record in models.pairs(20, with_id=with_id)]
    for record in records[::2]:
        record["word_starts"] = [1, 2, 4, *range(record["segment_b"], len(record["tokens"]) - 1, 2)]
    masking = Masking(WORDPIECE, rule, copies=3, seed=7)
    copies = [masking.masked(record, index) for index, record in enumerate(records)]
    epochs = []
    for epoch in range(3):
        masked = masked_by_training(Pretraining(WORDPIECE, 64, rule=rule, seed=7), records, epoch)
        for ours, theirs in zip(masked, copies, strict=True):
            assert {name: theirs[epoch][name] for name in ours} == ours
        epochs.append([record["masked_positions"] for record in masked])
    assert all(one != other for one, other in itertools.combinations(epochs, 2))


def test_masked_pairs_keep_their_masks() -> None:
    task = Pretraining(WORDPIECE, 64)
    record = task.masked(PAIRS[0])
    assert task.masked(record) is record
    (example,) = task.encode(record)
    for epoch in range(3):
        seen = task.at_epoch(example, epoch)
        assert seen["ids"].tolist() == WORDPIECE.ids_of(record["tokens"])
        assert seen["masked_positions"].tolist() == record["masked_positions"]
        assert seen["masked_ids"].tolist() == WORDPIECE.ids_of(record["masked_tokens"])


def test_a_batch_points_into_all_its_tokens() -> None:
    task = Pretraining(WORDPIECE, 64)
    records = [task.masked(record) for record in PAIRS[:5]]
    batch = task.collate([task.encode(record)[0] for record in records])
    hidden = [token for record in records for token in record["masked_tokens"]]
    assert [models.PIECES[number] for number in batch.targets["ids"]] == hidden
    restored = batch.packed.ids.clone()
    restored[batch.targets["positions"]] = batch.targets["ids"]
    assert [models.PIECES[number] for number in restored] == [token for pair in PAIRS[:5] for token in pair["tokens"]]
    assert batch.targets["random"].tolist() == [int(not pair["is_next"]) for pair in PAIRS[:5]]
    assert batch.counts == {"mlm_loss": len(hidden), "nsp_loss": 5}


MASKED = {"tokens": ["[CLS]", "a", "[SEP]", "b", "[SEP]"], "segment_b": 3, "is_next": True}
HIDDEN = MASKED | {"masked_positions": [1], "masked_tokens": ["c"]}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": "a"}, "field 'tokens': found nothing, expected a list of strings"),
        (MASKED | {"tokens": []}, "field 'tokens': found an empty list, expected"),
        (MASKED | {"tokens": ["[CLS]", "zebra", "[SEP]"]}, "field 'tokens': found 'zebra', expected a piece"),
        (MASKED | {"tokens": ["[CLS]", *"a" * 63, "[SEP]"]}, "field 'tokens': 65 tokens are more than --max-length 64"),
        (MASKED | {"segment_b": 5}, "field 'segment_b': found 5, expected the index of a token"),
        (MASKED | {"segment_b": 0}, "field 'segment_b': found 0"),
        (MASKED | {"word_starts": [1, 5]}, "field 'word_starts': an index beyond the tokens"),
        (MASKED | {"word_starts": [-1, 1]}, "field 'word_starts': an index beyond the tokens"),
        (MASKED | {"is_next": None}, "field 'is_next': found nothing, expected true or false"),
        (MASKED | {"is_next": "yes"}, "field 'is_next': found 'yes'"),
        (HIDDEN | {"masked_positions": [5]}, "field 'masked_positions': found 5, expected indices below 5"),
        (HIDDEN | {"masked_positions": [-1]}, "field 'masked_positions': found -1"),
        (HIDDEN | {"masked_positions": [1, 3]}, "field 'masked_tokens': found a list, expected 2 of them"),
        (HIDDEN | {"masked_tokens": ["zebra"]}, "field 'masked_tokens': found 'zebra', expected a piece"),
        (HIDDEN | {"masked_tokens": None}, "field 'masked_tokens': found nothing, expected a list of strings"),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        Pretraining(WORDPIECE, 64).encode(record)
    assert str(caught.value).startswith(said)


def test_a_dev_record_without_tokens_is_named() -> None:
    with pytest.raises(BadData, match="field 'tokens': found nothing"):
        Pretraining(WORDPIECE, 64).masked({"text": "a"})


def test_the_objective_mlm_asks_for_no_next_sentence() -> None:
    task = Pretraining(WORDPIECE, 64, objective="mlm")
    batch = task.collate(task.encode({"tokens": HIDDEN["tokens"], "masked_positions": [1], "masked_tokens": ["c"]}))
    assert batch.counts == {"mlm_loss": 1}


# -- in use ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return models.save(models.theirs("BertForPreTraining"), tmp_path / "model")


def answers(path: Path, records: list[dict[str, Any]], top_k: int = 3) -> list[dict[str, Any]]:
    return models.answers(path, records, max_length=64, top_k=top_k)


@torch.no_grad()
def test_fill_mask_names_what_transformers_finds(model: Path) -> None:
    rng = random.Random(3)
    records: list[dict[str, Any]] = [{"text": models.text(rng, rng.randint(1, 8))} for _ in range(30)]
    records += [{"text": models.text(rng, 3), "text_pair": models.text(rng, 4) + " [MASK]"} for _ in range(10)]
    theirs = models.transformers.BertForPreTraining.from_pretrained(model).eval()
    for record, answer in zip(records, answers(model, records), strict=True):
        inputs = models.tokenizer()(record["text"], record.get("text_pair"), return_tensors="pt")
        outputs = theirs(**inputs)
        places = inputs["input_ids"][0] == WORDPIECE.mask
        best = outputs.prediction_logits[0, places].softmax(-1).topk(3)
        assert len(answer["prediction"]) == int(places.sum())
        for ours, ids, values in zip(answer["prediction"], best.indices, best.values, strict=True):
            assert [guess["token"] for guess in ours] == [models.PIECES[number] for number in ids]
            assert [guess["probability"] for guess in ours] == pytest.approx(values.tolist(), abs=1e-5)
        if "text_pair" in record:
            follows = float(outputs.seq_relationship_logits.softmax(-1)[0, 0])
            assert answer["details"] == {"is_next_probability": pytest.approx(follows, abs=1e-5)}
        else:
            assert answer["details"] == {}
        assert {name: answer[name] for name in record} == record


@torch.no_grad()
def test_masked_pairs_get_the_loss_that_transformers_computes(model: Path) -> None:
    task = Pretraining(WORDPIECE, 64)
    records = [task.masked(record) for record in models.pairs(40, seed=2)]
    theirs = models.transformers.BertForPreTraining.from_pretrained(model).eval()
    for record, answer in zip(records, answers(model, records), strict=True):
        outputs = theirs(**models.alone(WORDPIECE.ids_of(record["tokens"]), record["segment_b"]))
        log = outputs.prediction_logits[0].log_softmax(-1)
        places, truth = record["masked_positions"], WORDPIECE.ids_of(record["masked_tokens"])
        assert answer["details"]["loss"] == pytest.approx(-float(log[places, truth].mean()), abs=1e-5)
        best = [models.PIECES[number] for number in log[places].argmax(-1)]
        assert [guesses[0]["token"] for guesses in answer["prediction"]] == best


def test_masks_in_any_order_stay_with_their_own_pair(model: Path) -> None:
    task = Pretraining(WORDPIECE, 64, rule=MaskRule(rate=0.4))
    records = [task.masked(record) for record in models.pairs(10, longest=12)]
    turned = [
        record | {"masked_positions": record["masked_positions"][::-1], "masked_tokens": record["masked_tokens"][::-1]}
        for record in records
    ]
    for one, other in zip(answers(model, records), answers(model, turned), strict=True):
        assert one["prediction"] == other["prediction"][::-1]
        assert one["details"] == pytest.approx(other["details"], abs=1e-6)


def test_rows_beyond_the_pieces_are_never_named(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertForMaskedLM", vocab_size=len(models.PIECES) + 38), tmp_path / "padded")
    (answer,) = answers(path, [{"text": "a [MASK]"}], top_k=10_000)
    assert sorted(guess["token"] for guess in answer["prediction"][0]) == sorted(models.PIECES)


def test_pairs_and_words_and_texts_without_a_gap(model: Path) -> None:
    pair = {"tokens": ["[CLS]", "a", "[MASK]", "[SEP]", "b", "[SEP]"], "segment_b": 4}
    one, two, three = answers(model, [pair, {"words": ["a", "[MASK]"]}, {"text": ""}])
    assert len(one["prediction"]) == len(two["prediction"]) == 1
    assert set(one["details"]) == {"is_next_probability"}
    assert (three["prediction"], three["details"]) == ([], {})


def test_the_command(bertcli: Callable[..., Result], model: Path) -> None:
    result = bertcli("predict", "-m", model, "--top-k", 2, "--plain", stdin=b"the [MASK] was old\n[MASK] [MASK]\n")
    assert (result.status, [len(record["prediction"]) for record in result.records]) == (0, [1, 2])
    assert all(len(guesses) == 2 for record in result.records for guesses in record["prediction"])
    long = bertcli("predict", "-m", model, stdin=b"short\n" + b"a " * 70)
    assert long.status == 65
    assert "<stdin>:2: " in long.err
    assert "72 tokens are more than the model's 64" in long.err


def test_sequences_without_masks_go_all_the_way(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(models.pairs(30)))
    rule = ["--bernoulli", "--rate", 0.01]
    masked = bertcli("mask", "pairs.jsonl", *rule, "--plain")
    (tmp_path / "masked.jsonl").write_bytes(masked.out)
    hidden = sum(len(record["masked_tokens"]) for record in masked.records)
    assert 0 < hidden < 10
    small = ["--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--batch-size", 2, "--steps", 20]
    for name, options in (("masked.jsonl", []), ("pairs.jsonl", rule)):  # most batches have nothing to find
        trained = bertcli("pretrain", name, "-o", name[:5], *options, *small, "--dev", name)
        assert trained.status == 0, trained.err
        assert trained.records[0]["dev"]["masked"] == hidden
        predicted = bertcli("predict", "masked.jsonl", "-m", name[:5], "--max-tokens", 40)
        (scores,) = bertcli("score", "pretraining", stdin=predicted.out).records
        assert scores == pytest.approx(trained.records[0]["dev"], rel=1e-5)
    refused = bertcli("pretrain", "masked.jsonl", "-o", "refused", *rule, *small)
    assert refused.status == 65
    assert refused.err.endswith(
        "masked.jsonl:1: field 'masked_positions': masked already, so that --rate changes nothing\n"
    )
    bare = models.lines([record for record in masked.records if not record["masked_tokens"]])
    predicted = bertcli("predict", "-m", "pairs", stdin=bare)
    assert {tuple(record["details"]) for record in predicted.records} == {("is_next_probability",)}
    (scores,) = bertcli("score", "pretraining", stdin=predicted.out).records
    assert set(scores) == {"nsp_accuracy", "masked", "pairs", "total"}


@torch.no_grad()
def test_a_fresh_model_knows_nothing() -> None:
    task = Pretraining(WORDPIECE, 64)
    network = build(task, models.config())
    examples = [task.encode(task.masked(record))[0] for record in PAIRS]
    batch = task.collate(examples)
    losses = task.losses(network, batch)
    means = {name: float(losses[name]) / batch.counts[name] for name in losses}
    assert means["mlm_loss"] == pytest.approx(math.log(len(models.PIECES)), abs=0.1)
    assert means["nsp_loss"] == pytest.approx(math.log(2), abs=0.05)
