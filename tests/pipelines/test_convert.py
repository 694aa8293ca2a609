"""Folders of other programs to ours, and vocabularies that grew: what was there answers as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import toys
from program import Result, decompressed
from warm import Program

from bertcli.folder import read_notes

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


def vectors(program: Program, folder: Path, name: str, text: str) -> list[dict[str, Any]]:
    form = ["--layers", "0,-1", "--vectors", "list", "--dtype", "float32", "--plain"]
    result = program.run(["embed", "-m", name, "--device", "cpu", *form], folder, text.encode())
    assert result.status == 0, result.err
    return [json.loads(each) for each in result.out.splitlines()]


def bare() -> Any:
    config = models.theirs("BertModel", vocab_size=len(models.PIECES) + 7).config
    return models.transformers.BertModel(config, add_pooling_layer=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_texts_without_a_new_piece_have_the_same_vectors(program: Program, tmp_path: Path, dtype: torch.dtype) -> None:
    """Of BERT alone, without a pooler, in any float type and in shards, its table filled up with idle rows."""
    models.save(bare().to(dtype), tmp_path / "model", max_shard_size="20KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    result = grow(program, tmp_path)
    assert result.err.splitlines()[0] == "model: 7 rows beyond its 92 pieces left out"
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
