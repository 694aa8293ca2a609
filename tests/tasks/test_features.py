"""Words labelled by their vectors alone: what is learned is what torch's own LSTM makes of `embed`'s numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
import toys
import warm
from program import Result
from safetensors.torch import load_file
from torch import nn

from bertcli import show
from bertcli.commands.streams import Streams
from bertcli.commands.training import read_dev
from bertcli.engine.device import choose
from bertcli.engine.run import Run
from bertcli.engine.settings import Output, Settings
from bertcli.engine.spool import Spool
from bertcli.errors import BadData
from bertcli.model.config import FeatureConfig
from bertcli.tasks.features import FeatureTagging
from bertcli.tasks.task import build
from bertcli.vectors import array_of, compact

NAMES = ("B-PER", "I-PER", "O")
LEARN = ["--bilstm-units", 24, "--lr", "2e-2", "--batch-size", 8, "--epochs", 16, "--dropout", 0]


def record(words: int, width: int = 4, layers: int = 0, source: str = "last/words/0a0b0c0d", **more: Any) -> Any:
    shape = (layers, words, width) if layers else (words, width)
    vectors = np.random.default_rng(words).normal(size=shape).astype(np.float32)
    return {"words": ["a"] * words, "labels": ["O"] * words, "vectors": compact(vectors, source), **more}


# -- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [0, 3])
def test_vectors_come_to_the_network_as_they_are_and_sentences_are_sequences(layers: int) -> None:
    records = [record(5, layers=layers, sentences=[0, 2]), record(0, layers=layers), record(3, layers=layers)]
    task = FeatureTagging()
    examples = [example for each in records for example in task.learn(each)]
    task.labels = NAMES
    batch = task.collate(examples)
    assert batch.packed.lengths == (2, 3, 3)
    own = [array_of(each["vectors"]) for each in (records[0], records[2])]
    wanted = np.concatenate([each.swapaxes(0, 1) if layers else each for each in own])
    assert batch.targets["vectors"].shape == ((8, 3, 4) if layers else (8, 4))
    np.testing.assert_array_equal(batch.targets["vectors"].numpy(), wanted)
    assert (task.width, task.layers, task.source) == (4, layers, "last/words/0a0b0c0d")
    assert task.held == batch.targets["vectors"].nbytes / 8  # by which it is known how many may wait for each other


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"vectors": None}, "field 'vectors': found nothing, expected the vectors of the words, as embed adds them"),
        ({"vectors": record(2)["vectors"]}, "found '2 rows', expected 3 rows, one a word"),
        ({"vectors": record(3, width=5)["vectors"]}, "found 'vectors of 5 numbers', expected vectors of 4 numbers"),
        (
            {"vectors": record(3, layers=2)["vectors"]},
            "found '2 layers of vectors of 4 numbers', expected vectors of 4 numbers",
        ),
        (
            {"vectors": record(3, source="last/words/ffffffff")["vectors"]},
            "found 'vectors from last/words/ffffffff', expected vectors from",
        ),
        (
            {"vectors": {"dtype": "float16", "shape": [3, 4], "data": "AAAA"}},
            "found '3 bytes', expected 24, of float16",
        ),
        ({"vectors": {"dtype": "float16", "shape": [0, 3, 4], "data": ""}}, "found 'rows of no numbers', expected"),
        ({"vectors": {"dtype": "float16", "shape": [3, 0], "data": ""}}, "found 'rows of no numbers', expected"),
        ({"vectors": [[1.0, 2.0], [3.0]]}, "expected vectors as embed writes them"),
        ({"labels": ["O"]}, "field 'labels': found 1, expected 3 labels, one a word"),
    ],
)
def test_vectors_that_do_not_fit_are_named(bad: dict[str, Any], said: str) -> None:
    task = FeatureTagging()
    task.learn(record(1))
    with pytest.raises(BadData, match=said):
        task.learn({**record(3), **bad})


def test_lists_say_nothing_of_their_source_and_fit_what_they_are_like() -> None:
    task = FeatureTagging()
    task.learn(record(2))
    listed = array_of(record(3)["vectors"]).tolist()
    (example,) = task.encode({**record(3), "vectors": listed})
    np.testing.assert_allclose(example["vectors"], np.ravel(listed))


def test_what_vectors_are_like_is_told_by_good_records_alone_and_the_source_by_the_first_that_has_one() -> None:
    task = FeatureTagging()
    with pytest.raises(BadData, match="field 'labels'"):
        task.learn({**record(3, width=5, source="other"), "labels": ["B-PER"]})
    task.learn({**record(2), "vectors": array_of(record(2)["vectors"]).tolist()})
    task.learn(record(3))
    with pytest.raises(BadData, match="found 'vectors from other', expected vectors from last/words/0a0b0c0d"):
        task.learn(record(3, source="other"))
    task.learn({**record(1), "labels": ["B-LOC"]})
    task.close()
    assert (task.labels, task.width) == (("B-LOC", "O"), 4)


def test_numbers_that_would_not_fit_those_before_are_refused_and_narrower_ones_are_not() -> None:
    wide = array_of(record(3)["vectors"])
    wide, narrow = wide * 1e5, wide.astype(np.float16)
    task = FeatureTagging()
    for vectors in (wide, narrow):
        (example,) = task.learn({**record(3), "vectors": compact(vectors, "")})
        np.testing.assert_array_equal(example["vectors"].astype(np.float32), vectors.ravel())
    task = FeatureTagging()
    task.learn({**record(3), "vectors": compact(narrow, "")})
    task.learn({**record(0), "vectors": []})
    for vectors in (compact(wide, ""), wide.tolist()):
        with pytest.raises(BadData, match="field 'vectors': found 'numbers of float32', expected float16"):
            task.learn({**record(3), "vectors": vectors, "labels": ["B-NEW"] * 3})
    task.learn({**record(3), "vectors": compact(narrow, ""), "labels": ["B-LOC"] * 3})
    task.close()
    assert task.labels == ("B-LOC", "O")


def test_dev_records_keep_their_numbers_whatever_types_they_are_of(tmp_path: Path) -> None:
    task = FeatureTagging()
    task.learn({**record(3), "vectors": compact(array_of(record(3)["vectors"]).astype(np.float16), "")})
    wide = array_of(record(3)["vectors"]) * 1e5
    dev = [{**record(3), "vectors": compact(vectors, "")} for vectors in (np.ones_like(wide, np.float16), wide)]
    (tmp_path / "dev.jsonl").write_bytes(models.lines(dev))
    streams = Streams((), plain=True, quiet=True, on_error="stop", text=False)
    scored = read_dev(streams, str(tmp_path / "dev.jsonl"), task, tmp_path)
    np.testing.assert_array_equal(scored[1][1][0]["vectors"], wide.ravel())
    assert "vectors" not in scored[1][0]  # nor in memory


# -- what is learned ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("features")
    models.save(models.theirs("BertModel", layers=4, noise=0.05), path / "model")
    (path / "train.jsonl").write_bytes(models.lines(toys.records("tagging", 120)))
    (path / "dev.jsonl").write_bytes(models.lines(toys.records("tagging", 20, seed=1)))
    return path


@torch.no_grad()
def theirs(tagger: Path, vectors: Any) -> Any:
    """Returns what torch's LSTM and a product make of vectors, with the weights of a folder."""
    weights = load_file(tagger / "model.safetensors")
    lstm = nn.LSTM(vectors.shape[-1], 24, 2, bidirectional=True)
    lstm.load_state_dict({name.removeprefix("bilstm."): own for name, own in weights.items() if "bilstm." in name})
    x = torch.tensor(vectors, dtype=torch.float32)
    if vectors.ndim == 3:
        x = weights["mix.scale"] * (weights["mix.weights"].softmax(0)[:, None, None] * x).sum(0)
    return (lstm(x)[0] @ weights["classifier.weight"].T + weights["classifier.bias"]).softmax(-1)


