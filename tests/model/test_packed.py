"""Packed sequences: what they hold, and the rectangles made of them where no packed kernel is."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from bertcli.model.packed import GROUPING, pack

SEQUENCES = st.lists(
    st.lists(st.integers(0, 99), min_size=1, max_size=70).flatmap(
        lambda ids: st.tuples(st.just(ids), st.none() | st.integers(0, len(ids)))
    ),
    min_size=1,
    max_size=20,
)


@given(SEQUENCES)
def test_packed_sequences_come_apart_again(sequences: list[tuple[list[int], int | None]]) -> None:
    packed = pack([ids for ids, _ in sequences], [border for _, border in sequences])
    assert packed.lengths == tuple(len(ids) for ids, _ in sequences)
    assert packed.boundaries.dtype == torch.int32
    bounds = packed.boundaries.tolist()
    assert (bounds[0], bounds[-1]) == (0, len(packed.ids))
    assert packed.starts.tolist() == bounds[:-1]
    for (ids, border), start, end in zip(sequences, bounds, bounds[1:], strict=False):
        assert packed.ids[start:end].tolist() == ids
        assert packed.positions[start:end].tolist() == list(range(len(ids)))
        first = len(ids) if border is None else border
        assert packed.segments[start:end].tolist() == [0] * first + [1] * (len(ids) - first)


@given(SEQUENCES)
def test_each_token_has_one_place_in_the_rectangles(sequences: list[tuple[list[int], int | None]]) -> None:
    packed = pack([ids for ids, _ in sequences], [border for _, border in sequences])
    groups, places = packed.groups
    everywhere = torch.cat([group.index for group in groups])
    assert torch.equal(everywhere[places], torch.arange(len(packed.ids)))
    assert sum(group.shape[0] for group in groups) == len(sequences)
    for group in groups:
        rows = group.index.view(group.shape)
        is_token = torch.ones(group.shape, dtype=torch.bool) if group.mask is None else group.mask[:, 0, 0]
        sequence_of = torch.bucketize(rows, packed.boundaries[1:], right=True)
        assert torch.equal(sequence_of, sequence_of[:, :1].expand_as(rows))
        assert is_token.sum(1).tolist() == [packed.lengths[number] for number in sequence_of[:, 0]]
        assert group.shape[1] - int(is_token.sum(1).min()) < GROUPING
        assert group.mask is None or not bool(is_token.all())
