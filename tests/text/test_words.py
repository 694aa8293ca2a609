"""Numbered words: every word found where it is, and the same number for the same word, whatever their hashes."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertcli.folder import Casing
from bertcli.lines import Source
from bertcli.parallel import Pool
from bertcli.records import Document
from bertcli.stages import Stage
from bertcli.stream import Reader
from bertcli.text import words
from bertcli.text.counts import LONGEST_KEPT, WordCounter, texts
from bertcli.text.normalize import splitter, word_pattern
from bertcli.text.words import WordTable, slices

CHARACTERS = st.sampled_from(
    "abcXYZ09 \t\n\r\x00\x01\x0b.,#’—\u200f\u2028é中仿䶵\u4dff한ａ\u0301\u3000\U00020000\U0001f600"
)
TEXTS = st.lists(st.text(CHARACTERS | st.characters(exclude_categories=["Cs"]), max_size=40), max_size=6)


@settings(deadline=None, max_examples=500)
@given(st.lists(TEXTS, max_size=4), st.booleans(), st.booleans())
@example([["abcdefghijklmnop", "abcdefghijklmnopq", "a\x00", "a"]], False, True)
@example([[], [""], ["", "a", ""]], True, True)
def test_words_are_those_of_the_pattern(calls: list[list[str]], lowercase: bool, split_cjk: bool) -> None:
    ours = WordTable(lowercase=lowercase, split_cjk=split_cjk)
    pattern = word_pattern(split_cjk=split_cjk)
    for together in calls:
        found = ours.find(together)
        expected = [pattern.findall(text) for text in together]
        assert found.counts.tolist() == list(map(len, expected))
        assert [found.data[a:b].tobytes() for a, b in zip(found.starts, found.stops, strict=True)] == [
            ours.words[number] for number in found.numbers
        ]
        upper_too = [word.replace("\x00", "\x01").encode() for text in expected for word in text]
        assert [ours.words[number] for number in found.numbers] == [
            word.lower() if lowercase else word for word in upper_too
        ]
    assert len(set(ours.words)) == len(ours.words)


def test_words_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "SALTS", np.zeros(2, dtype=np.uint64))
    ours = WordTable(lowercase=False, split_cjk=True)
    text = " ".join(f"w{number}" for number in range(300))
    for _ in range(2):
        assert [ours.words[number].decode() for number in ours.find([text]).numbers] == text.split()


def test_tables_grow_and_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED", 20_000)
    ours = WordTable(lowercase=False, split_cjk=True)
    for begin in range(0, 30_000, 3000):
        text = " ".join(f"{number}{'x' * (number % 30)}" for number in range(begin, begin + 3000))
        assert [ours.words[number].decode() for number in ours.find([text, text]).numbers] == 2 * text.split()
        if begin == 3000:
            assert len(ours.words) == 6000
        assert ours.is_full == (len(ours.words) > 20_000)
        if ours.is_full:
            ours.clear()
    assert len(ours.words) < 20_000


def test_long_words_are_forgotten_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED_BYTES", 1000)
    ours = WordTable(lowercase=False, split_cjk=True)
    ours.find(["x" * 999])
    assert not ours.is_full
    ours.find(["yy"])
    assert ours.is_full
    ours.clear()
    assert not ours.is_full


# -- counts ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4), st.booleans())
def test_counts_are_those_of_the_whole_text(calls: list[list[str]], split_cjk: bool) -> None:
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer = BertNormalizer(lowercase=False, strip_accents=False, handle_chinese_chars=split_cjk)
    expected: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    counter = WordCounter(split_cjk=split_cjk)
    for together in calls:
        counted.update(counter.count([together]))
        for text in together:
            words = BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text))
            expected.update(word for word, _ in words)
    assert counted == expected


def test_an_absurd_word_is_counted_by_its_beginning() -> None:
    counts = WordCounter(split_cjk=True).count([["ab " + "x" * 5_000_000, "x" * 101, "y" * 100]])
    assert counts == {"ab": 1, "x" * LONGEST_KEPT: 1, "x" * 101: 1, "y" * 100: 1}


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch, shared: Path) -> None:
    with zstandard.open(shared / "korean" / "wikipedia.txt.zst", "rt", encoding="utf-8") as file:
        lines = [next(file) for _ in range(300)]
    whole = WordCounter(split_cjk=True).count([lines])
    monkeypatch.setattr(words, "TOGETHER", 100)
    monkeypatch.setattr(words, "AT_ONCE", 7)
    monkeypatch.setattr(words, "REMEMBERED", 50)
    counter = WordCounter(split_cjk=True)
    assert counter.count([lines[:7]]) + counter.count([lines[7:]]) == whole
    assert not counter._runs.words  # forgotten
    split, runs = splitter(Casing(lowercase=False, strip_accents=False)), word_pattern(split_cjk=True).findall
    assert whole == Counter(word for line in lines for run in runs(line) for word in split(run))


@pytest.mark.parametrize("text", ["", "ab", "ab cd  ef " * 9, "x" * 50 + "\ny\t" + "z" * 30, " " * 40])
def test_slices_are_the_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(words, "TOGETHER", 10)
    parts = list(slices(text))
    assert "".join(parts) == text
    assert [word for part in parts for word in part.split()] == text.split()
    assert all(not set(part[11:]) & set(" \t\n") for part in parts)


def test_counts_are_the_same_for_any_workers(shared: Path) -> None:
    corpus = (shared / "demo" / "demo_corpus.txt").read_bytes()
    counts: list[Counter[str]] = [Counter(), Counter()]
    for workers, counted in enumerate(counts, 1):
        stage = Stage(Document, texts, WordCounter(split_cjk=True).count)
        batches = Reader([Source(io.BytesIO(corpus), "in")], Document, text=True).batches(1 << 12)
        with Pool(workers) as pool:
            for result, _, fault in pool.ordered(stage, batches):
                assert fault is None
                counted.update(result)
    assert counts[0] == counts[1] == WordCounter(split_cjk=True).count([corpus.decode().splitlines()])


def test_the_texts_of_a_document() -> None:
    assert texts({"text": "a b"}, 0) == ["a b"]
    assert texts({"text": "x", "sentences": ["a b", ["c", "d e"], []]}, 0) == ["a b", "c", "d e"]
