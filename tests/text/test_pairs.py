"""Pairs: Google's algorithm, and its invariants on any documents."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result, environment

from bertcli.folder import CLS, SEP, SPECIAL
from bertcli.text import pairing
from bertcli.text.pairing import CodedDocument, Pairing, PairRule
from bertcli.text.pairs import Sentences, make_pairs, pack

# Tokens are (document, sentence, place), so that each says where it comes from.
Token = tuple[int, int, int]
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def document(number: int, lengths: list[int]) -> list[list[Token]]:
    return [[(number, index, place) for place in range(length)] for index, length in enumerate(lengths)]


def joined(sentences: Iterable[Sequence[Any]]) -> Sentences[Any]:
    kept = list(filter(len, sentences))
    return Sentences(list(chain.from_iterable(kept)), list(accumulate(map(len, kept), initial=0)))


def whole(number: int, lengths: list[int]) -> Sentences[Token]:
    return joined(document(number, lengths))


def is_consecutive(tokens: Sequence[Token], document: list[Token]) -> bool:
    start = document.index(tokens[0])
    return document[start : start + len(tokens)] == tokens


@settings(max_examples=300)
@given(
    st.lists(LENGTHS, min_size=1, max_size=5),
    st.integers(2, 60),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 999),
)
def test_invariants(shape: list[list[int]], room: int, short: float, seed: int) -> None:
    documents = [document(number, lengths) for number, lengths in enumerate(shape)]
    flat = [list(chain.from_iterable(sentences)) for sentences in documents]
    ours = list(map(joined, documents))
    for number, sentences in enumerate(ours):
        last: Token | None = None
        for first, second, is_next in make_pairs(sentences, ours, room, short, random.Random(seed)):
            assert first
            assert second
            assert len(first) + len(second) <= room
            other = second[0][0]
            assert is_next == (other == number)
            assert is_consecutive(first, flat[number])
            assert is_consecutive(second, flat[other])
            if is_next:
                assert first[-1] < second[0]
            assert last is None or last < first[0]  # documents are cut in order
            last = second[-1] if is_next else first[-1]


def google_pairs(
    documents: list[list[list[Token]]], number: int, room: int, short: float, rng: Any
) -> Iterator[tuple[list[Token], list[Token], bool]]:
    """`create_instances_from_document`, retold; `rng` has `random` and `randint`."""
    target = rng.randint(2, room) if rng.random() < short else room
    chunk: list[list[Token]] = []
    index = 0
    while index < len(documents[number]):
        chunk.append(documents[number][index])
        if index == len(documents[number]) - 1 or sum(map(len, chunk)) >= target:
            end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first, second = list(chain.from_iterable(chunk[:end])), []
            is_next = not (len(chunk) == 1 or rng.random() < 0.5)
            if is_next:
                second = list(chain.from_iterable(chunk[end:]))
            else:
                wanted = target - len(first)
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != number:
                        break
                start = rng.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][start:]:
                    second.extend(sentence)
                    if len(second) >= wanted:
                        break
                index -= len(chunk) - end
            while len(first) + len(second) > room:
                longer = first if len(first) > len(second) else second
                if rng.random() < 0.5:
                    del longer[0]
                else:
                    longer.pop()
            yield first, second, is_next
            chunk = []
        index += 1


class GooglesRandom(random.Random):
    """`randint` by one call of `random`, as ours draws."""

    def randint(self, low: int, high: int) -> int:
        return low + int(self.random() * (high + 1 - low))


@settings(max_examples=300)
@given(
    st.lists(LENGTHS, min_size=3, max_size=6),
    st.integers(2, 60),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 999),
)
def test_pairs_are_googles(shape: list[list[int]], room: int, short: float, seed: int) -> None:
    documents = [document(number, lengths) for number, lengths in enumerate(shape)]
    wholes = list(map(joined, documents))
    for number, sentences in enumerate(wholes):
        ours = list(make_pairs(sentences, wholes, room, short, random.Random(seed)))
        theirs = list(google_pairs(documents, number, room, short, GooglesRandom(seed)))
        if all(is_next or second[0][0] != number for _, second, is_next in theirs):  # ten draws of A's own document
            assert ours == theirs


@settings(max_examples=200)
@given(LENGTHS, st.integers(2, 60), st.sampled_from([0.0, 1.0]), st.integers(0, 999), st.booleans())
def test_single_segments_hold_each_token_once(
    lengths: list[int], room: int, short: float, seed: int, is_copy: bool
) -> None:
    sentences = whole(0, lengths)

    def packed(seed: int) -> list[Sequence[Token]]:
        return list(pack(sentences, room, short, random.Random(seed), is_copy=is_copy))

    segments = packed(seed)
    assert list(chain.from_iterable(segments)) == sentences.tokens
    assert all(0 < len(segment) <= room for segment in segments)
    if short and sentences.borders[-1] > room:
        assert len({max(map(len, packed(seed))) for seed in range(50)}) > min(5, room // 3)
    if not short:
        for segment, following in pairwise(segments[is_copy:]):  # it ends early only where the next would not fit
            _, sentence, place = following[0]
            assert len(segment) == room or (place == 0 and len(segment) + lengths[sentence] > room)
        for segment in segments[1:]:
            _, sentence, place = segment[0]
            assert place == 0 or lengths[sentence] > room  # a sentence that fits is not cut


def test_copies_of_single_segments_are_cut_elsewhere() -> None:
    sentences = whole(0, [5] * 100)
    cuts = [list(pack(sentences, 60, 0.0, random.Random(seed), is_copy=seed > 0)) for seed in range(20)]
    assert list(map(len, cuts[0])) == [60] * 8 + [20]
    assert {len(segments[0]) for segments in cuts[1:]} >= {5, 30, 55}


def test_without_another_document_every_pair_is_next() -> None:
    sentences = whole(0, [5] * 30)
    pairs = list(make_pairs(sentences, [sentences], 20, 0.0, random.Random(1)))
    assert pairs
    assert all(is_next for *_, is_next in pairs)
    assert list(make_pairs(whole(0, [5]), [], 20, 0.0, random.Random(1))) == []


def test_a_copy_of_the_document_is_no_other_whole() -> None:
    sentences, other = whole(0, [5] * 30), whole(1, [5] * 30)
    pairs = list(make_pairs(sentences, [whole(0, [5] * 30), other], 20, 0.0, random.Random(1)))
    assert {second[0][0] for _, second, is_next in pairs if not is_next} == {1}


def test_a_giant_sentence_is_cut_around_its_middle() -> None:
    giant, other = joined([range(100_000)]), joined([range(100_000, 100_020)] * 9)
    middles = []
    for seed in range(200):
        for first, second, is_next in make_pairs(giant, [other], 61, 0.0, random.Random(seed)):
            assert (len(first) + len(second), is_next) == (61, False)
            middles.append(first[len(first) // 2] - 50_000)
    spread = statistics.pstdev(middles)
    assert 0.8 < spread / (100_000**0.5 / 2) < 1.2  # as the coins have it
    assert abs(statistics.mean(middles)) < 4 * spread / len(middles) ** 0.5


def test_a_million_tokens_have_the_statistics_that_the_algorithm_implies() -> None:
    """Against Google's algorithm with random numbers of its own, and against what can be said without any."""
    rng = random.Random(5)
    shape = [[rng.randint(5, 40) for _ in range(rng.randint(5, 45))] for _ in range(1900)]
    documents = [document(number, lengths) for number, lengths in enumerate(shape)]
    wholes = list(map(joined, documents))
    assert sum(len(sentences.tokens) for sentences in wholes) > 1_000_000
    room, short = 125, 0.1
    ours, theirs = (
        [list(pairs(number, random.Random(seed + number))) for number in range(len(shape))]
        for seed, pairs in (
            (0, lambda number, rng: make_pairs(wholes[number], wholes, room, short, rng)),
            (10_000, lambda number, rng: google_pairs(documents, number, room, short, rng)),
        )
    )

    def lengths(made: list[Any], part: Callable[[Any], int]) -> list[int]:
        return [part(pair) for pairs in made for pair in pairs]

    parts: dict[str, Callable[[Any], int]] = {
        "A": lambda pair: len(pair[0]),
        "B": lambda pair: len(pair[1]),
        "A of random pairs": lambda pair: 0 if pair[2] else len(pair[0]),
        "full": lambda pair: len(pair[0]) + len(pair[1]) == room,
        "is_next": lambda pair: pair[2],
    }
    for part in parts.values():
        mine, other = lengths(ours, part), lengths(theirs, part)
        error = math.hypot(*(statistics.pstdev(each) / len(each) ** 0.5 for each in (mine, other)))
        assert abs(statistics.mean(mine) - statistics.mean(other)) < 4 * error
    for pairs in (ours, theirs):
        # A draw of 0.5, but where a lone sentence is left; there are few in documents of 25 sentences.
        share = statistics.mean(lengths(pairs, parts["is_next"]))
        assert 0.44 < share < 0.5
        # Of true pairs before its end, only a document cut short has any that is not full; few of these fill it anyway.
        begins = [len(each[0][0]) + len(each[0][1]) for each in pairs if len(each) > 1 and each[0][2]]
        cut_short = statistics.mean(length < room for length in begins)
        assert 0.5 * short < cut_short < short + 4 * (short / len(begins)) ** 0.5
    random_ones = Counter(second[0][0] for pairs in ours for _, second, is_next in pairs if not is_next)
    expected = random_ones.total() / len(shape)
    surprise = sum((random_ones[number] - expected) ** 2 / expected for number in range(len(shape)))  # chi-square
    assert abs(surprise - len(shape)) < 4 * (2 * len(shape)) ** 0.5


