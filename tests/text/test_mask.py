"""Masks: exact counts, nothing special ever hidden, the shares of the rule, and the same on pieces and on ids."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData, UsageError
from bertcli.folder import CLS, MASK, PAD, SEP, SPECIAL, Casing
from bertcli.randomness import randomness
from bertcli.text.mask import MaskCounts, Masked, Masker, Masking, MaskRule, replacements, spans, word_by_word
from bertcli.text.wordpiece import WordPiece

PIECES = [*SPECIAL, "[unused0]", "", *"abcdef", "##x", "##y", "##z"]
CANDIDATES = [PIECES[index] for index in replacements(PIECES)]
SEGMENT = st.lists(st.sampled_from(CANDIDATES), max_size=30)
SEQUENCE = st.builds(lambda a, b, pad: [CLS, *a, SEP, *b, SEP, *[PAD] * pad], SEGMENT, SEGMENT, st.integers(0, 3))
BORDERS = st.none() | st.lists(st.integers(0, 65), max_size=30)
RULES = st.builds(
    lambda way, **others: MaskRule(**others, **way),
    st.sampled_from([{}, {}, {"bernoulli": True}, {"ngram": 2}, {"ngram": 5}]),
    rate=st.sampled_from([0.01, 0.15, 0.5, 1.0]),
    fates=st.sampled_from([(0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 0.2, 0.8)]),
    whole_word=st.booleans(),
    max_masks=st.none() | st.integers(1, 12),
)


def masked_by(rule: MaskRule, tokens: list[str], rng: random.Random, borders: list[int] | None = None) -> Masked[str]:
    return Masker(rule, PIECES, PIECES).mask(tokens, borders, rng)


def words_of(tokens: list[str], borders: list[int] | None) -> list[list[int]]:
    """Returns the words, told of differently than by the program: as slices between their first positions."""
    special = [place for place, token in enumerate(tokens) if token in (CLS, SEP, PAD)]
    after = [place + 1 for place in special]
    own = borders or [place for place, token in enumerate(tokens) if not token.startswith("##")]
    starts = sorted({*special, *after, *(place for place in own if place < len(tokens)), len(tokens)})
    parts = [list(range(start, end)) for start, end in pairwise(starts)]
    return [part for part in parts if part[0] not in special]


# -- what holds for every rule --------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(SEQUENCE, BORDERS, RULES, st.integers(0, 2**32))
def test_invariants(tokens: list[str], borders: list[int] | None, rule: MaskRule, seed: int) -> None:
    corrupted, positions, originals = masked_by(rule, tokens, random.Random(seed), borders)
    maskable = [place for place, token in enumerate(tokens) if token not in (CLS, SEP, PAD)]
    assert positions == sorted(set(positions))
    assert set(positions) <= set(maskable)
    assert [tokens[place] for place in positions] == originals
    assert all(corrupted[place] == tokens[place] for place in set(range(len(tokens))) - set(positions))
    assert all(corrupted[place] in {MASK, *CANDIDATES} for place in positions)
    budget = min(max(1, round(len(tokens) * rule.rate)), rule.max_masks or len(tokens))
    if rule.bernoulli:
        assert len(positions) <= (rule.max_masks or len(tokens))
    elif not rule.whole_word:
        assert len(positions) == min(budget, len(maskable))
    if rule.whole_word:
        whole = words_of(tokens, borders)
        left = [word for word in whole if not set(word) <= set(positions)]
        assert not set(positions) & {place for word in left for place in word}
        assert rule.bernoulli or 0 <= budget - len(positions) < min(map(len, left), default=math.inf)


@given(SEQUENCE, BORDERS, RULES, st.integers(0, 2**32))
def test_pieces_and_ids_give_the_same(tokens: list[str], borders: list[int] | None, rule: MaskRule, seed: int) -> None:
    of_ids = Masker(rule, PIECES, range(len(PIECES)))
    ids = of_ids.mask([PIECES.index(token) for token in tokens], borders, random.Random(seed))
    pieces = [PIECES[index] for index in ids.tokens], ids.positions, [PIECES[index] for index in ids.originals]
    assert masked_by(rule, tokens, random.Random(seed), borders) == pieces


TOKENS = [CLS, *"ab", "##x", "c", "##y", "##z", *"def", SEP, "f", "a", "##x", "b", "##z", "c", SEP]


@pytest.mark.parametrize(
    ("rule", "positions", "seen"),
    [
        (MaskRule(), [3, 12, 16], ["e", MASK, MASK]),
        (
            MaskRule(rate=0.4, fates=(0.5, 0.2, 0.3)),
            [1, 3, 9, 11, 12, 14, 16],
            ["##x", "##z", MASK, "f", MASK, MASK, "c"],
        ),
        (MaskRule(rate=0.3, whole_word=True), [4, 5, 6, 11, 16], ["e", MASK, MASK, "##x", "##z"]),
    ],
)
def test_masks_stay_what_they_were(rule: MaskRule, positions: list[int], seen: list[str]) -> None:
    masked = masked_by(rule, TOKENS, randomness(0, 0, "2"))
    assert (masked.positions, [masked.tokens[place] for place in positions]) == (positions, seen)


def test_words_begin_at_the_borders_given_else_at_the_pieces_without_marks() -> None:
    tokens = [CLS, "a", "##x", "b", SEP, "##y", "c", SEP]
    places = [1, 2, 3, 5, 6]
    assert word_by_word(places, lambda place: not tokens[place].startswith("##")) == [[1, 2], [3], [5], [6]]
    assert word_by_word(places, [1, 6].__contains__) == [[1, 2, 3], [5], [6]]
    for borders, whole in (
        (None, [[1, 2], [3], [5], [6]]),
        ([1, 6], [[1, 2, 3], [5], [6]]),
        ([], [[1, 2], [3], [5], [6]]),
    ):
        assert words_of(tokens, borders) == whole


def test_random_tokens_are_uniform_over_all_that_is_neither_special_nor_unused() -> None:
    assert set(CANDIDATES) == {*"abcdef", "##x", "##y", "##z"}
    rule = MaskRule(rate=1.0, fates=(0.0, 0.0, 1.0))
    corrupted, positions, _ = masked_by(rule, [CLS, *(["a"] * 9000), SEP], random.Random(3))
    counts = Counter(corrupted[place] for place in positions)
    assert all(abs(counts[piece] - 1000) < 200 for piece in CANDIDATES)
    with pytest.raises(BadData, match="no piece"):
        replacements([*SPECIAL, "[unused7]"])


# -- spans ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 6), st.integers(1, 60), st.integers(0, 2**32))
def test_a_span_is_of_adjoining_words_and_fills_what_it_can(
    lengths: list[int], longest: int, budget: int, seed: int
) -> None:
    ends = [sum(lengths[: number + 1]) + number for number in range(len(lengths))]  # with a gap after each
    runs = [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]
    whole = [word for run in runs for word in ([run[:2], run[2:]] if len(run) > 2 else [run]) if word]
    found = list(spans(whole, longest, budget, random.Random(seed)))
    places = [place for span in found for place in span]
    assert len(places) == len(set(places)) <= budget
    left = [word for word in whole if word[0] not in places]
    assert not left or min(map(len, left)) > budget - len(places)
    for span in found:
        assert span == list(range(span[0], span[-1] + 1))
        inside = [word for word in whole if set(word) & set(span)]
        assert (len(inside) <= longest, list(chain.from_iterable(inside))) == (True, span)


@pytest.mark.parametrize("longest", [2, 3, 10])
def test_a_spans_length_comes_with_a_probability_proportional_to_its_inverse(longest: int) -> None:
    places = [[place] for place in range(50_000)]  # so many that spans hardly meet
    lengths: Counter[int] = Counter()
    for seed in range(60):
        found = list(map(len, spans(places, longest, 500, random.Random(seed))))
        assert sum(found) == 500
        lengths.update(found[:-1])  # the last one is cut short
    total = sum(1 / length for length in range(1, longest + 1))
    for length in range(1, longest + 1):
        assert lengths[length] / lengths.total() == pytest.approx(1 / length / total, abs=0.015)


# -- statistics, on a million tokens --------------------------------------------------------------------------------

VOCABULARY = [*SPECIAL, *(f"w{number}" for number in range(20_000)), *(f"##{number}" for number in range(10_000))]


@pytest.fixture(scope="module")
def sequences() -> list[list[int]]:
    """Returns ids of sequences of many lengths; a third of the pieces go on with a word."""
    (cls, sep), rng, made = map(VOCABULARY.index, (CLS, SEP)), random.Random(0), []
    for length in list(range(8, 128)) * 125:
        ids, border = rng.choices(range(len(SPECIAL), len(VOCABULARY)), k=length - 3), rng.randrange(length - 3)
        made.append([cls, *ids[:border], sep, *ids[border:], sep])
    return made


@pytest.mark.parametrize(
    "rule",
    [
        MaskRule(),
        MaskRule(ngram=3),
        MaskRule(whole_word=True),
        MaskRule(whole_word=True, ngram=3),
        MaskRule(bernoulli=True),
        MaskRule(bernoulli=True, whole_word=True),
    ],
    ids=lambda rule: "-".join(name for name in ("bernoulli", "whole_word") if getattr(rule, name)) + str(rule.ngram),
)
def test_shares_are_those_of_the_rule(sequences: list[list[int]], rule: MaskRule) -> None:
    masker = Masker(rule, VOCABULARY, range(len(VOCABULARY)))
    fates: Counter[str] = Counter()
    tokens, masked, deviation = 0, 0, 0.0
    for number, ids in enumerate(sequences):
        seen, positions, originals = masker.mask(ids, None, randomness(1, 0, str(number)))
        length = len(ids) - 3 if rule.bernoulli else len(ids)  # what `rate` is a share of: candidates, or tokens
        tokens, masked = tokens + length, masked + len(positions)
        deviation += (len(positions) - length * 0.15) ** 2 / length
        for place, original in zip(positions, originals, strict=True):
            fates["mask" if VOCABULARY[seen[place]] == MASK else "same" if seen[place] == original else "random"] += 1
    assert sum(map(len, sequences)) > 1_000_000
    assert masked / tokens == pytest.approx(0.15, abs=0.001)
    assert [fates[fate] / masked for fate in ("mask", "same", "random")] == pytest.approx([0.8, 0.1, 0.1], abs=0.005)
    if rule.bernoulli and not rule.whole_word:
        assert deviation / len(sequences) == pytest.approx(0.15 * 0.85, rel=0.05)
    if not rule.bernoulli and not rule.whole_word:
        assert masked == sum(max(1, round(len(ids) * 0.15)) for ids in sequences)


@pytest.mark.parametrize("rule", [MaskRule(), MaskRule(bernoulli=True), MaskRule(bernoulli=True, max_masks=15)])
def test_positions_are_uniform(rule: MaskRule) -> None:
    tokens = [CLS, *("abcdef" * 20), SEP]
    places: Counter[int] = Counter()
    for seed in range(3000):
        places.update(masked_by(rule, tokens, randomness(1, 0, str(seed))).positions)
    assert set(places) == set(range(1, 121))
    usual = places.total() / 120
    assert all(abs(count - usual) < 6 * usual**0.5 for count in places.values())


# -- the command ----------------------------------------------------------------------------------------------------

PAIRS: list[dict[str, Any]] = [
    {
        "id": f"d-{number}",
        "tokens": [CLS, *("abcdef" * 3), SEP, "a", "##x", "##y", SEP],
        "segment_b": 20,
        "is_next": number % 2 == 0,
        "word_starts": list(range(1, 20)),
        "unknown": {"big": 2**70 + number},
    }
    for number in range(20)
]


def lines(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def masked(invoke: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    return lambda records, *args: invoke("mask", *args, stdin=lines(records))


def test_masks_hang_on_the_id_alone(masked: Callable[..., Result]) -> None:
    whole = masked(PAIRS)
    assert whole.status == 0
    assert masked(PAIRS).out == whole.out
    assert masked(PAIRS, "--seed", 1).out != whole.out
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))
    by_id = {record["id"]: record for record in whole.records}
    assert all(by_id[record["id"]] == record for record in masked(shuffled[:13]).records)
    for before, after in zip(PAIRS, whole.out.splitlines(), strict=True):
        record = json.loads(after)
        assert list(record) == [*before, "masked_positions", "masked_tokens"]
        assert record["unknown"] == before["unknown"]
        assert len(record["masked_positions"]) == round(24 * 0.15)
        restored = list(record["tokens"])
        for place, token in zip(record["masked_positions"], record["masked_tokens"], strict=True):
            restored[place] = token
        assert restored == before["tokens"]


def test_copies_differ_and_the_first_is_the_only_ones(masked: Callable[..., Result]) -> None:
    single, triple = masked(PAIRS[:4]).records, masked(PAIRS[:4], "--copies", 3).records
    assert triple[::3] == single
    assert [record["id"] for record in triple[:4]] == ["d-0", "d-0#1", "d-0#2", "d-1"]
    assert len({json.dumps(record["masked_positions"]) for record in triple[:3]}) > 1
    anonymous = [{"tokens": PAIRS[0]["tokens"]}, {"id": 5, "tokens": PAIRS[0]["tokens"]}]
    copies = masked(anonymous, "--copies", 2).records
    assert [record.get("id", "none") for record in copies] == ["none", "none", 5, "5#1"]


def test_workers_change_neither_the_masks_nor_what_is_told(masked: Callable[..., Result]) -> None:
    many = [
        {"tokens": pair["tokens"], "unknown": ["x" * 300]} for pair in PAIRS * 500
    ]  # more than a process does alone
    alone = masked(many, "--bernoulli")
    assert masked(many, "--bernoulli", "--workers", 2) == alone
    assert alone.err.startswith("10000 records, ")
    assert len({str(record["masked_positions"]) for record in alone.records}) > 1000  # without an id, by their place


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tokens": [CLS, "nowhere", SEP]}, "<stdin>:2: field 'tokens': found 'nowhere'"),
        (
            {"tokens": [CLS, "a", SEP], "masked_positions": [1], "masked_tokens": ["b"]},
            "field 'masked_positions'",
        ),
        ({"tokens": "a b"}, "field 'tokens'"),
        ({"tokens": [CLS, "a", SEP], "word_starts": [True]}, "field 'word_starts'"),
        ({"tokens": [CLS, "a", SEP], "word_starts": [3]}, "expected places of the 3 tokens"),
        ({"tokens": [CLS, "a", SEP], "word_starts": [-1]}, "expected places of the 3 tokens"),
    ],
)
def test_bad_pairs_are_named(masked: Callable[..., Result], wrong: dict[str, Any], message: str) -> None:
    result = masked([PAIRS[0], wrong])
    assert (result.status, len(result.records)) == (65, 1)
    assert message in result.err
    result = masked([PAIRS[0], wrong, PAIRS[1]], "--on-error", "skip")
    assert (result.status, result.records) == (0, masked(PAIRS[:2]).records)


def test_rate_and_fates_as_options(masked: Callable[..., Result]) -> None:
    records = masked(PAIRS, "--rate", 0.5, "--fates", "100,0,0", "--whole-word").records
    for record in records:
        assert {record["tokens"][place] for place in record["masked_positions"]} == {MASK}
        # The last three pieces are of one word, by the borders that the record gives.
        assert len({20, 21, 22} & set(record["masked_positions"])) in (0, 3)
    assert masked(PAIRS, "--fates", "50,50,50").status == 2


def test_how_many_and_in_what_spans_as_options(masked: Callable[..., Result]) -> None:
    drawn = masked(PAIRS, "--bernoulli", "--rate", 0.1)
    numbers = [len(record["masked_positions"]) for record in drawn.records]
    assert (drawn.status, min(numbers)) == (0, 0)
    assert len(set(numbers)) > 2
    assert f"; {numbers.count(0)} records without a masked token" in drawn.err
    capped = masked(PAIRS, "--rate", 0.9, "--max-masks", 2).records
    assert {len(record["masked_positions"]) for record in capped} == {2}
    spans = [record["masked_positions"] for record in masked(PAIRS, "--ngram", 4).records]
    assert {len(positions) for positions in spans} == {round(24 * 0.15)}
    assert spans != [record["masked_positions"] for record in masked(PAIRS, "--ngram", 1).records]
    for options in (["--bernoulli", "--ngram", 2], ["--max-masks", 0], ["--ngram", 0]):
        refused = masked(PAIRS, *options)
        assert (refused.status, refused.out) == (2, b"")
        assert all(str(option) in refused.err for option in options[::2] if str(option).startswith("--"))


def test_without_an_id_masks_hang_on_the_place_alone() -> None:
    masking = Masking(WordPiece(PIECES, Casing(True, True)), MaskRule(), copies=1, seed=0)
    pair = {"tokens": [CLS, *"abcdefabcdef" * 3, SEP]}
    masks = [masking.masked(pair, index)[0]["masked_positions"] for index in range(10_000)]
    rule, names = MaskRule(), PIECES
    for index in (0, 4096, 9999):
        expected = Masker(rule, PIECES, names).mask(pair["tokens"], None, randomness(0, 0, f"#{index}"))
        assert masks[index] == expected.positions
    assert len(set(map(tuple, masks))) > 9000


def test_a_rule_cannot_choose_in_two_ways() -> None:
    with pytest.raises(UsageError, match="--bernoulli and --ngram exclude each other"):
        MaskRule(bernoulli=True, ngram=2)


def test_whole_words_without_borders_are_told_of(masked: Callable[..., Result]) -> None:
    borderless = [{"tokens": pair["tokens"]} for pair in PAIRS[:3]]
    assert "3 records without word_starts" in masked(borderless, "--whole-word").err
    assert "word_starts" not in masked(borderless).err + masked(PAIRS, "--whole-word").err


def test_counts_add_up_and_are_told_in_words() -> None:
    one, more = MaskCounts(1, 0, 6, 1, 1, 6, 1), MaskCounts(2, 1, 1, 0)
    assert one + more == MaskCounts(3, 1, 7, 1, 1, 6, 1)
    assert str(one) == "1 record, 1 of 6 tokens masked (16.7%)"
    assert one.warnings() == ["1 record without word_starts: words end where no ## follows"]
    assert more.warnings() == []
    assert str(more) == "2 records, 0 of 1 token masked (0.0%); 1 record without a masked token"
    assert str(MaskCounts()) == "0 records, 0 of 0 tokens masked (0.0%)"


def test_empty_borders_are_none(masked: Callable[..., Result]) -> None:
    pair = {"tokens": [CLS, "a", "b", SEP], "word_starts": []}
    assert "warning: 1 record without word_starts" in masked([pair], "--whole-word", "--quiet").err


def test_whole_words_that_change_little_are_told_of(masked: Callable[..., Result]) -> None:
    """As in Chinese, whose characters are pieces: words are known only to who gave them."""
    alone = {"tokens": [CLS, "a", "b", "c", SEP], "word_starts": [1, 2, 3]}
    for records in ([alone], [{"tokens": alone["tokens"]}]):
        told = masked(records * 50, "--whole-word", "--fates", "0,0,100", "--quiet").err
        assert "0.0% of the tokens go on with a word, so that --whole-word changes little" in told
    joined = {"tokens": [CLS, "a", "##x", SEP]}
    for more in (alone | {"word_starts": [1, 3]}, joined, joined | {"word_starts": [1]}):
        assert "changes little" not in masked([alone, more], "--whole-word").err
        assert "changes little" in masked([alone] * 100 + [more], "--whole-word").err
    assert "changes little" not in masked([alone]).err + masked([], "--whole-word").err
