"""The model folder without its tensors: vocabulary, casing, tokenizer files."""

from __future__ import annotations

import json
from pathlib import Path

import models
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcli.errors import BadData, NoInput
from bertcli.folder import (
    SPECIAL,
    Casing,
    read_casing,
    read_json,
    read_max_length,
    read_notes,
    read_vocabulary,
    vocabulary_file,
    write_json,
    write_tokenizer,
)
from bertcli.text.wordpiece import WordPiece

CASED = [*models.PIECES, "The", "Rome", "É", "ä", "café", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "中", "##中", "문"]
CASINGS = {
    "uncased": (models.PIECES, Casing(lowercase=True, strip_accents=True)),
    "cased": (CASED, Casing(lowercase=False, strip_accents=False)),
    "uncased with accents": ([*models.PIECES, "é", "ä", "café"], Casing(lowercase=True, strip_accents=False)),
    "cased without CJK": (CASED, Casing(lowercase=False, strip_accents=False, split_cjk=False)),
}
TEXTS = [
    "the Tree of Rome",
    "Café, naïve É ä Äußerst",
    "中文字 a中b 문장 é",
    "tabs\tand\nlines\r\nand\u00a0spaces\u200b\ufffd\x00!",
    "x" * 101 + " y" * 3,
    "",
    "the [MASK] is [SEP] text, [CLS]",
]


@pytest.mark.parametrize(("pieces", "casing"), CASINGS.values(), ids=CASINGS)
def test_transformers_makes_the_same_ids_of_our_folder(tmp_path: Path, pieces: list[str], casing: Casing) -> None:
    write_tokenizer(tmp_path, pieces, casing, 32)
    write_json(tmp_path / "config.json", {"model_type": "bert"})
    theirs = models.transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 32
    assert (theirs.pad_token_id, theirs.mask_token_id) == (0, 4)
    ours = WordPiece(pieces, casing)
    opened, origin = WordPiece.open(vocabulary_file(tmp_path))
    assert (opened.casing, opened.pieces, origin) == (casing, pieces, "tokenizer_config.json")
    for text in TEXTS[:-1]:
        ids = ours.text_ids(text)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids
        assert theirs(text)["input_ids"] == [2, *ids, 3]
        both = theirs(text, TEXTS[0])
        assert both["input_ids"] == [2, *ids, 3, *ours.text_ids(TEXTS[0]), 3]
        assert both["token_type_ids"] == [0] * (len(ids) + 2) + [1] * (len(ours.text_ids(TEXTS[0])) + 1)
    special = ours.encode("the [MASK] is", mask_is_special=True).ids
    assert theirs("the [MASK] is", add_special_tokens=False)["input_ids"] == special


def test_the_tokenizer_file_alone_makes_the_same_of_a_pair(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, models.PIECES, models.UNCASED, 32)
    encoding = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("the dog", "a Tree, [MASK]")
    assert encoding.tokens == ["[CLS]", "the", "dog", "[SEP]", "a", "tree", ",", "[MASK]", "[SEP]"]
    assert encoding.type_ids == [0] * 4 + [1] * 5


@given(st.sampled_from(sorted(CASINGS)), st.text(max_size=40))
def test_ids_are_the_same_for_any_text(name: str, text: str) -> None:
    pieces, casing = CASINGS[name]
    if not any(token in text for token in SPECIAL):  # which are text here
        theirs = models.tokenizer(tuple(pieces), casing)(text, add_special_tokens=False)["input_ids"]
        assert theirs == WordPiece(pieces, casing).text_ids(text)


@pytest.mark.parametrize(("pieces", "casing"), CASINGS.values(), ids=CASINGS)
def test_a_tokenizer_of_todays_transformers_is_read(tmp_path: Path, pieces: list[str], casing: Casing) -> None:
    write_tokenizer(tmp_path, pieces, casing, 32)
    theirs = models.transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path / "again")
    assert not (tmp_path / "again" / "vocab.txt").exists()
    opened, _ = WordPiece.open(vocabulary_file(tmp_path / "again"))
    assert (opened.pieces, opened.casing) == (pieces, casing)
    assert read_max_length(tmp_path / "again") == 32


def test_a_real_folder() -> None:
    path = models.minilm()
    assert len(read_vocabulary(vocabulary_file(path))) == 30522
    assert read_casing(path) == Casing(lowercase=True, strip_accents=True)
    assert read_notes(path) == {}


# -- vocabularies ---------------------------------------------------------------------------------------------------


def test_an_id_is_a_line_number_whatever_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(
        "\ufeff".encode() + "".join(f"{piece}\r\n" for piece in [*SPECIAL, "", "a", "a", "\u2028", "b"]).encode()
    )
    assert read_vocabulary(path) == [*SPECIAL, "", "a", "a", "\u2028", "b"]
    write_tokenizer(tmp_path, read_vocabulary(path), models.UNCASED, 32)
    assert path.read_bytes() == "".join(f"{piece}\n" for piece in [*SPECIAL, "", "a", "a", "\u2028", "b"]).encode()


def test_a_faulty_vocabulary_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(NoInput, match=r"vocab.txt: No such file"):
        read_vocabulary(path)
    path.write_text("[PAD]\n[UNK]\n[CLS]\na\n")
    with pytest.raises(BadData, match=r"vocab.txt: a vocabulary without \[SEP\] \[MASK\]"):
        read_vocabulary(path)
    path.write_bytes("\n".join(SPECIAL).encode() + b"\nab\xff\n")
    with pytest.raises(BadData, match=r"vocab.txt:6: not UTF-8 at offset 2"):
        read_vocabulary(path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {}}}))
    with pytest.raises(BadData, match=r"tokenizer.json: field 'model': found an object, expected a WordPiece model"):
        read_vocabulary(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(BadData, match=r"tokenizer.json: not JSON"):
        read_vocabulary(tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(BadData, match=r"config.json: found an empty list, expected a JSON object"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("config", "casing"),
    [
        ({"do_lower_case": True}, Casing(True, True)),
        ({"do_lower_case": False}, Casing(False, False)),
        ({"do_lower_case": True, "strip_accents": None}, Casing(True, True)),
        ({"do_lower_case": True, "strip_accents": False}, Casing(True, False)),
        ({"do_lower_case": False, "strip_accents": True}, Casing(False, True)),
        ({"do_lower_case": True, "tokenize_chinese_chars": False}, Casing(True, True, split_cjk=False)),
        ({"model_max_length": 9}, None),
    ],
)
def test_casing_is_read_as_transformers_reads_it(
    tmp_path: Path, config: dict[str, object], casing: Casing | None
) -> None:
    assert read_casing(tmp_path) is None
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert read_casing(tmp_path) == casing


def test_a_length_without_meaning_is_none(tmp_path: Path) -> None:
    assert read_max_length(tmp_path) is None
    for written, read in ((512, 512), (10**30, None), (None, None), ("512", None), (2, None)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": written}))
        assert read_max_length(tmp_path) == read
