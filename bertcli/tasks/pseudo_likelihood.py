"""Pseudo-log-likelihood: how likely a model finds each token of a text, given all the others (Salazar et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bertcli.errors import BadData
from bertcli.metrics import pairs
from bertcli.model.config import Config
from bertcli.model.heads import MaskedLanguageHead, Network
from bertcli.records import MinimalPair, Pair, Record, Words, checker
from bertcli.tasks.pretraining import pair_ids, text_ids
from bertcli.tasks.task import Batch, Example, Task, array, finite, packed, sequence
from bertcli.text.windows import best_window, halves, paired
from bertcli.text.wordpiece import WordPiece

TOKENS = 1024  # for which every piece is scored at once: of short texts, a pass has very many hidden tokens


class PseudoLikelihood(Task):
    """Tells how likely a text is, or whether of a minimal pair the good sentence is likelier; nothing is trained.

    Each token is hidden in a sequence of its own. A text longer than the model is read in overlapping windows, and a
    token hidden in the one in which it has the most context. A `[MASK]` in a text stays hidden and is not scored.
    """

    name = "pretraining"
    architecture = None
    pooler = False

    def __init__(self, wordpiece: WordPiece, max_length: int) -> None:
        """Take how texts are read."""
        self.wordpiece, self.max_length = wordpiece, max_length
        # Examples share their arrays, which are then made once, and once travel to other processes with a batch.
        self._numbers = [array([number]) for number in range(max_length)]
        self._unscored = {wordpiece.cls, wordpiece.sep, wordpiece.mask}

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns an example a token: its whole window, the `place` of the token in it, and the `text` that it is of.

        Those of one window share its ids, for a long text has very many; the token is hidden in `collate`.
        """
        texts = enumerate(self._texts(record))
        return [example for number, (first, second) in texts for example in self._each(first, second, number)]

    def _texts(self, record: Record) -> list[tuple[list[int], list[int] | None]]:
        """Returns the ids of each text to be judged, and of the second text that belongs to it, if any."""
        if (masked := record.get("masked_positions")) is not None:
            expected = "none: every token is scored, as of a pair before `mask`"
            raise BadData(field="masked_positions", found=masked, expected=expected)
        if record.get("tokens") is not None:
            return [self._sides(record)]
        if _is_minimal(record):
            checker(MinimalPair)(record)
            return [text_ids(self.wordpiece, {"text": record[name]}) for name in ("good", "bad")]
        checker(Words)(record)
        return [text_ids(self.wordpiece, record)]

    def _sides(self, record: Record) -> tuple[list[int], list[int] | None]:
        """Returns the segments of a pair, without the [CLS] and [SEP] round them."""
        checker(Pair)(record)
        cls, sep = self.wordpiece.cls, self.wordpiece.sep
        ids, border = pair_ids(self.wordpiece, record)
        first, second = ids[:border], None if border is None else ids[border:]
        if first[0] != cls or len(first) == 1 or first[-1] != sep or ids[-1] != sep:
            expected = "[CLS] A [SEP], or with segment_b [CLS] A [SEP] B [SEP]"
            raise BadData(field="tokens", found=record["tokens"], expected=expected)
        return first[1:-1], second and second[:-1]

    def _each(self, first: list[int], second: list[int] | None, number: int) -> Iterator[Example]:
        windows, places = self._read(first, second, number)
        return ({**windows[window], "place": self._numbers[place]} for window, place in places)

    def _read(
        self, first: list[int], second: list[int] | None, number: int
    ) -> tuple[list[Example], list[tuple[int, int]]]:
        """Returns the windows over a text, and of each token that is scored its window and its place in there."""
        spans = self._windows(len(first), None if second is None else len(second))
        windows, places = [], []
        for (a, b), (c, d) in spans:
            other = None if second is None else second[c:d]
            window, _ = sequence(self.wordpiece, first[a:b], other, self.max_length)
            windows.append({**window, "text": self._numbers[number]})
        for side, ids in enumerate((first, second or [])):
            own = [span[side] for span in spans]
            for token, best in enumerate(self._best(own, len(ids))):
                if ids[token] not in self._unscored:
                    begin = int(windows[best]["segment_b"][0]) if side else 1
                    places.append((best, begin + token - own[best][0]))
        return windows, places

    def _best(self, spans: list[tuple[int, int]], length: int) -> list[int]:
        """Returns for each token of a text the window in which it has the most context."""
        return best_window(spans, length)

    def _windows(self, first: int, second: int | None) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Returns the (start, end) of each window in a text of such a length, and in the one that is read with it."""
        if second is None:
            return [(span, (0, 0)) for span in halves(first, self.max_length - 2)]
        return paired(first, second, self.max_length - 3)

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch with the `positions` of the hidden tokens among all (B,), and their `ids` (B,)."""
        batch = packed(examples)
        positions = batch.starts + torch.tensor([int(example["place"][0]) for example in examples])
        ids = batch.ids[positions]
        batch.ids[positions] = self.wordpiece.mask
        return Batch(batch, {"positions": positions, "ids": ids}, {})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns the one head that is needed of those of pre-training."""
        return {"mlm": MaskedLanguageHead(config)}

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns none."""
        return {}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[Any]:
        """Returns for each example log p of the hidden token, in nats."""
        head, words = network.heads["mlm"], network.bert.embeddings.word.weight
        hidden = network.bert(batch.packed).index_select(0, batch.targets["positions"])
        losses = [
            cross_entropy(head(vectors, words).float(), ids, reduction="none")
            for vectors, ids in zip(_parts(hidden), _parts(batch.targets["ids"]), strict=True)
        ]
        return (-finite(torch.cat(losses))).tolist()

    def decode(self, record: Record, examples: list[Example], answer: list[Any]) -> Record:
        """Returns the record with the sum over its tokens, and each one's; of a minimal pair with both sums."""
        found = self._found(examples, answer)
        if _is_minimal(record):
            good, bad = (math.fsum(log for text, _, log in found if text == number) for number in (0, 1))
            return {**record, "prediction": good > bad, "details": {"log_likelihoods": [good, bad]}}
        logs, pieces = [log for _, _, log in found], self.wordpiece.pieces
        total, tokens = math.fsum(logs), [pieces[number] for _, number, _ in found]
        details = {"log_likelihood": total, "log_likelihoods": logs, "tokens": tokens}
        return {**record, "prediction": total, "details": details}

    def _found(self, examples: list[Example], answer: list[Any]) -> list[tuple[int, int, float]]:
        """Returns of each scored token, in their order, which text it is of, its id and log p."""
        return [
            (int(example["text"][0]), int(example["ids"][example["place"][0]]), log)
            for example, log in zip(examples, answer, strict=True)
        ]

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns the accuracy on minimal pairs."""
        return pairs.score(records)


def _parts(tensor: Tensor) -> list[Tensor]:
    return [tensor[start : start + TOKENS] for start in range(0, len(tensor), TOKENS)]


def _is_minimal(record: Record) -> bool:
    """Returns whether a record is a minimal pair, for want of any other text."""
    has_text = any(record.get(name) is not None for name in ("tokens", "text", "words"))
    return not has_text and any(record.get(name) is not None for name in ("good", "bad"))
