"""Groups of sequences for a forward pass."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bertcli.engine.packing import batches


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120))
def test_each_sequence_once_within_the_budget_the_longest_first(lengths: list[int], max_tokens: int) -> None:
    groups = batches(lengths, max_tokens)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in group) <= max_tokens or len(group) == 1 for group in groups)
    order = [lengths[index] for group in groups for index in group]
    assert order == sorted(lengths, reverse=True)
    # No group could have taken the first of the next one too.
    for one, other in pairwise(groups):
        assert sum(lengths[i] for i in one) + lengths[other[0]] > max_tokens


def test_equal_lengths_keep_their_order() -> None:
    assert batches([3, 5, 3, 5], 8) == [[1], [3, 0], [2]]
    assert batches([], 8) == []
