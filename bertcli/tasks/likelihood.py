"""The likelihood of a text to a left-to-right model: that of each token, given those before it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bertcli.model.heads import Network
from bertcli.tasks.pseudo_likelihood import PseudoLikelihood
from bertcli.tasks.task import Batch, Example, array, packed


class Likelihood(PseudoLikelihood):
    """Tells what pseudo-likelihood does, of one pass over a text, for no token sees those after it.

    A text longer than the model is read in the same windows, and of a token counts the one with the most before it.
    """

    def _each(self, first: list[int], second: list[int] | None, number: int) -> Iterator[Example]:
        """Yields an example a window: the `places` of the tokens that it is to tell, and their `order` in the text."""
        windows, places = self._read(first, second, number)
        told: list[list[tuple[int, int]]] = [[] for _ in windows]
        for order, (best, place) in enumerate(places):
            told[best].append((place, order))
        for window, own in zip(windows, told, strict=True):
            if own:
                yield {**window, "places": array(place for place, _ in own), "order": array(order for _, order in own)}

    def _best(self, spans: list[tuple[int, int]], length: int) -> list[int]:
        """Returns for each token of a text the first window that has it: all that begin later have less before it."""
        ends = [end for _, end in spans]
        return [bisect(ends, token) for token in range(length)]

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch with the `positions` from which tokens are told (M,), their `ids` (M,), and `sizes` (B,)."""
        batch, sizes = packed(examples), [len(example["places"]) for example in examples]
        places = torch.from_numpy(np.concatenate([example["places"] for example in examples]))
        positions = batch.starts.repeat_interleave(torch.tensor(sizes)) + places
        targets = {"positions": positions - 1, "ids": batch.ids[positions], "sizes": torch.tensor(sizes)}
        return Batch(batch, targets, {})

    def outputs(self, network: Network, batch: Batch) -> list[Any]:
        """Returns for each example log p of its tokens, in nats."""
        logs = super().outputs(network, batch)
        bounds = [0, *batch.targets["sizes"].cumsum(0).tolist()]
        return [logs[start:end] for start, end in pairwise(bounds)]

    def _found(self, examples: list[Example], answer: list[Any]) -> list[tuple[int, int, float]]:
        each = [
            (int(example["text"][0]), int(order), int(example["ids"][place]), log)
            for example, logs in zip(examples, answer, strict=True)
            for place, order, log in zip(example["places"], example["order"], logs, strict=True)
        ]
        return [(text, number, log) for text, _, number, log in sorted(each)]
