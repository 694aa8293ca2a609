"""What all tasks share: how a text or two become one sequence."""

from __future__ import annotations

import models
from hypothesis import given
from hypothesis import strategies as st

from bertcli.tasks.task import array, sequence

WORDPIECE = models.wordpiece()
LETTERS = [number for number, piece in enumerate(models.PIECES) if piece in models.LETTERS]
SIDE = st.lists(st.sampled_from(LETTERS), max_size=30)
ROOM = st.integers(8, 40)


def google(first: list[int], second: list[int], room: int) -> list[int]:
    """Returns what `run_classifier.py` makes of two texts, a token at a time (`_truncate_seq_pair`)."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room - 3:
        (first if len(first) > len(second) else second).pop()
    return [WORDPIECE.cls, *first, WORDPIECE.sep, *second, WORDPIECE.sep]


@given(SIDE, ROOM)
def test_one_text_is_cut_at_its_end(first: list[int], room: int) -> None:
    example, cut = sequence(WORDPIECE, first, None, room)
    assert example["ids"].tolist() == [WORDPIECE.cls, *first[: room - 2], WORDPIECE.sep]
    assert example["segment_b"].tolist() == [-1]
    assert cut == (len(first) + 2 > room)


@given(SIDE, SIDE, ROOM)
def test_two_texts_are_cut_as_google_cuts_them(first: list[int], second: list[int], room: int) -> None:
    example, cut = sequence(WORDPIECE, first, second, room)
    ids = google(first, second, room)
    assert example["ids"].tolist() == ids
    assert example["segment_b"].tolist() == [ids.index(WORDPIECE.sep) + 1]
    assert cut == (len(first) + len(second) + 3 > room)


def transformers_cuts(first: list[int], second: list[int], room: int) -> list[int]:
    """Returns what transformers makes of the same letters under `truncation=True`."""
    texts = (" ".join(models.PIECES[number] for number in side) for side in (first, second))
    ids: list[int] = models.tokenizer()(*texts, truncation=True, max_length=room)["input_ids"]
    return ids


@given(SIDE, SIDE.filter(bool), ROOM)  # without a batch, transformers takes an empty second text for none
def test_transformers_cuts_alike_but_for_the_odd_token(first: list[int], second: list[int], room: int) -> None:
    # Where both sides are cut and the room for them is odd, the odd token is the longer side's there, the second's
    # if none is longer; with Google it is the first's.
    ours = sequence(WORDPIECE, first, second, room)[0]["ids"].tolist()
    theirs = transformers_cuts(first, second, room)
    space = room - 3
    are_both_cut = min(len(first), len(second)) > space // 2
    if are_both_cut and space % 2 and len(first) <= len(second):
        half = space // 2
        assert ours == [WORDPIECE.cls, *first[: half + 1], WORDPIECE.sep, *second[:half], WORDPIECE.sep]
        assert theirs == [WORDPIECE.cls, *first[:half], WORDPIECE.sep, *second[: half + 1], WORDPIECE.sep]
    else:
        assert ours == theirs


def test_arrays_are_small() -> None:
    assert array([1, 2]).dtype.itemsize == 4
