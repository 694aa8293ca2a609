"""WordPiece: the same ids and offsets as `tokenizers`, for any string and on real text in three scripts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from program import Result
from tokenizers import BertWordPieceTokenizer

from bertcli.errors import BadData
from bertcli.folder import SPECIAL, Casing
from bertcli.stream import loads
from bertcli.text import wordpiece as module
from bertcli.text import words
from bertcli.text.batch import BatchEncoder, Encodings, PieceCounts, Tokenizing
from bertcli.text.wordpiece import WordPiece

# White space, control, format and unassigned characters, accents in every form, jamo, odd cases, private use.
HOSTILE = (
    " \t\n\r\x00\x0b\x0c\x1c\x1f\x7f\x85\xa0\xad\u00df\u0130\u0131\u0149\u01c5\u0301\u0308\u0323\u0345\u037e"
    "\u03a3\u03c2\u0587\u0600\u0660\u06dd\u094d\u0e33\u1100\u1161\u11a8\u1680\u180e\u1e9e\u1fef\u2000\u200b"
    "\u200d\u2014\u2019\u2028\u2029\u202e\u202f\u2060\u2126\u212b\u2260\u3000\u3002\u3042\u3164\u4e2d\u6587"
    "\uac00\ud7a3\ue000\uf900\ufb01\ufdfa\ufe0f\ufeff\uff21\ufffd\uffff\U0001d400\U0001f468\U000200ff\U000e0001"
)
ASCII = "".join(map(chr, range(128)))
ANY = st.characters(exclude_categories=["Cs"])
TEXT = st.text(st.one_of(st.sampled_from(HOSTILE), st.sampled_from(ASCII), st.sampled_from("abéAB #[]"), ANY))
CASINGS = [
    Casing(True, True),
    Casing(True, False),
    Casing(False, True),
    Casing(False, False),
    Casing(True, True, False),
]
WORDS = "abc ab abab ABC un able was new mask 12 中文 ÅÅ ##ab ##bc ##abab ##able ##s ##ed ##éa ##中文 ##34 ##12"
PIECES = [
    *SPECIAL,
    *(f"{prefix}{character}" for prefix in ("", "##") for character in ASCII[33:127] + HOSTILE[10:] + "éÉñ"),
    *WORDS.split(),
]


@cache
def both(casing: Casing) -> tuple[WordPiece, Any]:
    pieces = list(dict.fromkeys(PIECES))
    ids = {piece: index for index, piece in enumerate(pieces)}
    peer = BertWordPieceTokenizer(
        ids,
        lowercase=casing.lowercase,
        strip_accents=casing.strip_accents,
        handle_chinese_chars=casing.split_cjk,
    )
    return WordPiece(pieces, casing), peer


def without_added_tokens(text: str) -> bool:
    """The peer takes special tokens written in a text for the tokens themselves; we take them for text."""
    return not any(token in text for token in SPECIAL)


@pytest.mark.parametrize("casing", CASINGS, ids=str)
@settings(deadline=None, max_examples=2000)
@given(text=TEXT)
@example(text="a" * 101 + " " + "b" * 100)
@example(text="İstanbul café CAFÉ naïve ﬁ ǅ ΑΣ")
@example(text="a\x00b c\u200dd e\x0bf g\x1ch i\x85j")
@example(text="中文abc文 가각 한국어")
@example(text="a  b\t\tc\r\n\r\nd ")
@example(text="!\u0301 \u0301a \u0308\u0301")
def test_ids_and_offsets_are_the_peers(casing: Casing, text: str) -> None:
    if not without_added_tokens(text):
        return
    ours, peer = both(casing)
    expected = peer.encode(text, add_special_tokens=False)
    encoding = ours.encode(text)
    assert (encoding.ids, encoding.offsets) == (expected.ids, expected.offsets)
    assert ours.text_ids(text) == expected.ids


def spans(encodings: Encodings) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """The ids and offsets of each text, as one by one."""
    ids, offsets, bounds = (
        encodings.ids.tolist(),
        list(map(tuple, encodings.offsets.tolist())),
        encodings.bounds.tolist(),
    )
    return [(ids[start:end], offsets[start:end]) for start, end in pairwise(bounds)]


@pytest.mark.parametrize("casing", CASINGS, ids=str)
@settings(deadline=None, max_examples=300)
@given(texts=st.lists(TEXT, max_size=8))
@example(texts=["", "\x00", " ", "a\x00", "a", "abcdefghijklmnop", "abcdefghijklmnopq", "abcdefghijklmnop\x00", ""])
@example(texts=["中文字", "中a\u0301文", "仿龥鿿", "䶵㐀", "\u4dff\u5000", "é中"])
def test_many_at_once_are_as_one_by_one(casing: Casing, texts: list[str]) -> None:
    ours, _ = both(casing)
    assert spans(BatchEncoder(ours).encode(texts)) == [tuple(ours.encode(text)) for text in texts]


@settings(deadline=None)
@given(words=st.lists(st.text(st.sampled_from("aAé\u0301中!#\x00 12\u200b"), max_size=60)))
def test_long_words_and_spaces_in_words(words: list[str]) -> None:
    ours, peer = both(Casing(True, True))
    encoded = ours.encode_words(words)
    assert len(encoded) == len(words)
    for word, ids in zip(words, encoded, strict=True):
        assert ids == (peer.encode(word, add_special_tokens=False).ids or [ours.unk])


def lines(path: Path, count: int) -> list[str]:
    with zstandard.open(path, "rb") as file, io.TextIOWrapper(file, "utf-8") as text:
        return [line.rstrip("\n") for line in islice(text, count)]


@pytest.mark.parametrize(
    ("vocabulary", "casing"),
    [
        ("bert-base-uncased", Casing(True, True)),
        ("bert-base-cased", Casing(False, False)),
        ("bert-base-multilingual-cased", Casing(False, False)),
    ],
)
def test_real_text_with_googles_vocabularies(shared: Path, vocabulary: str, casing: Casing) -> None:
    path = shared / "vocab" / f"{vocabulary}-vocab.txt"
    ours, origin = WordPiece.open(path)
    assert (ours.casing, origin) == (casing, "inferred from its pieces")
    peer = BertWordPieceTokenizer(str(path), lowercase=casing.lowercase, strip_accents=casing.strip_accents)
    texts = lines(shared / "corpus" / "modern.txt.zst", 4000) + lines(shared / "korean" / "wikipedia.txt.zst", 700)
    squad = json.loads(zstandard.open(shared / "squad" / "xquad.zh.json.zst", "rb").read())
    texts += [paragraph["context"] for article in squad["data"] for paragraph in article["paragraphs"]]
    together = spans(BatchEncoder(ours).encode(texts))
    encoded = zip(texts, together, peer.encode_batch(texts, add_special_tokens=False), strict=True)
    for text, ours_of_many, expected in encoded:
        assert ours.encode(text) == ours_of_many == (expected.ids, expected.offsets), text
        assert ours.text_ids(text) == expected.ids, text


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    monkeypatch.setattr(words, "REMEMBERED", 3)
    ours, whole = WordPiece(list(dict.fromkeys(PIECES)), Casing(True, True)), both(Casing(True, True))[0]
    encoder, text = BatchEncoder(ours), "ab abc café un!able ab 中文 abab cab bac b"
    for _ in range(2):
        assert ours.text_ids(text) == ours.encode(text).ids == whole.text_ids(text)
        assert [encoder.encode([part]).ids.tolist() for part in text.split()] == list(map(whole.text_ids, text.split()))
    assert len(ours._memory) <= 3
    ours.text_ids("a" * 65)
    assert "a" * 65 not in ours._memory
    assert len(encoder._words.words) <= 3 + 3


def test_special_tokens_in_a_text_are_text_but_for_mask_when_asked() -> None:
    ours, _ = both(Casing(True, True))
    assert [ours.pieces[index] for index in ours.text_ids("[SEP] [MASK]")][:2] == ["[", "s"]
    text = "ab [MASK][MASK]ab[mask] [CLS]"
    encoding = ours.encode(text, mask_is_special=True)
    assert encoding.ids.count(ours.mask) == 2
    assert ours.cls not in encoding.ids
    spans = [span for index, span in zip(encoding.ids, encoding.offsets, strict=True) if index == ours.mask]
    assert [text[start:end] for start, end in spans] == ["[MASK]", "[MASK]"]
    plain = ours.encode(text.replace("[MASK]", "      "))
    assert [span for span in encoding.offsets if span not in spans] == plain.offsets


# -- vocabularies and their casing ---------------------------------------------------------------------------


@pytest.fixture
def vocabulary(tmp_path: Path) -> Callable[..., Path]:
    def write(*pieces: str) -> Path:
        path = tmp_path / "vocab.txt"
        path.write_text("".join(f"{piece}\n" for piece in (*SPECIAL, *pieces)))
        return path

    return write


@pytest.mark.parametrize(
    ("pieces", "casing"),
    [
        (["a", "##b", "[unused1]"], Casing(True, True)),
        (["a", "é"], Casing(True, False)),
        (["a", "가"], Casing(True, False)),
        (["A", "b"], Casing(False, True)),
        (["A", "##é"], Casing(False, False)),
        (["a", "中文"], Casing(True, True, False)),
        (["a", "中"], Casing(True, True)),
        (["a", "[URL]", "[É]"], Casing(True, True)),
        (["a", "[U"], Casing(False, True)),
    ],
)
def test_casing_is_inferred_as_strict_as_the_pieces_allow(
    vocabulary: Callable[..., Path], pieces: list[str], casing: Casing
) -> None:
    assert WordPiece.open(vocabulary(*pieces))[0].casing == casing


def test_casing_comes_from_the_folder_and_options_go_before(vocabulary: Callable[..., Path]) -> None:
    path = vocabulary("a", "b")
    (path.parent / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": null}')
    ours, origin = WordPiece.open(path)
    assert (ours.casing, origin) == (Casing(False, False), "tokenizer_config.json")
    ours, origin = WordPiece.open(path, cased=False, strip_accents=True)
    assert (ours.casing, origin) == (Casing(True, True), "given, the rest tokenizer_config.json")
    assert WordPiece.open(path, split_cjk=False)[0].casing == Casing(False, False, False)


@pytest.mark.parametrize("with_config", [False, True])
def test_an_option_that_would_change_a_piece_names_it(vocabulary: Callable[..., Path], with_config: bool) -> None:
    path = vocabulary("a", "##Bc")
    if with_config:
        (path.parent / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(BadData, match=r"vocab.txt: the piece '##Bc' would never be made with --uncased: "):
        WordPiece.open(path, cased=False)


def test_a_vocabulary_of_special_tokens_alone_makes_all_unknown(vocabulary: Callable[..., Path]) -> None:
    ours, _ = WordPiece.open(vocabulary("[unused1]"))
    assert ours.text_ids("a b!") == [ours.unk] * 3


def test_a_piece_that_the_vocabulary_lacks_is_named() -> None:
    ours, _ = both(Casing(True, True))
    assert ours.ids_of(["[CLS]", "ab", "##s"]) == [ours.cls, ours.ids["ab"], ours.ids["##s"]]
    with pytest.raises(BadData, match="field 'tokens': found 'nowhere'"):
        ours.ids_of(["ab", "nowhere"])


# -- the command ---------------------------------------------------------------------------------------------


def test_tokenize_records_of_words_and_text() -> None:
    ours, _ = both(Casing(True, True))
    given = [
        {"id": 7, "words": ["un", "\u200b", "abcs  ab", "", "é" * 101], "extra": [1]},
        {"text": "ab", "word_ids": [9, 9]},
        {"words": []},
    ]
    tokenizing = Tokenizing(ours)
    lines, counts = tokenizing.batch([tokenizing.checked(record, 0) for record in given])
    words, text, empty = map(loads, lines.splitlines())
    assert counts == PieceCounts(records=3, pieces=8, unknown=3)
    assert list(words) == ["id", "words", "extra", "tokens", "ids", "offsets", "word_ids"]
    assert words["tokens"] == ["un", "[UNK]", "abc", "##s", "ab", "[UNK]", "[UNK]"]
    assert words["ids"] == ours.ids_of(words["tokens"])
    assert words["word_ids"] == [0, 1, 2, 2, 2, 3, 4]
    assert words["offsets"] == [[0, 2], [0, 1], [0, 3], [3, 4], [6, 8], [0, 0], [0, 101]]
    assert text == {"text": "ab", "tokens": ["ab"], "ids": [ours.ids["ab"]], "offsets": [[0, 2]]}
    assert empty == {"words": [], "tokens": [], "ids": [], "offsets": [], "word_ids": []}
    of_field = Tokenizing(ours, "q")
    assert of_field.checked({"text": "ab", "q": "un"}, 0)[1] == "un"
    for wrong in (None, 3, ["a", 1]):
        with pytest.raises(BadData, match="field 'q'"):
            of_field.checked({"q": wrong}, 0)


def test_many_unknown_pieces_are_warned_of_even_when_quiet(
    vocabulary: Callable[..., Path], invoke: Callable[..., Result]
) -> None:
    vocabulary("a", "b", "c")
    assert "warning" not in invoke("tokenize", stdin=b"a b c\n").err
    warning = "warning: 25% of the pieces are [UNK]: are the vocabulary and its casing those of this text?\n"
    assert invoke("tokenize", "--quiet", stdin="a b c ü\n".encode()).err == warning
    assert warning in invoke("pairs", "--quiet", stdin='{"text": "a b c ü"}\n'.encode()).err


def test_tokenize_command(vocabulary: Callable[..., Path], invoke: Callable[..., Result]) -> None:
    vocabulary("a", "##b", "[", "]", "mask")
    result = invoke("tokenize", stdin="ab\n\n\u00c4  [MASK]\n".encode())
    assert (result.status, [record["tokens"] for record in result.records]) == (
        0,
        [["a", "##b"], ["a", "[", "mask", "]"]],
    )
    assert result.records[1]["offsets"] == [[0, 1], [3, 4], [4, 8], [8, 9]]
    assert "--uncased --strip-accents" in result.err
    result = invoke("tokenize", "--field", "q", stdin=b'{"q": "a", "n": 12345678901234567890123}\n{"q": 1}\n')
    assert result.status == 65
    assert "<stdin>:2: field 'q'" in result.err
    result = invoke("tokenize", "--cased", "--no-strip-accents", stdin=b"A a\n")
    assert result.records[0]["tokens"] == ["[UNK]", "a"]
    assert "(given, the rest inferred from its pieces)" in result.err
    assert invoke("tokenize", "-v", "none.txt").status == 66