@pytest.mark.parametrize("layers", ["concat4", "weighted-all"])
def test_a_tagger_on_features_learns_and_answers(
    bertcli: Callable[..., Result], home: Path, tmp_path: Path, layers: str
) -> None:
    for name in ("train", "dev"):
        made = bertcli("embed", home / f"{name}.jsonl", "-m", home / "model", "--layers", layers, "--dtype", "float32")
        (tmp_path / f"{name}.zst").write_bytes(made.out)
    train, dev, tagger = (tmp_path / name for name in ("train.zst", "dev.zst", "tagger"))
    done = bertcli("finetune", "tagging", train, "--features", "--dev", dev, "-o", tagger, *LEARN)
    assert done.status == 0, done.err
    assert "a BiLSTM of 24 units a direction on " in done.err
    result = done.records[0]
    assert result["dev"]["f1"] > 90
    predicted = bertcli("predict", dev, "-m", tagger, "--plain")
    scored = bertcli("score", "tagging", stdin=predicted.out).records[0]
    assert scored["f1"] == result["dev"]["f1"]
    for answered, asked in zip(predicted.records, toys.records("tagging", 20, seed=1), strict=True):
        assert {name: answered[name] for name in asked} == asked
        wanted = theirs(tagger, array_of(answered["vectors"]))
        best = wanted.max(-1).values.tolist()
        np.testing.assert_allclose(answered["details"]["probabilities"], best, atol=1e-5)
    values = json.loads((tagger / "config.json").read_bytes())
    assert "architectures" not in values
    assert not (tagger / "vocab.txt").exists()
    with pytest.raises(ValueError, match="bertcli-features"):
        models.transformers.AutoModel.from_pretrained(tagger)


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def trained(name: str, **output: Any) -> bytes:
        task, spool = FeatureTagging(), Spool(tmp_path)
        for number in range(24):
            for example in task.learn(record(1 + number % 5, labels=["O"] + ["B-PER"] * (number % 5))):
                spool.append(example)
        task.close()
        settings = Settings(1e-2, 0.1, "linear", True, 4, 0.2, 3, epochs=3)
        run = Run(task, settings, Output(tmp_path / name, **output), choose("cpu"), {})
        run.take(spool)
        config = FeatureConfig(task.width, 6, hidden_dropout_prob=0.2, labels=task.labels)
        assert list(run.train(build(task, config, seed=3)))
        return (tmp_path / name / "model.safetensors").read_bytes()

    whole = trained("whole")
    assert trained("parts", stop_at=7) != whole
    assert trained("parts", resume=True) == whole


