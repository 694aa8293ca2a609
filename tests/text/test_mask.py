"""Masks: exact counts, nothing special ever hidden, and the same on pieces and on ids."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.folder import CLS, MASK, PAD, SEP, SPECIAL
from bertcli.records import randomness
from bertcli.text.mask import MaskRule, groups, mask, replacements

PIECES = [*SPECIAL, "[unused0]", "", *"abcdef", "##x", "##y", "##z"]
CANDIDATES = [PIECES[index] for index in replacements(PIECES)]
SEGMENT = st.lists(st.sampled_from(CANDIDATES), max_size=30)
SEQUENCE = st.builds(lambda a, b, pad: [CLS, *a, SEP, *b, SEP, *[PAD] * pad], SEGMENT, SEGMENT, st.integers(0, 3))
RULES = st.builds(
    MaskRule,
    rate=st.sampled_from([0.01, 0.15, 0.5, 1.0]),
    fates=st.sampled_from([(0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 0.2, 0.8)]),
    whole_word=st.booleans(),
)


@given(SEQUENCE, RULES, st.integers(0, 2**32))
def test_invariants(tokens: list[str], rule: MaskRule, seed: int) -> None:
    words = groups(tokens, None, rule.whole_word)
    corrupted, positions, originals = mask(tokens, words, rule, random.Random(seed), MASK, CANDIDATES)
    budget = max(1, round(len(tokens) * rule.rate))
    maskable = [place for place, token in enumerate(tokens) if token not in (CLS, SEP, PAD)]
    assert sorted(place for word in words for place in word) == maskable
    assert positions == sorted(set(positions))
    assert set(positions) <= set(maskable)
    assert [tokens[place] for place in positions] == originals
    assert all(corrupted[place] == tokens[place] for place in set(range(len(tokens))) - set(positions))
    assert all(corrupted[place] in {MASK, *CANDIDATES} for place in positions)
    if rule.whole_word:
        assert len(positions) <= budget
        assert all(set(word) <= set(positions) or not set(word) & set(positions) for word in words)
    else:
        assert len(positions) == min(budget, len(maskable))


@given(SEQUENCE, RULES, st.integers(0, 2**32))
def test_pieces_and_ids_give_the_same(tokens: list[str], rule: MaskRule, seed: int) -> None:
    ids = [PIECES.index(token) for token in tokens]
    words = groups(tokens, None, rule.whole_word)
    continuations = {PIECES.index(piece) for piece in PIECES if piece.startswith("##")}
    never = {PIECES.index(token) for token in (CLS, SEP, PAD)}
    assert groups(ids, None, rule.whole_word, never=never, continues=continuations.__contains__) == words
    of_pieces = mask(tokens, words, rule, random.Random(seed), MASK, CANDIDATES)
    of_ids = mask(ids, words, rule, random.Random(seed), PIECES.index(MASK), replacements(PIECES))
    assert of_pieces == ([PIECES[i] for i in of_ids[0]], of_ids[1], [PIECES[i] for i in of_ids[2]])


def test_whole_words_come_from_the_borders_given_else_from_the_pieces() -> None:
    tokens = [CLS, "a", "##x", "b", SEP, "##y", "c", SEP]
    assert groups(tokens, None, True) == [[1, 2], [3], [5], [6]]
    assert groups(tokens, [1, 6], True) == [[1, 2, 3], [5], [6]]
    assert groups(tokens, [1, 6], False) == [[1], [2], [3], [5], [6]]


def test_shares_are_those_of_the_rule_and_positions_are_uniform() -> None:
    tokens = [CLS, *("abcdef" * 20), SEP]
    rule = MaskRule(rate=0.15, fates=(0.6, 0.3, 0.1))
    fates: Counter[str] = Counter()
    places: Counter[int] = Counter()
    for seed in range(3000):
        corrupted, positions, originals = mask(
            tokens, groups(tokens, None, False), rule, randomness(1, 0, str(seed)), MASK, ["R"]
        )
        places.update(positions)
        for place, original in zip(positions, originals, strict=True):
            fates[{MASK: "mask", "R": "random"}.get(corrupted[place], "same")] += 1
            assert corrupted[place] in (MASK, "R", original)
    total = fates.total()
    assert total == 3000 * round(122 * 0.15)
    assert [fates[name] / total for name in ("mask", "same", "random")] == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert set(places) == set(range(1, 121))
    assert all(abs(count - total / 120) < 6 * (total / 120) ** 0.5 for count in places.values())


def test_random_tokens_are_uniform_over_all_that_is_neither_special_nor_unused() -> None:
    assert set(CANDIDATES) == {*"abcdef", "##x", "##y", "##z"}
    tokens = [CLS, *(["a"] * 9000), SEP]
    rule = MaskRule(rate=1.0, fates=(0.0, 0.0, 1.0))
    corrupted, positions, _ = mask(tokens, groups(tokens, None, False), rule, random.Random(3), MASK, CANDIDATES)
    counts = Counter(corrupted[place] for place in positions)
    assert all(abs(counts[piece] - 1000) < 200 for piece in CANDIDATES)
    with pytest.raises(BadData, match="no piece"):
        replacements([*SPECIAL, "[unused7]"])


# -- the command ---------------------------------------------------------------------------------------------

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


def test_whole_words_without_borders_are_told_of(masked: Callable[..., Result]) -> None:
    borderless = [{"tokens": pair["tokens"]} for pair in PAIRS[:3]]
    assert "3 pairs without word_starts" in masked(borderless, "--whole-word").err
    assert "word_starts" not in masked(borderless).err + masked(PAIRS, "--whole-word").err
