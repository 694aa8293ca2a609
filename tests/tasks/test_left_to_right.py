"""The left-to-right language model: each token is predicted from those before it alone, and so it stays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import toys
from program import Result

from bertcli.errors import BadData
from bertcli.model.attention import attend
from bertcli.tasks import of_folder
from bertcli.tasks.left_to_right import LeftToRight
from bertcli.tasks.task import build
from bertcli.text.mask import Masking, MaskRule
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
PAIRS = models.pairs(30)
SMALL = ["--preset", "tiny", "--steps", 3, "--batch-size", 8, "--lr", "1e-3", "--device", "cpu"]


def task(**options: Any) -> LeftToRight:
    return LeftToRight(WORDPIECE, 64, objective="ltr", **options)


def masked(record: dict[str, Any]) -> dict[str, Any]:
    return Masking(WORDPIECE, MaskRule(rate=0.4), copies=1, seed=3).masked(record, 0)[0]


@torch.no_grad()
def test_no_token_sees_those_after_it() -> None:
    network = build(task(), models.config(initializer_range=0.3, is_decoder=True)).eval()
    ids, borders = models.sequences([40, 9, 64])
    before = network.bert(models.packed(ids, borders)).split([40, 9, 64])
    changed = [[*own[:5], *reversed(own[5:])] for own in ids]
    after = network.bert(models.packed(changed, borders)).split([40, 9, 64])
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one[:5], other[:5], atol=1e-6, rtol=0)
        assert not torch.allclose(one[-1], other[-1], atol=1e-3)


def test_dropout_on_attention_leaves_the_hidden_tokens_hidden() -> None:
    batch, ones = models.packed([[7] * 20, [7] * 9], [None, None]), torch.ones(29, 2, 8)
    values = torch.arange(1.0, 30)[:, None, None].expand(29, 2, 8)
    out = attend(ones, ones, values, batch, 0.3, True)
    for first, value in ((0, 1), (20, 21)):  # what sees itself alone has its own value, or nothing
        assert all(each in (0, pytest.approx(value / 0.7)) for each in out[first].flatten().tolist())


def test_the_loss_is_that_of_transformers(tmp_path: Path) -> None:
    model = models.theirs("BertLMHeadModel", is_decoder=True)
    folder = open_folder(models.save(model, tmp_path))
    own = of_folder(folder, 64)
    network = build(own, folder.config)
    folder.fill(network)
    details = [record["details"] for record in models.answers(tmp_path, PAIRS)]
    for record, found in zip(PAIRS, details, strict=True):
        inputs = models.alone(WORDPIECE.ids_of(record["tokens"]), record["segment_b"])
        right = model(**inputs, labels=inputs["input_ids"]).loss.item()
        assert found == {"loss": pytest.approx(right, abs=1e-5)}


def test_pairs_and_masked_pairs_teach_the_same() -> None:
    own = task()
    for index, record in enumerate(PAIRS):
        learned = [own.learn_at(each, index)[0] for each in (record, masked(record))]
        seen = [own.at_epoch(example, epoch) for example in learned for epoch in (0, 1)]
        assert seen[0]["ids"].tolist() == WORDPIECE.ids_of(record["tokens"])
        for other in seen[1:]:
            assert {name: array.tolist() for name, array in other.items()} == {
                name: array.tolist() for name, array in seen[0].items()
            }
        assert seen[0]["masked_positions"].tolist() == [*range(1, len(record["tokens"]))]


@torch.no_grad()
def test_a_token_is_predicted_from_the_place_before_it() -> None:
    own = task()
    examples = [own.at_epoch(own.learn_at(record, 0)[0], 0) for record in PAIRS[:3]]
    batch = own.collate(examples)
    positions, ids = batch.targets["positions"], batch.targets["ids"]
    assert torch.equal(batch.packed.ids[positions + 1], ids)
    assert batch.counts == {"lm_loss": len(batch.packed.ids) - 3}
    assert set(range(len(batch.packed.ids))) - set(positions.tolist()) == set(batch.packed.ends.tolist())
    filled = own.evened(own.collate([*examples, own.padding(5)]))
    assert filled.counts == batch.counts
    network = build(own, models.config(is_decoder=True)).eval()
    whole, more = own.losses(network, batch)["lm_loss"], own.losses(network, filled)["lm_loss"]
    torch.testing.assert_close(whole, more)
    assert float(whole) / batch.counts["lm_loss"] == pytest.approx(math.log(len(models.PIECES)), abs=0.1)


def test_the_first_token_cannot_be_asked_for() -> None:
    record = {"tokens": ["[CLS]", "the", "[SEP]"], "masked_positions": [0], "masked_tokens": ["cat"]}
    with pytest.raises(BadData, match="the first token is not to be predicted"):
        task(training=False).encode(record)


# -- by the program ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(program: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with pairs, a vocabulary, and the model that has learned a little from them."""
    folder = tmp_path_factory.mktemp("ltr")
    (folder / "vocab.txt").write_text("\n".join(models.PIECES) + "\n")
    (folder / "pairs.jsonl").write_bytes(models.lines(PAIRS))
    (folder / "masked.jsonl").write_bytes(models.lines([masked(record) for record in PAIRS]))
    line = ["pretrain", "masked.jsonl", "-o", "model", "--objective", "ltr", "--dev", "pairs.jsonl", *SMALL]
    result = program.run(list(map(str, line)), folder)
    assert result.status == 0, result.err
    (folder / "told.json").write_bytes(result.out)
    return folder