def test_vectors_from_elsewhere_are_refused(bertcli: Callable[..., Result], home: Path, tmp_path: Path) -> None:
    for layers in ("last", "second-to-last"):
        made = bertcli("embed", home / "dev.jsonl", "-m", home / "model", "--layers", layers)
        (tmp_path / f"{layers}.zst").write_bytes(made.out)
    tagger, line = tmp_path / "tagger", ["--features", *LEARN, "--epochs", 1]
    assert bertcli("finetune", "tagging", tmp_path / "last.zst", "-o", tagger, *line).status == 0
    wrong = bertcli("predict", tmp_path / "second-to-last.zst", "-m", tagger)
    assert wrong.status == 65
    assert "second-to-last.zst:1: field 'vectors': found 'vectors from second-to-last/words/" in wrong.err
    other = tmp_path / "other"
    assert bertcli("finetune", "tagging", tmp_path / "second-to-last.zst", "-o", other, *line).status == 0
    both = bertcli("predict", tmp_path / "last.zst", "-m", tagger, "-m", other)
    assert (both.status, f"{tagger} and {other} differ in their vectors" in both.err) == (2, True)
    named = ["finetune", "tagging", tmp_path / "last.zst", *line, "-o", tmp_path / "named", "-m"]
    assert bertcli(*named, home / "model").status == 0
    refused = bertcli(*named, models.save(models.theirs("BertModel"), tmp_path / "bert"), "--force")
    assert (refused.status, ", and the vectors are from last/words/" in refused.err) == (2, True)
    cut = bertcli("predict", tmp_path / "last.zst", "-m", tagger, "--max-length", 64)
    assert (cut.status, "reads vectors, of whole sentences" in cut.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["finetune", "classification", "--features"], 2, "--features is an option of tagging, not of classification"),
        (["finetune", "tagging", "--features", "--max-length", 64], 2, "with --features whole sentences are read"),
        (["finetune", "tagging", "--features", "--bilstm"], 2, "--bilstm: --features learns one anyway"),
        (["finetune", "tagging", "--bilstm-units", 8], 2, "--bilstm-units: those of --bilstm, or of --features"),
        (["finetune", "tagging", "--features"], 65, "field 'vectors': found nothing"),
    ],
)
def test_what_has_no_meaning_is_refused(
    bertcli: Callable[..., Result], home: Path, tmp_path: Path, words: list[Any], status: int, said: str
) -> None:
    done = bertcli(*words, home / "train.jsonl", "-m", home / "model", "-o", tmp_path / "tagger")
    assert done.status == status
    assert said in done.err
    assert not (tmp_path / "tagger").exists()


