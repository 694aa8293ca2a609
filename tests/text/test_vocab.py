"""Vocabularies: the same for any order of the same text, and whole for every loader."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result
from tokenizers import BertWordPieceTokenizer

from bertcli.errors import BadData
from bertcli.folder import SPECIAL, Casing
from bertcli.text import vocab
from bertcli.text.normalize import first_changed
from bertcli.text.vocab import alphabet, count_words, learn, train

ALICE = "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do\n"
WORD_COUNTS = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 20), min_size=1, max_size=12)


def slow_learn(words: Mapping[str, int], size: int) -> list[str]:
    """The definition: count all pairs anew for every merge."""
    pieces = [*SPECIAL, *alphabet(words, size - len(SPECIAL))]
    cut = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in words}
    cut = {word: symbols for word, symbols in cut.items() if set(symbols) <= set(pieces)}
    while len(pieces) < size:
        counts: Counter[tuple[str, str]] = Counter()
        for word, symbols in cut.items():
            for pair in pairwise(symbols):
                counts[pair] += words[word]
        if not counts or max(counts.values()) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merged = best[0] + best[1].removeprefix("##")
        for symbols in cut.values():
            place = 0
            while place < len(symbols) - 1:
                if (symbols[place], symbols[place + 1]) == best:
                    symbols[place : place + 2] = [merged]
                place += 1
        if merged not in pieces:
            pieces.append(merged)
    return pieces


@settings(max_examples=300)
@given(WORD_COUNTS, st.integers(12, 60))
def test_merges_are_those_of_the_definition(words: dict[str, int], size: int) -> None:
    assert learn(words, size) == slow_learn(words, size)


@given(WORD_COUNTS, st.integers(12, 60), st.randoms(use_true_random=False))
def test_order_does_not_matter(words: dict[str, int], size: int, rng: random.Random) -> None:
    shuffled = dict(rng.sample(sorted(words.items()), len(words)))
    assert learn(shuffled, size) == learn(words, size)


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


def test_folding_chunks_into_words_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [ALICE, "Caf\u00e9\tna\u00efve\nALICE's \u4e2d\u6587 \u2260 a\u0301", *ALICE.split()]
    whole = count_words(texts, Casing(True, True))
    monkeypatch.setattr(vocab, "DISTINCT_CHUNKS", 2)
    assert count_words(texts, Casing(True, True)) == whole


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.booleans(), st.booleans())
def test_words_are_those_of_the_peer(texts: list[str], lowercase: bool, strip: bool) -> None:
    """Words are counted with their case and accents first: nothing is lost when these go later."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer = BertNormalizer(lowercase=lowercase, strip_accents=strip)
    expected: Counter[str] = Counter()
    for text in texts:
        expected.update(word for word, _ in BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text)))
    cased = count_words(texts, Casing(False, False))
    assert vocab.recount(cased, Casing(lowercase, strip)) == expected


def test_pieces_are_unique_and_stay_themselves() -> None:
    text = ALICE * 3 + "\u00c5ngstr\u00f6m \u0130stanbul \u4e2d\u6587 stra\u00dfe 3.14 ## [MASK] \U0001f600\n" * 3
    for cased in (False, True):
        pieces, summary = train([text], 300, cased=cased)
        assert len(set(pieces)) == len(pieces) <= 300
        assert first_changed(pieces, summary.casing) is None
        assert tuple(pieces[:5]) == SPECIAL
        assert summary.unknown == 0


def test_accents_stay_where_the_text_is_korean() -> None:
    korean = "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc774\ub2e4"
    assert train([korean], 100)[1].casing == Casing(True, False)
    assert train([ALICE * 20 + korean], 100)[1].casing == Casing(True, True)
    assert train([korean], 100, strip_accents=True)[1].casing == Casing(True, True)
    assert train([ALICE], 100, cased=True)[1].casing == Casing(False, False)
    assert "##\uad6d" in train([korean], 100)[0]


def test_the_alphabet_leaves_room_for_words() -> None:
    chinese = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))
    words = " ".join(2 * ["".join(letters) for letters in product("abcdefgh", repeat=3)])
    pieces, summary = train([chinese + "\u4e00" * 9 + " " + words], 505)
    characters = [piece for piece in pieces[5:] if len(piece.removeprefix("##")) == 1]
    assert len(pieces) == 505
    assert len(characters) == 250
    assert "\u4e00" in pieces
    assert 0 < summary.unknown < 1


def test_a_small_vocabulary_keeps_its_letters() -> None:
    pieces, summary = train([ALICE * 3], 60)
    assert summary.unknown == 0
    assert len(pieces) == 60


def test_long_words_teach_nothing_and_are_counted() -> None:
    pieces, summary = train([ALICE + "q" * 101 + " " + "q" * 5_000_000], 100)
    assert summary.too_long == 2
    assert "q" not in "".join(pieces)
    with pytest.raises(BadData, match="no word"):
        learn({"q" * 101: 3}, 100)


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
