"""Folders of other programs to ours, and vocabularies that grew: what was there answers as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import toys
from program import Result, decompressed
from safetensors.torch import load_file, save_file
from warm import Program

from bertcli.folder import read_notes
from bertcli.headers import FILE
from bertcli.tasks.choice import Choice
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.regression import Regression
from bertcli.tasks.span import Rule, Span
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import build
from bertcli.weights.folder import save_folder

NEW = ["cats", "##ab", "dogs", "stonexy", "\u4e2d"]
TEXTS = ["the cat is in the old house", "a dog, a tree; bread and water", "xyz", "what was unknown: \u4e2d"]
KINDS = {  # each with its records, where our tasks have any
    "BertForPreTraining": "",
    "BertForMaskedLM": "",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "span",
    "BertForMultipleChoice": "choice",
    "BertModel": "",
}


def grow(program: Program, folder: Path, *options: object) -> Result:
    (folder / "new.txt").write_text("".join(f"{piece}\n" for piece in [*models.PIECES, *NEW]))
    result = program.run(
        ["convert", "model", "--extend-vocab", "new.txt", "-o", "grown", *map(str, options)], folder, b""
    )
    assert result.status == 0, result.err
    return result


def loaded(kind: str, path: Path) -> Any:
    model, info = getattr(models.transformers, kind).from_pretrained(path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_the_same_numbers(program: Program, tmp_path: Path, kind: str) -> None:
    theirs = models.theirs(kind, num_labels=2 if "Question" in kind else 3)
    models.save(theirs, tmp_path / "model")
    result = grow(program, tmp_path)
    assert (
        "5 new pieces: the mean of 2.25 old ones each; 1 that they do not make, as '\u4e2d', like [UNK]" in result.err
    )
    again, old = loaded(kind, tmp_path / "grown"), theirs.state_dict()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor[: len(old[name])], old[name]), name
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(tmp_path / "grown")
    assert tokenizer.tokenize("Cats and dogs xab") == ["cats", "and", "dogs", "x", "##ab"]
    words = again.get_input_embeddings().weight
    parts = tokenizer.convert_tokens_to_ids(["cat", "##s"])
    assert torch.allclose(words[tokenizer.convert_tokens_to_ids("cats")], words[parts].mean(0))
    if KINDS[kind]:
        records = models.lines([{"id": "1", **each} for each in toys.records(KINDS[kind], 8)])
        before, after = (
            decompressed(program.run(["predict", "-m", name, "--device", "cpu"], tmp_path, records).out)
            for name in ("model", "grown")
        )
        assert before == after != b""


# -- there and back -------------------------------------------------------------------------------------------------

OWN: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {  # each of our heads: its task, and what its config says
    "mlm+nsp": (Pretraining, {}),
    "mlm": (partial(Pretraining, objective="mlm"), {}),
    "ltr": (partial(Pretraining, objective="ltr"), {"is_decoder": True}),
    "classification": (partial(Classification, labels=("no", "yes", "maybe")), {"labels": ("no", "yes", "maybe")}),
    "several": (
        partial(Classification, labels=("a", "b", "c"), several=True),
        {"labels": ("a", "b", "c"), "problem_type": "multi_label_classification"},
    ),
    "regression": (Regression, {"labels": ("LABEL_0",), "problem_type": "regression"}),
    "tagging": (partial(Tagging, labels=("B", "I", "O")), {"labels": ("B", "I", "O")}),
    "span": (partial(Span, rule=Rule()), {}),
    "choice": (Choice, {}),
}


@pytest.mark.parametrize("name", OWN)
def test_ours_to_transformers_to_ours_to_tensorflow_to_ours(
    bertcli: Callable[..., Result], tmp_path: Path, name: str
) -> None:
    make, values = OWN[name]
    task = make(models.wordpiece(), 64)
    network = build(task, models.config(initializer_range=0.3, hidden_act="gelu_new", **values), 5)
    notes = {"task": task.name, "null_threshold": -1.5, "stride": 16, "max_question": 16, "max_answer": 10}
    save_folder(tmp_path / "ours", network, task.architecture, task.wordpiece, 64, notes)
    ours = load_file(tmp_path / "ours" / FILE)
    loaded(str(task.architecture), tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    models.transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    assert bertcli("convert", "theirs", "-o", "back").status == 0
    made = bertcli("convert", "back", "--to", "tensorflow", "-o", "google")
    if name == "ltr":
        assert (made.status, made.err) == (2, "bertcli convert: Google's code has no attention to the left alone\n")
    else:
        assert made.status == 0, made.err
        assert not list((tmp_path / "google").glob("*.safetensors"))
        again = bertcli("convert", "google", "-o", "again")
        assert again.status == 0, again.err
        assert again.records[0]["tensors"] == {"used": len(ours)}
    for folder in ("back", "again"):
        if (path := tmp_path / folder).exists():
            after = load_file(path / FILE)
            assert after.keys() == ours.keys()
            assert all(torch.equal(tensor, ours[name]) for name, tensor in after.items())
            before, told = (json.loads((tmp_path / each / "config.json").read_text()) for each in ("ours", folder))
            assert told == before
            assert (path / "vocab.txt").read_bytes() == (tmp_path / "ours" / "vocab.txt").read_bytes()


def test_sentence_transformers_makes_the_vectors_of_embed(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    sentences = pytest.importorskip("sentence_transformers")
    toys.start(tmp_path / "model")
    for force in ([], ["--force"]):  # the second takes the place of the first, folder by folder
        result = bertcli("convert", "model", "--to", "sentence-transformers", "-o", "sentences", *force)
        assert result.status == 0, result.err
    theirs = sentences.SentenceTransformer(str(tmp_path / "sentences"), device="cpu").encode(TEXTS)
    form = ["--pool", "mean", "--vectors", "list", "--dtype", "float32", "--device", "cpu"]
    for name in ("model", "sentences"):
        records = bertcli("embed", "-m", name, *form, stdin="\n".join(TEXTS).encode()).records
        ours = torch.tensor([record["vectors"][0] for record in records])
        torch.testing.assert_close(ours, torch.from_numpy(theirs), atol=1e-5, rtol=0)


def test_another_form_leaves_no_weights_of_an_old_model(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    alone = {}
    for form in ("bertcli", "sentence-transformers", "tensorflow"):
        assert bertcli("convert", "model", "--to", form, "-o", form).status == 0
        alone[form] = {path.name for path in (tmp_path / form).iterdir()}
    models.save(models.theirs("BertForMaskedLM"), tmp_path / "other", max_shard_size="20KB")
    for form in ("tensorflow", "bertcli", "sentence-transformers", "tensorflow", "sentence-transformers", "bertcli"):
        refused = bertcli("convert", "model", "--to", form, "-o", "other")
        assert (refused.status, "--force" in refused.err) == (73, True)
        assert bertcli("convert", "model", "--to", form, "-o", "other", "--force").status == 0
        assert {path.name for path in (tmp_path / "other").iterdir()} - {"generation_config.json"} == alone[form]
    assert bertcli("convert", "model", "--to", "tensorflow", "-o", "other", "--force").status == 0
    assert "bertcli convert makes a model folder of it" in bertcli("embed", "-m", "other", stdin=b"a").err


def test_onnx_by_the_command(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    models.save(models.theirs("BertForSequenceClassification", 1, num_labels=3), tmp_path / "model")
    sizes = []
    for precision in ("fp32", "int8"):
        made = bertcli("convert", "model", "--to", "onnx", "--precision", precision, "-o", precision)
        assert made.status == 0, made.err
        session = runtime.InferenceSession(tmp_path / precision / "model.onnx")
        assert [output.name for output in session.get_outputs()] == ["logits"]
        sizes.append((tmp_path / precision / "model.onnx").stat().st_size)
    assert sizes[1] < sizes[0]
    refused = bertcli("convert", "model", "--precision", "int8", "-o", "no")
    assert (refused.status, refused.err) == (2, "bertcli convert: --precision int8 needs --to onnx\n")
    assert "model.onnx: for other programs" in bertcli("show", "fp32").err


def test_a_vocabulary_that_is_cut_is_told(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    pieces = models.PIECES
    (tmp_path / "model" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces[:40]))
    for line in (["convert", "model", "-o", "copy"], ["embed", "-m", "model"]):
        told = bertcli(*line, stdin=b"a").err
        assert f"40 pieces for {len(pieces)} rows: is its vocabulary whole?" in told


def test_added_tokens_are_told_of_wherever_texts_are_cut(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    listed = {"additional_special_tokens": ["[E1]", {"content": "[E2]"}, "<a>", "<b>", "[SEP]"]}
    (tmp_path / "model" / "special_tokens_map.json").write_text(json.dumps(listed))
    told = "model: 4 added tokens ('<a>', '<b>', '[E1]', …) will not be looked for in texts\n"
    for line in (["tokenize", "-v", "model"], ["embed", "-m", "model"], ["convert", "model", "-o", "copy"]):
        result = bertcli(*line, stdin=b"a cat\n")
        assert (result.status, told in result.err) == (0, True), result.err
    assert "added" not in bertcli("tokenize", "-v", "copy", stdin=b"a cat\n").err


def test_what_is_in_the_way_is_left_out_by_name(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    models.save(models.theirs("BertModel"), tmp_path / "model")
    tensors = load_file(tmp_path / "model" / FILE)
    extra = {"dense.weight": torch.ones(3, 32), "adapter.up": torch.ones(2)}
    save_file(tensors | extra, tmp_path / "model" / FILE, metadata={"format": "pt"})
    refused = bertcli("convert", "model", "-o", "copy")
    assert refused.status == 65
    assert "no place in a BERT: adapter.up, dense.weight (convert --without leaves them out)" in refused.err
    assert bertcli("embed", "-m", "model", stdin=b"a").status == 65
    none = bertcli("convert", "model", "-o", "copy", "--without", "adapter.*,lora.*")
    assert (none.status, "--without lora.*: model has none" in none.err) == (2, True)
    made = bertcli("convert", "model", "-o", "copy", "--without", "adapter.*,dense.weight")
    assert made.status == 0, made.err
    assert made.records[0]["tensors"] == {"used": 39, "left": {"--without": 2}}


def vectors(program: Program, folder: Path, name: str, text: str) -> list[dict[str, Any]]:
    form = ["--layers", "0,-1", "--vectors", "list", "--dtype", "float32", "--plain"]
    result = program.run(["embed", "-m", name, "--device", "cpu", *form], folder, text.encode())
    assert result.status == 0, result.err
    return [json.loads(each) for each in result.out.splitlines()]


def bare() -> Any:
    config = models.theirs("BertModel", vocab_size=len(models.PIECES) + 4).config
    return models.transformers.BertModel(config, add_pooling_layer=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_texts_without_a_new_piece_have_the_same_vectors(program: Program, tmp_path: Path, dtype: torch.dtype) -> None:
    """Of BERT alone, without a pooler, in any float type and in shards, its table filled up with idle rows."""
    models.save(bare().to(dtype), tmp_path / "model", max_shard_size="20KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    result = grow(program, tmp_path)
    assert result.err.splitlines()[0] == "model: 4 rows beyond its 92 pieces left out"
    text = "\n".join(TEXTS)
    before, after = (vectors(program, tmp_path, name, text) for name in ("model", "grown"))
    assert after[-1].pop("tokens") != before[-1].pop("tokens")
    assert after == before
    assert vectors(program, tmp_path, "grown", "the cats") != vectors(program, tmp_path, "model", "the cats")


def test_a_vocabulary_grows_in_a_pipeline(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("sailors sail sailboats\n" * 3)
    (tmp_path / "new.txt").write_bytes(bertcli("vocab", "--extend", "model", "corpus.txt").out)
    result = bertcli("convert", "model", "--extend-vocab", "new.txt", "-o", "grown")
    assert result.status == 0, result.err
    (figures,) = result.records
    assert figures["new_pieces"] == figures["pieces"] - len(models.PIECES) > 0
    assert [*bertcli("tokenize", "-v", "grown", stdin=b"sailors").records[0]["tokens"]] == ["sailors"]
    answered = bertcli("predict", "-m", "grown", "--device", "cpu", stdin=b"the sailors [MASK]")
    assert len(answered.records[0]["prediction"][0]) == 5
    pairs = models.lines(models.pairs(8))
    line = ["--start", "grown", "-o", "more", "--steps", 1, "--batch-size", 4, "--max-length", 64, "--device", "cpu"]
    trained = bertcli("pretrain", *line, stdin=pairs)
    assert trained.status == 0, trained.err
    assert "fresh" not in trained.err


def test_notes_come_along_and_tell_what_was_done(program: Program, bertcli: Any, tmp_path: Path) -> None:
    path = models.finetuned(program, tmp_path, "classification", models.coloured(8), "--epochs", 1, "--cut")
    before = read_notes(path)
    assert bertcli("convert", "model", "-o", "copy").status == 0
    grow(program, tmp_path, "-q")
    assert bertcli("convert", "grown", "-o", "again").status == 0
    made = "bertcli convert model --extend-vocab new.txt -o grown -q"
    for name, commands, did in (
        ("copy", [before["command"], "bertcli convert model -o copy"], {"source": "model"}),
        ("grown", [before["command"], made], {"source": "model", "new_pieces": 5, "parts": 2.25, "uncut": 1}),
        ("again", [before["command"], made, "bertcli convert grown -o again"], {"source": "grown"}),
    ):
        notes = read_notes(tmp_path / name)
        assert [*notes.pop("history"), notes.pop("command")] == commands
        assert notes.pop("converted") == did
        assert notes == {key: value for key, value in before.items() if key != "command"}
        assert f"source: {did['source']}" in bertcli("show", name).out.decode()


def test_what_was_in_the_way_is_replaced_by_force_alone(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    toys.start(tmp_path / "other")
    (tmp_path / "other" / "log.jsonl").write_text("{}\n")
    (tmp_path / "other" / "mine").write_text("mine")
    refused = bertcli("convert", "model", "-o", "other")
    assert refused.status == 73
    assert refused.err == "bertcli convert: other: holds a model already (--force overwrites it)\n"
    broken = bertcli("convert", "model", "-o", "other", "--force", "--extend-vocab", "nowhere")
    assert (broken.status, broken.err) == (66, "bertcli convert: nowhere: No such file or directory\n")
    assert (tmp_path / "other" / "log.jsonl").exists()
    assert bertcli("convert", "model", "-o", "other", "--force").status == 0
    assert (tmp_path / "other" / "mine").exists()
    assert not (tmp_path / "other" / "log.jsonl").exists()
    assert bertcli("convert", "nowhere", "-o", "new").status == 66
    assert not (tmp_path / "new").exists()


def test_the_casing_can_be_given(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    toys.start(tmp_path / "model")
    told = bertcli("convert", "model", "-o", "cased", "--cased", "--no-strip-accents")
    assert told.status == 0, told.err
    config = json.loads((tmp_path / "cased" / "tokenizer_config.json").read_text())
    assert (config["do_lower_case"], config["strip_accents"]) == (False, False)
    assert bertcli("tokenize", "-v", "cased", stdin=b"Cat cat").records[0]["tokens"] == ["[UNK]", "cat"]
    (tmp_path / "new.txt").write_text("".join(f"{piece}\n" for piece in [*models.PIECES, "Cat"]))
    line = ["convert", "model", "-o", "grown", "--extend-vocab", "new.txt"]
    refused = bertcli(*line)
    assert refused.status == 65
    assert "new.txt: the piece 'Cat' would never be made with --uncased" in refused.err
    assert bertcli(*line, "--cased").status == 0
    assert bertcli("convert", "grown", "--uncased", "-o", "no").status == 65
    assert not (tmp_path / "no").exists()
