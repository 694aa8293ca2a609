"""Vocabularies: the same for any order of the same text, all of it used, and whole for every loader."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from program import Result
from tokenizers import BertWordPieceTokenizer
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bertcli.errors import BadData, UsageError
from bertcli.folder import SPECIAL, Casing
from bertcli.text.counts import WordCounter
from bertcli.text.normalize import first_changed
from bertcli.text.vocab import Summary, alphabet, learn, recount, train
from bertcli.text.wordpiece import WordPiece

ALICE = "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do\n"


def test_hash_seed_and_order_of_lines_do_not_matter(shared: Path, shell: Callable[..., Result]) -> None:
    text = (shared / "demo" / "demo_corpus.txt").read_bytes()
    lines = text.splitlines(keepends=True)
    shuffled = b"".join(random.Random(1).sample(lines, len(lines)))
    runs = [
        shell(f"PYTHONHASHSEED={seed} bertcli vocab --size 1000", data)
        for seed, data in ((0, text), (1, text), (2, shuffled))
    ]
    assert [run.status for run in runs] == [0, 0, 0]
    assert runs[0].out == runs[1].out == runs[2].out
    assert len(runs[0].out.splitlines()) == 1000
    assert runs[0].out.decode().startswith("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.booleans(), st.booleans())
def test_words_are_those_of_the_peer(texts: list[str], lowercase: bool, strip: bool) -> None:
    """Words are counted with their case and accents first: nothing is lost when these go later."""
    normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strip)
    expected: Counter[str] = Counter()
    for text in texts:
        expected.update(word for word, _ in BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text)))
    cased = WordCounter(split_cjk=True).count([texts])
    assert recount(cased, Casing(lowercase, strip)) == expected


def trained(texts: Iterable[str], size: int, **options: Any) -> tuple[list[str], Summary]:
    counter = WordCounter(split_cjk=True)
    return train((counter.count([[text]]) for text in texts), size, **options)


def test_pieces_are_unique_and_stay_themselves() -> None:
    text = ALICE * 3 + "\u00c5ngstr\u00f6m \u0130stanbul \u4e2d\u6587 stra\u00dfe 3.14 ## [MASK] \U0001f600\n" * 3
    for cased in (False, True):
        pieces, summary = trained([text], 300, cased=cased)
        assert len(set(pieces)) == len(pieces) <= 300
        assert first_changed(pieces, summary.casing) is None
        assert tuple(pieces[:5]) == SPECIAL
        assert summary.unknown == 0


def test_accents_stay_where_the_text_is_korean() -> None:
    korean = "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc774\ub2e4"
    assert trained([korean], 100)[1].casing == Casing(True, False)
    assert trained([ALICE * 20 + korean], 100)[1].casing == Casing(True, True)
    assert trained([korean], 100, strip_accents=True)[1].casing == Casing(True, True)
    assert trained([ALICE], 100, cased=True)[1].casing == Casing(False, False)
    assert "##\uad6d" in trained([korean], 100)[0]


def test_the_alphabet_is_what_words_need_most() -> None:
    words = {"ab": 5, "ba": 3, "c": 9, "ad": 1}
    assert alphabet(words, 100) == ["a", "b", "c", "d", "##a", "##b", "##d"]
    assert alphabet(words, 3) == ["a", "c", "##b"]
    assert alphabet({"zyxwvut": 1}, 3) == ["##t", "##u", "##v"]
    assert alphabet(words, 100, {"a", "##b", "e"}) == ["b", "c", "d", "##a", "##d"]


def test_the_alphabet_leaves_room_for_words() -> None:
    chinese = "".join(map(chr, range(0x4E00, 0x4E00 + 900)))
    words = " ".join(2 * ["".join(letters) for letters in product("abcdefgh", repeat=4)])
    pieces, summary = trained([chinese + "\u4e00" * 9 + " " + words], 1005)
    characters = [piece for piece in pieces[5:] if len(piece.removeprefix("##")) == 1]
    assert len(pieces) == 1005
    assert len(characters) == 500
    assert "\u4e00" in pieces
    assert 0 < summary.unknown < 1


def test_the_alphabet_is_as_large_as_is_said(invoke: Callable[..., Result]) -> None:
    result = invoke("vocab", "--size", 60, "--alphabet", 20, stdin=(ALICE * 9).encode())
    pieces = result.out.decode().splitlines()[5:]
    assert [len(piece.removeprefix("##")) for piece in pieces[:21]] == [1] * 20 + [2]
    assert " 0.00% of the words" not in result.err
    large = invoke("vocab", "--size", 60, "--alphabet", 100, stdin=(ALICE * 9).encode())
    assert large.out.splitlines()[5:] != pieces
    assert " 0.00% of the words" in large.err


def test_a_small_vocabulary_keeps_its_letters() -> None:
    pieces, summary = trained([ALICE * 3], 60)
    assert summary.unknown == 0
    assert len(pieces) == 60


def test_steps_on_the_way_make_room_for_words() -> None:
    text = "tokenization " * 9 + "unrelated words " * 2
    pieces, _ = trained([text], 60)
    assert [piece for piece in pieces if len(piece.removeprefix("##")) > 1] == [
        *SPECIAL,
        "tokenization",
        "unrelated",
        "words",
    ]


def test_long_words_teach_nothing_and_are_counted() -> None:
    pieces, summary = trained([ALICE + "q" * 101 + " " + "q" * 5_000_000], 100)
    assert summary.too_long == 2
    assert "q" not in "".join(pieces)
    with pytest.raises(BadData, match="no word"):
        learn({"q" * 101: 3}, 100)


def test_accents_do_not_hide_a_long_word() -> None:
    pieces, summary = trained(["ab " + "x\u0301" * 5_000_000 + " " + "z\u0301" * 80], 100)
    assert "x" not in "".join(pieces)
    assert "z" in pieces
    assert summary.too_long == 1


def test_the_summary_counts_running_words() -> None:
    pieces, summary = trained(["aa aa aa aa ab\u4e00 " + "q" * 101], 7)
    assert pieces == [*SPECIAL, "a", "##a"]
    assert (summary.words, summary.distinct, summary.pieces, summary.too_long) == (7, 4, 7, 1)
    assert summary.pieces_a_word == (4 * 2 + 3) / 7
    assert summary.unknown == 3 / 7
    assert summary.unknown_characters == 104 / 112
    assert str(trained(["q" * 101 + " a"], 8)[1]) == (
        "2 words, 2 distinct, --uncased --strip-accents --split-cjk: 6 pieces, 1.00 pieces a word, "
        "50.00% of the words and 99.02% of the characters [UNK]; 1 word of over 100 characters skipped"
    )
    assert str(trained(["a"], 8)[1]).startswith("1 word, 1 distinct, ")


def test_old_pieces_stay_as_they_are() -> None:
    old = WordPiece(["[UNK]", "", "a", "[MASK]", "[CLS]", "a", "[SEP]", "[unused7]", "[PAD]", "b"], Casing(True, True))
    pieces, summary = trained(["A abba \u00e9"], 15, old=old, min_count=1)
    assert pieces == [*old.pieces, "e", "##a", "##b", "abba"]
    assert summary.casing == old.casing
    assert summary.unknown == 0
    with pytest.raises(UsageError, match=r"--size 10 .* 10 to begin with"):
        trained(iter(()), 10, old=old)
    with pytest.raises(BadData, match="no word"):
        trained([" "], 11, old=old)


# -- the command ---------------------------------------------------------------------------------------------


def test_every_loader_takes_it(shell: Callable[..., Result], shared: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    with zstandard.open(shared / "korean" / "wikipedia.txt.zst", "rb") as file:
        korean = file.read(300_000).rsplit(b"\n", 1)[0]
    text = (shared / "demo" / "demo_corpus.txt").read_bytes() + korean
    result = shell("tee corpus.txt | bertcli vocab --size 2000 > vocab.txt", text)
    assert (result.status, result.out) == (0, b"")
    assert "--no-strip-accents" in result.err
    assert "2000 pieces" in result.err
    options = {"strip_accents": False}
    peer = BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=True, **options)
    assert peer.get_vocab_size() == 2000
    theirs = transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"), do_lower_case=True, **options)
    sample = text.decode().splitlines()[:: len(text) // 20_000]
    ours = shell("bertcli tokenize", "\n".join(sample).encode())
    assert "--uncased --no-strip-accents --split-cjk (inferred" in ours.err
    for record in ours.records:
        assert record["ids"] == peer.encode(record["text"], add_special_tokens=False).ids
        assert record["ids"] == theirs(record["text"], add_special_tokens=False)["input_ids"]


def test_google_s_layout(shell: Callable[..., Result], shared: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    corpus = shared / "demo" / "demo_corpus.txt"
    assert shell(f"bertcli vocab {corpus} --size 1000 --special google > vocab.txt").status == 0
    pieces = (tmp_path / "vocab.txt").read_text().splitlines()
    google = (shared / "vocab" / "bert-base-uncased-vocab.txt").read_text().splitlines()
    assert pieces[:104] == google[:104]
    assert len(set(pieces)) == len(pieces) == 1000
    for kind in (transformers.BertTokenizer, transformers.BertTokenizerFast):
        theirs = kind(str(tmp_path / "vocab.txt"))
        special = [theirs.pad_token, theirs.unk_token, theirs.cls_token, theirs.sep_token, theirs.mask_token]
        assert theirs.convert_tokens_to_ids(special) == [0, 100, 101, 102, 103]
        assert theirs("said the [MASK]")["input_ids"] == [101, pieces.index("said"), pieces.index("the"), 103, 102]
    assert shell("echo said the | bertcli tokenize").records[0]["tokens"] == ["said", "the"]


def test_an_extension_fits_its_domain(shell: Callable[..., Result], shared: Path, tmp_path: Path) -> None:
    old = shared / "vocab" / "bert-base-uncased-vocab.txt"
    before = old.read_bytes()
    with zstandard.open(shared / "corpus" / "modern.txt.zst", "rb") as file:
        (tmp_path / "domain.txt").write_bytes(file.read(2_000_000).rsplit(b"\n", 1)[0])
    result = shell(f"bertcli vocab domain.txt --extend {old} --size 31000 > vocab.txt")
    assert "bert-base-uncased-vocab.txt: --uncased --strip-accents --split-cjk (inferred" in result.err
    assert (tmp_path / "vocab.txt").read_bytes().startswith(before)
    pieces = (tmp_path / "vocab.txt").read_text().splitlines()
    added = pieces[len(before.splitlines()) :]
    assert len(added) == 31000 - 30522

    def used(vocabulary: Path) -> Counter[int]:
        lines = (tmp_path / "domain.txt").read_text().splitlines()
        encodings = BertWordPieceTokenizer(str(vocabulary)).encode_batch(lines, add_special_tokens=False)
        return Counter(index for encoding in encodings for index in encoding.ids)

    ours, theirs = used(tmp_path / "vocab.txt"), used(old)
    assert all(ours[pieces.index(piece)] >= 2 for piece in added if len(piece.removeprefix("##")) > 1)
    assert ours.total() < 0.99 * theirs.total()
    assert ours[100] <= theirs[100]


def test_an_extension_keeps_to_the_old_casing(invoke: Callable[..., Result], tmp_path: Path) -> None:
    old = [*SPECIAL, "a", "b", "##a", "##b", "caf\u00e9", "[unused0]"]
    (tmp_path / "old.txt").write_text("\n".join(old) + "\n")
    extended = invoke("vocab", "--extend", "old.txt", "--size", 20, stdin="ABBA Caf\u00e9s ABBA".encode())
    assert "old.txt: --uncased --no-strip-accents" in extended.err
    letters = ["c", "f", "s", "é", "##f", "##s", "##é"]  # which it has in longer pieces at most
    assert extended.out.decode().splitlines() == [*old, *letters, "abba"]
    cased = invoke("vocab", "--extend", "old.txt", "--size", 20, "--cased", stdin=b"ABBA ABBA")
    assert cased.out.decode().splitlines() == [*old, "A", "B", "##A", "##B", "ABBA"]
    changed = invoke("vocab", "--extend", "old.txt", "--size", 20, "--strip-accents", stdin=b"ABBA")
    assert (changed.status, changed.out) == (65, b"")
    assert "old.txt: the piece 'caf\u00e9' would never be made" in changed.err
    (tmp_path / "chinese.txt").write_text("\n".join([*old, "\u4e2d\u6587"]))
    whole = invoke("vocab", "--extend", "chinese.txt", "--size", 20, stdin="\u4e2d\u6587\u4e2d ".encode() * 2)
    added = whole.out.decode().splitlines()[len(old) + 1 :]
    assert (added[:2], added[-1]) == (["\u4e2d", "\u6587"], "\u4e2d\u6587\u4e2d")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\r\n".join(old))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    told = invoke("vocab", "--extend", "folder", "--size", 20, stdin=b"ABBA ABBA")
    assert "vocab.txt: --cased --no-strip-accents --split-cjk (tokenizer_config.json)" in told.err
    assert told.out == cased.out


def test_hangul_taken_apart_is_told(invoke: Callable[..., Result]) -> None:
    korean = "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc774\ub2e4".encode()
    assert "warning: Hangul syllables are taken apart" in invoke("vocab", "--strip-accents", "-q", stdin=korean).err
    assert "taken apart" not in invoke("vocab", stdin=korean).err


def test_text_and_documents_give_the_same(invoke: Callable[..., Result]) -> None:
    from_text = invoke("vocab", "--size", 60, stdin=(ALICE * 3).encode())
    words = ALICE.split()
    documents = [{"text": ALICE}, {"sentences": [ALICE]}, {"id": 1, "sentences": [words[:5], " ".join(words[5:])]}]
    stdin = "".join(json.dumps(document) + "\n" for document in documents).encode()
    assert invoke("vocab", "--size", 60, stdin=stdin).out == from_text.out
    assert "66 words" in from_text.err
    assert invoke("vocab", "--text", "--size", 60, stdin=stdin).out != from_text.out


def test_errors(invoke: Callable[..., Result]) -> None:
    assert invoke("vocab").status == 65
    assert invoke("vocab", stdin=b" \n\n\x0b\n").status == 65
    result = invoke("vocab", stdin=b"good\nbad \xff\n")
    assert (result.status, result.out) == (65, b"")
    assert "<stdin>:2: not UTF-8: byte 0xff at offset 4" in result.err
    result = invoke("vocab", "--on-error", "skip", stdin=b"good\nbad \xff\n")
    assert result.status == 0
    assert "bad lines skipped: 1" in result.err
    assert invoke("vocab", "--size", 3, stdin=b"a").status == 2
    assert invoke("vocab", "none.txt").status == 66


def test_wrong_options_are_told_before_the_text_is_read(invoke: Callable[..., Result], tmp_path: Path) -> None:
    def error(*options: object) -> str:
        result = invoke("vocab", *options, stdin=b"bad \xff\n")
        assert (result.status, result.out) == (2, b"")
        return result.err

    (tmp_path / "old.txt").write_text("\n".join([*SPECIAL, "a", "##a"]))
    assert "--size 104 counts all pieces, and there are 104 to begin with" in error(
        "--special", "google", "--size", 104
    )
    assert "--size 7 counts all pieces, and there are 7 to begin with" in error("--extend", "old.txt", "--size", 7)
    assert "--special and --extend" in error("--extend", "old.txt", "--special", "first")
    assert "min-count" in error("--min-count", 0)
    assert invoke("vocab", "--extend", "none.txt").status == 66
    (tmp_path / "none.txt").write_text("a\n")
    lacking = invoke("vocab", "--extend", "none.txt", stdin=b"a")
    assert (lacking.status, lacking.out) == (65, b"")
    assert "none.txt: a vocabulary without [PAD]" in lacking.err