def test_sentences_are_segments_of_their_tokens() -> None:
    sentences = Sentences([1, 2, 3], [0, 2, 3])
    assert len(sentences) == 2
    assert [sentences.segment(index, index + 1).tokens for index in range(2)] == [[1, 2], [3]]
    assert (sentences.until(0, 2), sentences.until(0, 3), sentences.until(0, 9)) == (1, 2, 2)
    assert len(Sentences([], [0])) == 0


# -- the command ---------------------------------------------------------------------------------------------

WORDS = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
PIECES = [*SPECIAL, *"abcdefghij.!", *(f"##{letter}" for letter in "klmnopqrst")]


def corpus(count: int, sentences: int = 20) -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [
        {"id": f"doc{number}", "text": "\n".join(" ".join(rng.choices(WORDS, k=6)) + "." for _ in range(sentences))}
        for number in range(count)
    ]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def pairs(invoke: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    return lambda records, *args: invoke("pairs", *args, stdin=lines(records))


def check_pair(record: dict[str, Any], max_length: int) -> None:
    tokens, border = record["tokens"], record["segment_b"]
    assert list(record) == ["id", "tokens", "segment_b", "is_next", "word_starts"]
    assert len(tokens) <= max_length
    assert (tokens[0], tokens[border - 1], tokens[-1]) == (CLS, SEP, SEP)
    assert tokens.count(SEP) == 2
    assert 2 < border < len(tokens) - 1
    expected = [place for place, token in enumerate(tokens) if token not in (CLS, SEP) and not token.startswith("##")]
    assert record["word_starts"] == expected


def test_records(pairs: Callable[..., Result]) -> None:
    result = pairs(corpus(60), "--max-length", 48)
    assert result.status == 0
    for record in result.records:
        check_pair(record, 48)
    ids = [record["id"] for record in result.records]
    assert len(set(ids)) == len(ids)
    assert ids[:2] == ["doc0-0", "doc0-1"]
    assert "60 documents, 20.0 sentences a document" in result.err
    assert "0 empty documents and 0 empty sentences" in result.err
    assert pairs(corpus(60), "--max-length", 48).out == result.out
    assert pairs(corpus(60), "--max-length", 48, "--seed", 1).out != result.out


def test_copies_are_cut_anew_and_ids_stay_unique(pairs: Callable[..., Result]) -> None:
    once, thrice = pairs(corpus(10)).records, pairs(corpus(10), "--copies", 3).records
    ids = [record["id"] for record in thrice]
    assert len(set(ids)) == len(ids)
    assert [record for record in thrice if record in once] == once
    assert len({json.dumps(record["tokens"]) for record in thrice}) > 2 * len(once)


def test_single(pairs: Callable[..., Result]) -> None:
    result = pairs(corpus(10), "--single", "--max-length", 30, "--short", 0)
    assert {tuple(record) for record in result.records} == {("id", "tokens", "word_starts")}
    kept = Counter(token for record in result.records for token in record["tokens"] if token not in (CLS, SEP))
    assert kept.total() == 10 * 20 * 13
    assert "segments" in result.err


def test_empty_ones_are_skipped_and_counted(pairs: Callable[..., Result]) -> None:
    documents = corpus(5)
    empty = [{"text": ""}, {"sentences": []}, {"sentences": ["\u200b", [], "Ak."]}]
    result = pairs([*documents[:2], *empty, *documents[2:]])
    assert result.status == 0
    assert "6 documents" in result.err
    assert "2 empty documents and 2 empty sentences skipped" in result.err


def test_words_keep_their_borders_and_missing_ids_are_numbers(pairs: Callable[..., Result]) -> None:
    sentences = [["ak.bl", " ", "cm", ""], ["!", "dn"]] * 3
    records = pairs([{"sentences": sentences}, {"id": {"a": 1}, "sentences": sentences[:5]}], "--short", 0).records
    assert {record["id"].rsplit("-", 1)[0] for record in records} == {"0", '{"a": 1}'}
    for record in records:
        places = [place for place, token in enumerate(record["tokens"]) if token in (*"ac!d",)]
        assert record["word_starts"] == places  # "." and "b" go on with the word "ak.bl"


def test_a_lone_document_is_all_next_and_one_sentence_documents_are_warned_of(
    pairs: Callable[..., Result],
) -> None:
    result = pairs(corpus(1, sentences=40), "--max-length", 32)
    assert result.records
    assert all(record["is_next"] for record in result.records)
    assert "lone document" in result.err
    result = pairs(corpus(30, sentences=1))
    assert not any(record["is_next"] for record in result.records)
    assert "warning: 0% of the pairs are is_next" in result.err
    assert "warning: no pair" in pairs(corpus(1, sentences=1), "--quiet").err


def test_random_segments_come_from_the_window_or_the_pool(pairs: Callable[..., Result], tmp_path: Path) -> None:
    # Each document has one word of its own.
    documents = [{"sentences": [f"{word} {word}"] * 12} for word in "abcdefghij"]
    words = list("abcdefghij")
    for record in pairs(documents, "--window", 2, "--max-length", 16).records:
        own, other = record["tokens"][1], record["tokens"][record["segment_b"]]
        assert record["is_next"] == (own == other)
        assert -2 <= words.index(other) - words.index(own) <= 1
    (tmp_path / "pool.jsonl").write_bytes(lines([*documents[:2], {"sentences": ["! !"] * 3}]))
    result = pairs(documents, "--pool", "pool.jsonl", "--max-length", 16)
    others = {record["tokens"][record["segment_b"]] for record in result.records if not record["is_next"]}
    assert others == {"a", "b", "!"}
    assert pairs(documents, "--pool", "none.jsonl").status == 66
    (tmp_path / "empty.jsonl").write_bytes(lines([{"text": " "}]))
    nothing = pairs(documents, "--pool", "empty.jsonl")
    assert (nothing.status, nothing.out) == (65, b"")
    assert "the pool has no document" in nothing.err
    for both in (
        ("--pool", "pool.jsonl", "--window", 5),
        ("--pool", "pool.jsonl", "--single"),
        ("--window", 5, "--single"),
    ):
        assert pairs(documents, *both).status == 2


def test_a_window_holds_only_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "WINDOW_TOKENS", 50)
    made = Pairing(Book(), PairRule(max_length=8, window=100), seed=1)  # type: ignore[arg-type]
    documents = [CodedDocument(str(n), str(n), joined([[n] * 2] * 5), 0, 0) for n in range(40)]
    pairs = list(made.pairs(documents))
    distances = {pair["second"][0] - pair["first"][0] for pair in pairs if not pair["is_next"]}
    assert distances == {-2, -1, 1}


