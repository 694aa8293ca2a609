"""What hostile files try beside damage: sizes that are not there, code, ways out of a folder, a terminal's commands."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz.targets import CORPUS
from program import Result

from bertcli import folder, headers, lines, stream
from bertcli.errors import BadData, NoInput, printable
from bertcli.folder import read_json, read_vocabulary
from bertcli.formats import reader
from bertcli.lines import Lines, Source
from bertcli.stream import loads
from bertcli.target import clear
from bertcli.text.sentences import by_rules
from bertcli.weights.folder import open_folder

SPECIAL = "".join(f"{token}\n" for token in folder.SPECIAL)


def model(path: Path, **config: Any) -> Path:
    """Returns a copy of the corpus's model with another config."""
    shutil.copytree(CORPUS / "model", path)
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(values | config))
    return path


# -- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("num_hidden_layers", "field 'num_hidden_layers': found 16777216, expected at most the 1 layers"),
        ("hidden_size", "its sizes are those of .* numbers, and the weights have 1"),
        ("vocab_size", "its sizes are those of"),
        ("max_position_embeddings", "its sizes are those of"),
        ("intermediate_size", "its sizes are those of"),
        ("type_vocab_size", "its sizes are those of"),
    ],
)
def test_a_config_of_sizes_that_the_weights_do_not_have(tmp_path: Path, field: str, said: str) -> None:
    path = model(tmp_path / "model", **{field: 1 << 24})
    with pytest.raises(BadData, match=rf"config.json: {said}"):
        open_folder(path)


def test_labels_without_names_are_not_made_by_the_million(tmp_path: Path) -> None:
    path = model(tmp_path / "model", num_labels=1 << 24, architectures=["BertForSequenceClassification"])
    with pytest.raises(BadData, match=r"field 'num_labels': found 16777216, expected a whole number from 1 to 65536"):
        open_folder(path)


@pytest.mark.parametrize(
    ("length", "rows", "said"),
    [
        (2**63, {}, "a header of 9223372036854775808 bytes"),
        (None, {"a": ("F32", [2], [0, 4])}, "overlap, or are not as long as their shapes tell"),
        (None, {"a": ("F32", [2], [0, 8]), "b": ("F32", [1], [4, 8])}, "overlap"),
        (None, {"a": ("F32", [2**62, 4], [0, 8])}, "overlap, or are not as long"),
        (None, {"a": ("F32", [1], [0, 4])}, "tensors of 4 bytes, and 8 are there"),
        (None, {"a": ("F32", [-2], [0, 8])}, "without a shape or a number type"),
        (None, {"a": ("F32", "2", [0, 8])}, "without a shape"),
        (None, {"a": ("F32", [2.0], [0, 8])}, "without a shape"),
        (None, {"a": ("F33", [2], [0, 8])}, "without a shape or a number type"),
        (None, {"a": (["F32"], [2], [0, 8])}, "its header is another's"),
        (None, {"a": ("F32", [2], [0, 8, 9])}, "overlap"),
    ],
)
def test_a_header_that_does_not_fit_its_file(
    tmp_path: Path, length: int | None, rows: dict[str, Any], said: str
) -> None:
    names = ("dtype", "shape", "data_offsets")
    text = json.dumps({name: dict(zip(names, row, strict=True)) for name, row in rows.items()}).encode()
    head = (len(text) if length is None else length).to_bytes(8, "little")
    (tmp_path / headers.FILE).write_bytes(head + text + bytes(8))
    with pytest.raises(BadData, match=rf"{headers.FILE}: not a whole safetensors file \(.*{said}"):
        headers.tensor_headers(tmp_path)


def test_the_header_of_the_corpus_is_what_its_file_holds() -> None:
    found = headers.tensor_headers(CORPUS / "model")
    assert found["bert.embeddings.word_embeddings.weight"].shape == (22, 8)
    assert {header.dtype for header in found.values()} == {"F32"}


def test_files_that_are_read_whole_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n" * 95)
    assert len(read_vocabulary(path)) == 100
    monkeypatch.setattr(folder, "MOST_PIECES", 99)
    with pytest.raises(BadData, match=r"vocab.txt: a vocabulary of more than 99 pieces"):
        read_vocabulary(path)
    monkeypatch.setattr(folder, "LONGEST_VOCABULARY", 200)
    with pytest.raises(BadData, match=r"vocab.txt: a file of more than 200 bytes"):
        read_vocabulary(path)
    (tmp_path / "a.json").write_text('{"a": "' + "b" * 100 + '"}')
    monkeypatch.setattr(folder, "LONGEST_JSON", 100)
    with pytest.raises(BadData, match=r"a.json: a file of more than 100 bytes"):
        read_json(tmp_path / "a.json")


def test_json_of_a_folder_is_not_nested_without_end(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a":' * 60 + "{}" + "}" * 60)
    read_json(path)
    for depth in (100, 900, 100_000):
        path.write_text('{"a":' * depth + "1" + "}" * depth)
        with pytest.raises(BadData, match=r"a.json: (objects within objects, more than 64 deep|not JSON)"):
            read_json(path)


