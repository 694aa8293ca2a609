"""A label for each word, by vectors that BERT has made once and for all: the feature-based approach (section 5.3).

What is learned and answered from is `embed`'s output, a row a word. The sentences of a document are sequences of their
own: what its context says of a word is in its vectors.

Shapes: T words, L layers that were kept apart, H the width of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertcli.errors import BadData, many
from bertcli.model.heads import FeatureNetwork, Network
from bertcli.records import Record, Sentence, checker
from bertcli.schemes import borders
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import Batch, Example, array
from bertcli.vectors import FIELD, array_of, source_of

LONGEST = 512  # words of a sentence, by which batches are planned; there may be more
BYTES = 4  # of a number, or fewer


class FeatureTagging(Tagging):
    """Labels words by their vectors: of the form and the source of those that it learns, or has learned."""

    sequence, inputs = "sentence", "vectors"
    architecture = None  # type: ignore[assignment]  # no other program reads it

    def __init__(
        self, labels: Sequence[str] = (), *, width: int = 0, layers: int = 0, source: str | None = None
    ) -> None:
        """Take the labels in the order of their ids, and what vectors are like; without labels, the first tell it.

        `layers` are those that are kept apart, 0 where there is one vector a word.
        """
        super().__init__(None, LONGEST, labels)  # type: ignore[arg-type]  # no text is read
        self._expect(width, layers, source)
        self.dtype = ""  # of the first vectors that are learned

    def _expect(self, width: int, layers: int, source: str | None) -> None:
        self.width, self.layers, self.source = width, layers, source
        self.held = width * max(1, layers) * BYTES

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each sentence, with its words' `vectors`: (T, L, H), flat."""
        rows = self._rows(record)
        # While it learns, those to be scored lie on disk together, and may be of several types.
        return self._sequences(record, rows.astype(np.float32) if self.dtype else rows)

    def _sequences(self, record: Record, rows: NDArray[Any]) -> list[Example]:
        return [
            {
                "ids": np.zeros(end - start, np.int32),  # as many as words, by which batches are made
                "segment_b": array([-1]),
                "rows": np.arange(end - start, dtype=np.int32),
                "vectors": rows[start:end].reshape(-1),
            }
            for start, end in borders(record.get("sentences"), len(rows))
            if end > start
        ]

    def learn(self, record: Record) -> list[Example]:
        """Returns the sequences with a label's number for each word, in the order of sight."""
        rows = self._rows(record)
        if rows.size and self.dtype and not np.can_cast(rows.dtype, self.dtype):  # all lie on disk as the first do
            raise BadData(field=FIELD, found=f"numbers of {rows.dtype}", expected=f"{self.dtype} as in the first")
        examples, labels = self._sequences(record, rows), self.gold(record)
        if examples:  # of a record that is good as a whole: one that is skipped tells nothing
            self._expect(*_form(rows), self.source or source_of(record[FIELD]))
            self.dtype = self.dtype or rows.dtype.name
        numbers = iter([self._known.number(label, "labels") for label in labels])
        return [{**example, "labels": array(islice(numbers, len(example["ids"])))} for example in examples]

    def _rows(self, record: Record) -> NDArray[Any]:
        """Returns the vectors of a record's words: (T, H) or (T, L, H); raises `BadData` for others than expected."""
        checker(Sentence)(record)
        if record.get(FIELD) is None:
            raise BadData(field=FIELD, found=None, expected="the vectors of the words, as embed adds them")
        vectors = array_of(record[FIELD])
        count, words = vectors.shape[-2], len(record["words"])
        if count != words:
            expected = f"{many(words, 'row')}, one a word (embed --pool words)"
            raise BadData(field=FIELD, found=many(count, "row"), expected=expected)
        if words and not vectors.size:
            raise BadData(field=FIELD, found="rows of no numbers", expected="vectors as embed writes them")
        rows = vectors.swapaxes(0, 1) if vectors.ndim == 3 else vectors
        if words and self.width:
            self._check(*_form(rows), source_of(record[FIELD]))
        return rows

    def _check(self, width: int, layers: int, source: str | None) -> None:
        """Raise `BadData` for vectors that are not like the first ones, or from elsewhere as far as they say it."""
        if (width, layers) != (self.width, self.layers):
            raise BadData(field=FIELD, found=_told(width, layers), expected=_told(self.width, self.layers))
        if source != self.source and source and self.source:
            raise BadData(field=FIELD, found=f"vectors from {source}", expected=f"vectors from {self.source}")

    @property
    def form(self) -> str:
        """Returns in words what the vectors are like, and where they are from."""
        return _told(self.width, self.layers) + (f" from {self.source}" if self.source else "")

    def essence(self, record: Record) -> Record:
        """Returns the record without its vectors."""
        return {name: value for name, value in record.items() if name != FIELD}

    def reads(self) -> dict[str, Any]:
        """Returns what vectors are like, and where they are from."""
        return {"features": {"width": self.width, "layers": self.layers, "source": self.source}}

    def notes(self) -> dict[str, Any]:
        """Returns where the vectors are from."""
        return {"source": self.source}

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns what `Tagging` does, with the `vectors` of all words: (T, H) or (T, L, H)."""
        batch, form = super().collate(examples), (self.layers, self.width) if self.layers else (self.width,)
        vectors = torch.from_numpy(np.concatenate([example["vectors"] for example in examples]))
        return replace(batch, targets={**batch.targets, "vectors": vectors.view(-1, *form)})

    # -- head

    def logits(self, network: Network, batch: Batch) -> Tensor:
        """Returns a score for each label of each word: (T, K)."""
        assert isinstance(network, FeatureNetwork)
        scores: Tensor = network.heads["classifier"](network.read(batch.targets["vectors"], batch.packed))
        return scores.float()


def _form(rows: NDArray[Any]) -> tuple[int, int]:
    """Returns the width of vectors, (T, H) or (T, L, H), and how many layers are kept apart, 0 where none are."""
    return rows.shape[-1], rows.shape[1] if rows.ndim == 3 else 0


def _told(width: int, layers: int) -> str:
    return f"{f'{layers} layers of ' if layers else ''}vectors of {width} numbers"