def test_a_window_holds_a_thousand_documents_unless_told_otherwise() -> None:
    made = Pairing(Book(), PairRule(max_length=8), seed=1)  # type: ignore[arg-type]
    documents = [CodedDocument(str(n), str(n), joined([[n] * 2] * 5), 0, 0) for n in range(3000)]
    pairs = [pair for pair in made.pairs(documents) if not pair["is_next"]]
    distances = [pair["first"][0] - pair["second"][0] for pair in pairs]
    assert -1 <= min(distances) < 10
    assert 990 < max(distances) < 1000


def test_documents_that_repeat_are_suspected(pairs: Callable[..., Result]) -> None:
    same = [{"sentences": ["ak bl."] * 40}] * 9
    assert "100% of the pairs are is_next, not 40-60% (do the documents repeat?)" in pairs(same, "--max-length", 16).err
    few = pairs(corpus(2, sentences=6), "--max-length", 64)
    assert "warning" not in few.err  # so few pairs prove nothing


def test_unknown_words_are_counted_wherever_they_stand(pairs: Callable[..., Result]) -> None:
    sentences = [["ak \u00fc", "\u00fc"], ["ak"]]
    documents = [{"sentences": sentences}] * 4
    assert "33.33% of the pieces [UNK]" in pairs(documents).err
    assert "33.33% of the pieces [UNK]" in pairs([{"sentences": [" ".join(words) for words in sentences]}] * 4).err