def test_the_folder_is_transformers_and_knows_what_it_learned(trained: Path, bertcli: Callable[..., Result]) -> None:
    model, info = models.transformers.BertLMHeadModel.from_pretrained(trained / "model", output_loading_info=True)
    assert not any(info.values())
    assert model.config.is_decoder
    told = json.loads((trained / "told.json").read_bytes())
    row = json.loads((trained / "model/log.jsonl").read_text().splitlines()[-1])
    assert row["loss"] == row["lm_loss"] == told["lm_loss"]
    tokens = sum(len(record["tokens"]) - 1 for record in PAIRS)
    assert told["dev"]["perplexity"] == pytest.approx(math.exp(told["dev"]["lm_loss"]))
    assert told["dev"].keys() == {"lm_loss", "perplexity", "lm_accuracy", "predicted", "total"}
    assert told["dev"]["predicted"] == tokens
    notes = json.loads((trained / "model/bertcli.json").read_text())
    assert notes["objective"] == "ltr"
    assert not {"rate", "fates"} & notes.keys()
    predicted = bertcli("predict", trained / "pairs.jsonl", "-m", trained / "model", "--top-k", 1)
    (scores,) = bertcli("score", "pretraining", stdin=predicted.out).records
    assert scores == pytest.approx(told["dev"], rel=1e-5)
    found = predicted.records
    losses = [record["details"]["loss"] * (len(record["tokens"]) - 1) for record in found]
    assert sum(losses) / tokens == pytest.approx(told["dev"]["lm_loss"], rel=1e-5)
    right = sum(
        guess["token"] == token
        for record in found
        for (guess,), token in zip(record["prediction"], record["tokens"][1:], strict=True)
    )
    assert right / tokens == pytest.approx(told["dev"]["lm_accuracy"])


def test_a_gap_is_filled_by_what_is_before_it(trained: Path, bertcli: Callable[..., Result]) -> None:
    texts = b"the cat [MASK] old\nthe cat [MASK] red . house\nold the [MASK]\n"
    first, second, third = bertcli("predict", "-m", trained / "model", stdin=texts).records
    assert first["prediction"] == second["prediction"] != third["prediction"]
    (bare,) = bertcli("predict", "-m", trained / "model", stdin=b"the cat\n").records
    assert (bare["prediction"], bare["details"]) == ([], {})