def test_of_records_without_vectors_nothing_is_learned(program: warm.Program, home: Path, tmp_path: Path) -> None:
    words = ["finetune", "tagging", str(home / "train.jsonl"), "--features", "-o", "tagger"]
    done = program.run(words, tmp_path, BERTCLI_MODEL=str(home / "model"))  # which is there for other commands
    assert done.status == 65
    assert "train.jsonl:1: field 'vectors': found nothing" in done.err


@pytest.mark.parametrize("is_apart", [True, False])
def test_a_tagger_without_names_for_its_labels_is_told_in_one_line(
    bertcli: Callable[..., Result], tmp_path: Path, is_apart: bool
) -> None:
    (tmp_path / "in").write_bytes(models.lines([record(2, labels=["O", "B-X"])]))
    kind = ["--features"] if is_apart else ["--bilstm", "-m", toys.start(tmp_path / "start")]
    line = ["finetune", "tagging", tmp_path / "in", *kind, "--epochs", 1, "--bilstm-units", 2]
    assert bertcli(*line, "-o", tmp_path / "tagger").status == 0
    file = tmp_path / "tagger" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"id2label": {}}))
    done = bertcli("predict", tmp_path / "in", "-m", tmp_path / "tagger", "-q")
    assert (done.status, done.err) == (
        65,
        f"bertcli predict: {file}: field 'id2label': found nothing, expected names of labels\n",
    )


# -- the same BiLSTM on a model that is fine-tuned ------------------------------------------------------------------


@pytest.mark.parametrize("task", toys.TASKS)
def test_a_bilstm_on_a_model_that_learns_with_it(bertcli: Callable[..., Result], tmp_path: Path, task: str) -> None:
    start = toys.start(tmp_path / "start")
    train = tmp_path / "train.jsonl"
    train.write_bytes(models.lines(toys.records(task, 40)))
    line = ["finetune", task, train, "--epochs", 2, "--lr", "5e-3", "--max-length", 32]
    done = bertcli(*line, "-m", start, "-o", tmp_path / "first", "--bilstm", "--bilstm-units", 8, "--dev", train)
    assert done.status == 0, done.err
    assert "bilstm.lstm" in done.err
    values = json.loads((tmp_path / "first" / "config.json").read_bytes())
    assert ("architectures" not in values, values["bilstm"]) == (True, 8)
    parts = show.model(tmp_path / "first")["parameters"]
    assert parts["bilstm"] == sum(each.numel() for each in nn.LSTM(32, 8, 2, bidirectional=True).parameters())
    predicted = bertcli("predict", train, "-m", tmp_path / "first", "--plain")
    scored = bertcli("score", task, stdin=predicted.out).records[0]
    for name, value in done.records[0]["dev"].items():
        assert scored[name] == (pytest.approx(value, abs=1e-5) if isinstance(value, float) else value), name
    copied = bertcli("convert", tmp_path / "first", "-o", tmp_path / "copy")
    assert "BERT, BiLSTM, " in copied.err
    assert bertcli("predict", train, "-m", tmp_path / "copy", "--plain").out == predicted.out
    (tmp_path / "copy" / "bertcli.json").write_text("{}")
    lost = bertcli("predict", train, "-m", tmp_path / "copy")
    assert (lost.status, "bertcli.json: field 'task': found nothing, expected classif" in lost.err) == (65, True)
    more = bertcli(*line, "-m", tmp_path / "first", "-o", tmp_path / "second")  # it stays, and so does the head
    assert "fresh" not in more.err
    assert json.loads((tmp_path / "second" / "config.json").read_bytes())["bilstm"] == 8
