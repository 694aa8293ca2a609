"""Which sequences share a forward pass, and what an optimizer step needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bertcli.tasks.task import Batch, Example, Task


@dataclass(frozen=True)
class Step:
    """The batches of an optimizer step, on the host; by what each loss is divided; and the number of tokens."""

    parts: tuple[Batch, ...]
    counts: dict[str, float]
    tokens: int
    check: int = 0  # a sum of where all its examples lie, those of other ranks too

    def without_parts(self) -> Step:
        """Returns a step of the same losses that nothing is learned from."""
        return Step((), dict.fromkeys(self.counts, 0.0), 0)


def dealt(sizes: Sequence[int], shares: int) -> list[list[int]]:
    """Returns the indices of items of these sizes, dealt so that the shares' sums are alike; a share may be empty."""
    if shares == 1:
        return [list(range(len(sizes)))]
    hands: list[list[int]] = [[] for _ in range(shares)]
    sums = [0] * shares
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        lightest = sums.index(min(sums))
        hands[lightest].append(index)
        sums[lightest] += sizes[index]
    return hands


def prepared(
    task: Task,
    examples: Sequence[tuple[int, Example]],
    max_tokens: int,
    collate: Callable[[Sequence[Example]], Batch] | None = None,
) -> Step:
    """Returns what an optimizer step on examples, each with its epoch, needs; a batch has at most `max_tokens`.

    `collate` makes batches instead of the task, and may fill them up.
    """
    collate = collate or task.collate
    seen = [task.at_epoch(example, epoch) for epoch, example in examples]
    sizes = [len(example["ids"]) for example in seen]
    parts = tuple(collate([seen[index] for index in group]) for group in batches(sizes, max_tokens))
    counts = {name: float(sum(part.counts[name] for part in parts)) for name in parts[0].counts}
    return Step(parts, counts, sum(sizes))


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
