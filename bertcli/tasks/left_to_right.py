"""The left-to-right language model that Table 5 compares with (section 5.1): each token from those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bertcli.errors import BadData
from bertcli.records import Record
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Batch, Example, array


class LeftToRight(Pretraining):
    """Predicts every token but the first: "masked" are those that are asked for, and nothing is hidden.

    Of a masked pair the originals are put back, so that all objectives learn from the same files.
    """

    loss = "lm_loss"
    is_causal = True

    # -- encode

    def learn_at(self, record: Record, index: int) -> list[Example]:
        """Returns the one sequence of a pair or a masked pair; `at_epoch` asks for its tokens."""
        (example,) = self.encode(record)
        return [{**example, "masked_positions": array([]), "masked_ids": array([])}]

    def _encode_pair(self, record: Record, index: int) -> Example:
        example = super()._encode_pair(record, index)
        ids, positions = example["ids"], example["masked_positions"]
        if record.get("masked_positions") is not None:
            ids[positions] = example["masked_ids"]
        elif not len(positions):  # nothing is left open: every token is known, and asked for
            example |= _all_of(ids)
        return {**example, "key": np.empty(0, np.uint8)}

    def encode(self, record: Record, index: int = 0) -> list[Example]:
        """Returns what masked pretraining does; of a pair without `[MASK]` every token is asked for."""
        examples = super().encode(record, index)
        if not all(example["masked_positions"].all() for example in examples):
            field = "tokens" if record.get("masked_positions") is None else "masked_positions"
            raise BadData("the first token is not to be predicted: there is none before it", field=field)
        return examples

    def at_epoch(self, example: Example, epoch: int) -> Example:
        """Returns the example with all that is to be predicted, in each epoch the same."""
        return {**example, **_all_of(example["ids"])}

    def masked(self, record: Record) -> Record:
        """Returns a pair as it was before it was masked, of which every token is asked for."""
        example = self._encode_pair(record, 0)
        tokens = [self.wordpiece.pieces[number] for number in example["ids"].tolist()]
        return {**record, "tokens": tokens, "masked_positions": None, "masked_tokens": None}

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns what masked pretraining does, with the `positions` from which the next tokens are predicted (M,)."""
        batch = super().collate(examples)
        return replace(batch, targets={**batch.targets, "positions": batch.targets["positions"] - 1})


def _all_of(ids: np.ndarray[Any, np.dtype[np.int32]]) -> Example:
    return {"masked_positions": np.arange(1, len(ids), dtype=np.int32), "masked_ids": ids[1:]}
