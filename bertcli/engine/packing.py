"""Which sequences share a forward pass."""

from __future__ import annotations

from collections.abc import Sequence


def batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Returns the indices of sequences in groups of at most `max_tokens` tokens, the longest first.

    Sequences of like length come together, which wastes least where a device must pad; one that is longer than the
    budget is a group of its own.
    """
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not groups or lengths[index] > room:
            groups.append([])
            room = max_tokens
        groups[-1].append(index)
        room -= lengths[index]
    return groups