@pytest.mark.parametrize(
    ("name", "options"), [("classification", []), ("tagging", []), ("span", []), ("classification", ["--bilstm"])]
)
def test_it_stays_causal_when_it_is_fine_tuned(
    name: str, options: list[str], trained: Path, bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    records = tmp_path / "records.jsonl"
    records.write_bytes(models.lines(toys.records(name, 24)))
    units = ["--bilstm-units", 8] if options else []
    line = ["finetune", name, records, "-m", trained / "model", "-o", "tuned", "--epochs", 1, *options, *units]
    made = bertcli(*line, "--device", "cpu", "--max-length", 64)
    assert made.status == 0, made.err
    values = json.loads((tmp_path / "tuned/config.json").read_text())
    assert values["is_decoder"] is True
    assert "architectures" not in values
    with pytest.raises(ValueError, match="bertcli-bert"):  # it would read [CLS], which has seen nothing
        models.transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned")
    answered = bertcli("predict", records, "-m", "tuned", "--device", "cpu")
    assert answered.status == 0, answered.err
    assert len(answered.records) == 24
    again = bertcli("finetune", name, records, "-m", "tuned", "-o", "again", *line[7:], "--device", "cpu")
    assert again.status == 0, again.err
    assert "fresh" not in again.err  # the head is known, though no class of transformers names it
    (tmp_path / "grown.txt").write_text((trained / "vocab.txt").read_text() + "zebra\n")
    grown = bertcli("convert", "tuned", "--extend-vocab", "grown.txt", "-o", "grown")
    assert grown.status == 0, grown.err
    assert bertcli("predict", records, "-m", "grown", "--device", "cpu").records == answered.records


def test_a_classifier_reads_the_last_token(trained: Path) -> None:
    from bertcli.tasks import new
    from bertcli.tasks.task import scores

    own = new("classification", WORDPIECE, 64, labels=("a", "b"))
    network = build(own, models.config(initializer_range=0.3, is_decoder=True, labels=("a", "b"))).eval()
    texts = ["the cat", "the dog"]
    batch = own.collate([own.encode({"text": text})[0] for text in texts])
    one, other = scores(network, batch)
    assert not torch.allclose(one, other, atol=1e-3)
    hidden = network.bert(batch.packed)
    torch.testing.assert_close(hidden[batch.packed.starts[0]], hidden[batch.packed.starts[1]])  # [CLS] knows nothing


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["pretrain", "pairs.jsonl", "-o", "x", "--objective", "ltr", "--rate", 0.2],
            "--rate: nothing is masked",
        ),
        (
            ["pretrain", "pairs.jsonl", "-o", "x", "--objective", "ltr", "--whole-word"],
            "--whole-word: nothing",
        ),
        (["pretrain", "pairs.jsonl", "-o", "x", "--start", "model", "--steps", 1], "was trained from left to right"),
        (["embed", "pairs.jsonl", "-m", "model", "--pool", "cls"], "--pool cls: model reads from left to right"),
    ],
)
def test_what_has_no_meaning_is_refused(line: list[Any], said: str, trained: Path, program: Any) -> None:
    result = program.run(list(map(str, line)), trained)
    assert result.status == 2
    assert said in result.err
    assert not (trained / "x").exists()


@pytest.mark.parametrize(("objective", "fresh"), [("ltr", False), ("mlm", False), ("mlm+nsp", True)])
def test_other_objectives_begin_from_it_when_they_are_asked_for(
    objective: str, fresh: bool, trained: Path, bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    line = ["pretrain", trained / "pairs.jsonl", "-o", "more", "--start", trained / "model", "--objective", objective]
    result = bertcli(*line, *SMALL[2:])
    assert result.status == 0, result.err
    assert ("fresh: bert.pooler, heads.nsp" in result.err) == fresh
    assert open_folder(tmp_path / "more").config.is_decoder == (objective == "ltr")


def test_its_vocabulary_grows(trained: Path, bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "grown.txt").write_text((trained / "vocab.txt").read_text() + "zebra\n")
    grown = bertcli("convert", trained / "model", "--extend-vocab", "grown.txt", "-o", "grown")
    assert grown.status == 0, grown.err
    model = models.transformers.BertLMHeadModel.from_pretrained(tmp_path / "grown")
    assert (model.config.is_decoder, model.config.vocab_size) == (True, len(models.PIECES) + 1)
    line = ["pretrain", trained / "pairs.jsonl", "-v", "grown", "--start", "grown", "--objective", "ltr", *SMALL[2:]]
    assert bertcli(*line, "-o", "more").status == 0


def test_it_is_resumed(trained: Path, bertcli: Callable[..., Result], tmp_path: Path) -> None:
    line = ["pretrain", trained / "pairs.jsonl", "-v", trained / "vocab.txt", "--objective", "ltr", *SMALL]
    assert bertcli(*line, "-o", "whole").status == 0
    assert bertcli(*line, "-o", "parts", "--stop-at", 2).status == 0
    assert bertcli(*line, "-o", "parts", "--resume").status == 0
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other