def test_words_of_which_nothing_is_left_are_none(pairs: Callable[..., Result]) -> None:
    result = pairs([{"sentences": [["\u200b"], ["", "ak", " "], ["\u200b", "bl"]]}], "--single")
    assert [record["tokens"] for record in result.records] == [[CLS, "a", "##k", "b", "##l", SEP]]
    assert "1 empty sentence skipped" in result.err


class Book:
    """Leaves the codes of a pair as they are."""

    def record(self, first: Sequence[int], second: Sequence[int], is_next: bool) -> dict[str, Any]:
        return {"first": first, "second": second, "is_next": is_next}


def test_a_bad_document_is_named(pairs: Callable[..., Result]) -> None:
    result = pairs([*corpus(3), {"id": "x"}])
    assert result.status == 65
    assert "<stdin>:4: field 'text'" in result.err
    assert len(result.records) > 0
    assert pairs([{"sentences": [1]}]).status == 65


def test_output_begins_before_the_input_ends(pairs: Callable[..., Result], tmp_path: Path) -> None:
    pairs([])  # writes the vocabulary
    command = [sys.executable, "-m", "bertcli", "pairs", "--plain", "--quiet"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(lines(corpus(3)))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == "doc0-0"
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()


def test_memory_does_not_grow_with_the_input(pairs: Callable[..., Result], tmp_path: Path) -> None:
    pairs([])
    part = lines(corpus(200, 20))
    (tmp_path / "few.jsonl").write_bytes(part * 36)  # a few batches
    (tmp_path / "many.jsonl").write_bytes(part * 144)
    peaks = []
    for name in ("few.jsonl", "many.jsonl"):
        command = [sys.executable, "-m", "bertcli", "pairs", name, "--window", "20", "--quiet"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        peaks.append(usage.ru_maxrss)
    assert peaks[1] < peaks[0] + 20_000  # kilobytes


def test_real_corpus(shared: Path, shell: Callable[..., Result]) -> None:
    with zstandard.open(shared / "corpus" / "modern.txt.zst", "rb") as file:
        text = file.read(3_000_000).rsplit(b"\n\n", 1)[0]
    vocabulary = shared / "vocab" / "bert-base-uncased-vocab.txt"
    result = shell(f"bertcli read text | bertcli pairs -v {vocabulary}", text)
    assert result.status == 0
    records = result.records
    for record in islice(records, 0, None, 7):
        check_pair(record, 128)
    share = sum(record["is_next"] for record in records) / len(records)
    assert 0.4 <= share <= 0.6
    assert "warning" not in result.err