@pytest.mark.parametrize(
    ("form", "data", "said"),
    [
        ("text", b"a\n" * 600, "f:501: a document is longer than 1000 bytes"),
        ("csv", b'text\n"' + b"a\n" * 600, r"f:501: a row \(is a quote not closed\?\) is longer than 1000 bytes"),
        ("conll", b"a O\n" * 600, "f:4: a sentence is longer than 1000 bytes"),
    ],
)
def test_lines_that_make_one_record_have_the_limit_of_a_line(
    monkeypatch: pytest.MonkeyPatch, form: str, data: bytes, said: str
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    with pytest.raises(BadData, match=f"^{said}"):
        list(reader(form)(Lines(Source(io.BytesIO(data), "f"), on_error="skip")))


@pytest.mark.parametrize(("form", "mark"), [("csv", b","), ("tsv", b"\t"), ("csv", b'"",')])
def test_columns_have_a_limit(form: str, mark: bytes) -> None:
    def read(columns: int) -> list[Any]:
        return list(reader(form)(Lines(Source(io.BytesIO(b"text\n" + mark * columns), "f"))))

    with pytest.raises(BadData, match=r"f:2: a row of more than 16384 columns"):
        read(20_000)
    with pytest.raises(BadData, match=r"f:2: found 101, expected 1 columns"):
        read(100)


def test_a_line_of_brackets_is_not_made_into_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEAVIEST", 1 << 16)
    assert len(loads(b'{"a":"' + b"[,{" * 200 + b'"}')["a"]) == 600  # signs in a text, too few to weigh
    with pytest.raises(ValueError, match="more numbers, lists and objects than are held"):
        loads(b'{"a":[' + b"[]," * 1000 + b"1]}")


# -- time -----------------------------------------------------------------------------------------------------------


def squad(text: str) -> None:
    context, answer = text * 4, {"text": f"{text}b{text}", "answer_start": len(text) * 3}
    questions = [{"id": "1", "question": "?", "answers": [answer]}]
    data = json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]}).encode()
    assert len(list(reader("squad")(Lines(Source(io.BytesIO(data), "f"))))) == 1


@pytest.mark.parametrize("unit", ["a", ".", ". ", "Dr. ", '"', "!?", "。", "A. "])
@pytest.mark.parametrize("function", [squad, by_rules])
def test_time_grows_with_size_alone(function: Callable[[str], Any], unit: str) -> None:
    text = unit * (60_000 // len(unit))
    started = time.process_time()
    function(text)
    assert time.process_time() - started < 2  # the square of it would take a minute


# -- code, and other folders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["show"], ["predict", "-m"], ["embed", "-m"], ["convert", "-o", "new"]])
def test_no_pickle_is_opened(bertcli: Callable[..., Result], tmp_path: Path, command: list[str]) -> None:
    path = model(tmp_path / "model")
    (path / headers.FILE).unlink()

    class Touch:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "made",)

    (path / "pytorch_model.bin").write_bytes(pickle.dumps(Touch()))
    result = bertcli(*command, path, stdin=b"a\n")
    told = {"convert": (65, f"{path}/pytorch_model.bin: not a pickle of tensors")}
    other = (66, f"{path}: no model.safetensors, but pytorch_model.bin: bertcli convert makes a model folder of it")
    status, said = told.get(command[0], other)
    assert (result.status, result.err) == (status, f"bertcli {command[0]}: {said}\n")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["../other.safetensors", "..", ".", "/etc/passwd", "a/b", "", "a\0b", 5, ["a"]])
def test_a_shard_is_a_file_of_the_folder(tmp_path: Path, name: Any) -> None:
    (tmp_path / headers.INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(BadData, match=r"index.json: field 'weight_map': found an object, expected names of files"):
        headers.tensor_headers(tmp_path)


def test_what_a_link_leads_to_is_not_cleared(tmp_path: Path) -> None:
    """A folder to be written over may have links in place of what training made."""
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "model"
    elsewhere.mkdir()
    path.mkdir()
    (elsewhere / "mine").write_text("mine")
    for name in ("steps", "checkpoint", "runs"):
        (path / name).symlink_to(elsewhere)
    for name in ("config.json", "log.jsonl"):
        (path / name).symlink_to(elsewhere / "mine")
    clear(path)
    assert os.listdir(path) == []
    assert (elsewhere / "mine").read_text() == "mine"


def test_a_config_that_is_a_folder_or_a_loop_is_named(tmp_path: Path) -> None:
    path = model(tmp_path / "model")
    (path / "config.json").unlink()
    (path / "config.json").symlink_to("config.json")
    with pytest.raises(NoInput, match=r"config.json: Too many levels of symbolic links"):
        open_folder(path)
    (path / "config.json").unlink()
    (path / "config.json").mkdir()
    with pytest.raises(NoInput, match=r"config.json: Is a directory"):
        open_folder(path)


# -- terminals ------------------------------------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_shown_as_escapes(bertcli: Callable[..., Result]) -> None:
    assert printable("a\x1b[31m\u202e\x9b\ud800é 東") == r"a\x1b[31m\u202e\x9b\ud800é 東"
    name = "no\x1b]0;title\x07\nfile"
    result = bertcli("read", "text", name)
    assert (result.status, result.err.count("\n")) == (66, 1)
    assert "\x1b" not in result.err
    assert "\\x1b" in result.err
    fields = json.dumps({"\x1b[31m": "\x1b[2J", "deep": {"\x07": 1}}).encode()
    shown = bertcli("show", stdin=fields)
    assert shown.status == 0
    assert b"\x1b" not in shown.out
    assert b"\x07" not in shown.out
