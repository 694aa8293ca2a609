"""The masked language model and next-sentence prediction (section 3.1), in training and in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData
from bertcli.metrics import pretraining as metrics
from bertcli.model.config import OBJECTIVES, Config
from bertcli.model.heads import MaskedLanguageHead, Network, NextSentenceHead
from bertcli.randomness import randomness
from bertcli.records import MaskedPair, Pair, Record, Words, checker, key
from bertcli.tasks.task import Batch, Example, Task, array, finite, grain, packed, sequence
from bertcli.text.mask import Masker, Masking, MaskRule
from bertcli.text.wordpiece import WordPiece

SCORED = 4096  # hidden tokens for which every piece is scored at once: in use, of all of them it would take much memory


class Pretraining(Task):
    """Finds hidden tokens and tells whether B follows A; under the objective `mlm` it does only the first."""

    name = "pretraining"
    loss = "mlm_loss"  # of the tokens, as the log calls it
    is_causal = False  # whether no token may see those after it

    def __init__(
        self,
        wordpiece: WordPiece,
        max_length: int,
        *,
        objective: str = "mlm+nsp",
        rule: MaskRule | None = None,
        seed: int = 0,
        asked: str = "",
        top_k: int = 1,
        training: bool = True,
    ) -> None:
        """Take how to mask pairs that come without masks, and how many pieces to name for each hidden one.

        `asked` is the option by which somebody asked for such a rule: pairs that have masks would not obey it.
        """
        self.wordpiece, self.max_length, self.objective = wordpiece, max_length, objective
        self.rule, self._asked = rule or MaskRule(), asked
        self.seed, self.top_k, self.training = seed, top_k, training
        self.architecture = OBJECTIVES[objective]
        self.pooler = self.has_nsp = objective == "mlm+nsp"
        self._completed = 0

    @cached_property
    def _masking(self) -> Masking:
        return Masking(self.wordpiece, self.rule, copies=1, seed=self.seed)

    @cached_property
    def _masker(self) -> Masker[int]:
        return Masker(self.rule, self.wordpiece.pieces, range(len(self.wordpiece.pieces)))

    # -- encode

    def learn_at(self, record: Record, index: int) -> list[Example]:
        """Returns the one sequence of a pair or a masked pair; one that is to be masked is known by id or index."""
        if self._asked and record.get("masked_positions") is not None:
            raise BadData(f"masked already, so that {self._asked} changes nothing", field="masked_positions")
        return self.encode(record, index)

    def encode(self, record: Record, index: int = 0) -> list[Example]:
        """Returns the one sequence of a pair, a masked pair, or (in use only) of a text or two with `[MASK]`."""
        if record.get("tokens") is not None or self.training:
            example = self._encode_pair(record, index)
        else:
            example = self._encode_text(record)
        length = len(example["ids"])
        if length > self.max_length:
            name = next((name for name in ("tokens", "words", "text") if record.get(name) is not None), "tokens")
            whose = "--max-length" if self.training else "the model's"
            raise BadData(f"{length} tokens are more than {whose} {self.max_length}", field=name)
        return [example]

    def _encode_pair(self, record: Record, index: int) -> Example:
        is_masked = record.get("masked_positions") is not None
        checker(MaskedPair if is_masked else Pair)(record)
        ids, border = pair_ids(self.wordpiece, record)
        is_next = record.get("is_next")
        if self.training and self.has_nsp and is_next is None:
            expected = "true or false for next-sentence prediction (else --objective mlm)"
            raise BadData(field="is_next", found=None, expected=expected)
        if self.training and is_next is not None and border is None:
            raise BadData(field="segment_b", found=None, expected="the index of B's first token, as there is is_next")
        starts = record.get("word_starts") or []
        if starts and not 0 <= min(starts) <= max(starts) < len(ids):  # by builtins: there are as many as tokens
            raise BadData("an index beyond the tokens", field="word_starts")
        if is_masked:
            positions, originals = self._masks(record, len(ids))
        else:  # in use, what is written as hidden; in training, what `at_epoch` will hide
            positions = (
                [] if self.training else [place for place, number in enumerate(ids) if number == self.wordpiece.mask]
            )
            originals = [-1] * len(positions)
        identity = "" if is_masked else key(record, index)
        return {
            "ids": array(ids),
            "segment_b": array([-1 if border is None else border]),
            "is_next": array([-1 if is_next is None else is_next]),
            "masked_positions": array(positions),
            "masked_ids": array(originals),
            "word_starts": array(starts if self.rule.whole_word else []),
            "key": np.frombuffer(identity.encode(), dtype=np.uint8),
        }

    def _masks(self, record: Record, length: int) -> tuple[list[int], list[int]]:
        positions, originals = (
            record["masked_positions"],
            self.wordpiece.ids_of(record["masked_tokens"], "masked_tokens"),
        )
        if len(positions) != len(originals):
            raise BadData(field="masked_tokens", found=originals, expected=f"{len(positions)} of them, one a position")
        for position in positions:
            if not 0 <= position < length:
                raise BadData(field="masked_positions", found=position, expected=f"indices below {length}")
        if len(set(positions)) < len(positions):
            raise BadData("a position comes twice", field="masked_positions")
        return positions, originals

    def _encode_text(self, record: Record) -> Example:
        checker(Words)(record)
        first, second = text_ids(self.wordpiece, record)
        example, _ = sequence(self.wordpiece, first, second, len(first) + len(second or []) + 3)
        hidden = np.flatnonzero(example["ids"] == self.wordpiece.mask)
        return {
            **example,
            "is_next": array([-1]),
            "masked_positions": array(hidden),
            "masked_ids": array([-1] * len(hidden)),
        }

    def at_epoch(self, example: Example, epoch: int) -> Example:
        """Returns the example with its own masks, or with fresh ones where it came without."""
        if not len(example["key"]):
            return example
        ids, starts = example["ids"].tolist(), example["word_starts"].tolist()
        rng = randomness(self.seed, epoch, example["key"].tobytes().decode())
        hidden, positions, originals = self._masker.mask(ids, starts, rng)
        return {
            **example,
            "ids": array(hidden),
            "masked_positions": array(positions),
            "masked_ids": array(originals),
        }

    def masked(self, record: Record) -> Record:
        """Returns a masked pair: the record itself, or a pair with the masks of the first epoch."""
        if record.get("masked_positions") is not None:
            return record
        checker(Pair)(record)
        index, self._completed = self._completed, self._completed + 1
        return self._masking.masked(record, index)[0]

    def padding(self, length: int) -> Example:
        """Returns an example without hidden tokens, of which nobody asks what follows."""
        none = {name: array([]) for name in ("masked_positions", "masked_ids", "word_starts")}
        return {**super().padding(length), "is_next": array([-1]), "key": np.empty(0, np.uint8), **none}

    def evened(self, batch: Batch) -> Batch:
        """Returns a batch with some hidden tokens more, of which nobody asks what they are."""
        positions, ids = batch.targets["positions"], batch.targets["ids"]
        rest = -len(ids) % grain(len(ids), len(batch.packed.lengths))
        more = {"positions": functional.pad(positions, (0, rest)), "ids": functional.pad(ids, (0, rest), value=-1)}
        return replace(batch, targets={**batch.targets, **more})

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch with `positions` of hidden tokens among all (M,), their `ids` (M,), `random`, `sizes` (B,).

        An id is -1 where the truth is not known; `random` is 1 where B is random, 0 where it follows, else -1;
        `sizes` are the numbers of hidden tokens.
        """
        batch = packed(examples)
        if self.training:  # of all batches the same, for code is made for it on a GPU
            batch = replace(batch, longest=self.max_length)
        starts = batch.boundaries.tolist()
        positions = [example["masked_positions"] + start for example, start in zip(examples, starts, strict=False)]
        ids = torch.from_numpy(np.concatenate([example["masked_ids"] for example in examples])).long()
        is_next = torch.tensor([int(example["is_next"][0]) for example in examples])
        random = torch.where(is_next < 0, -1, 1 - is_next)
        targets = {
            "positions": torch.from_numpy(np.concatenate(positions)).long(),
            "ids": ids,
            "random": random,
            "sizes": torch.tensor([len(own) for own in positions]),
        }
        counts = {self.loss: len(ids)} | ({"nsp_loss": int((random >= 0).sum())} if self.has_nsp else {})
        return Batch(batch, targets, counts)

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns the heads of the objective."""
        mlm: dict[str, nn.Module] = {"mlm": MaskedLanguageHead(config)}
        return {**mlm, "nsp": NextSentenceHead(config)} if self.has_nsp else mlm

    def hidden(self, network: Network, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Returns the vectors of the hidden tokens (M, H), and scores of the two classes of each pair (B, 2)."""
        bert = network.bert
        hidden = bert(batch.packed)
        masked = hidden.index_select(0, batch.targets["positions"])
        return masked, network.heads["nsp"](bert.pool(hidden, batch.packed)).float() if self.has_nsp else None

    def logits(self, network: Network, masked: Tensor) -> Tensor:
        """Returns scores of every piece at hidden tokens (M, V) of which the vectors are given (M, H)."""
        return network.heads["mlm"](masked, network.bert.embeddings.word.weight).float()  # type: ignore[no-any-return]

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the two cross-entropies, summed over hidden tokens and over pairs."""
        masked, classes = self.hidden(network, batch)
        head, words = network.heads["mlm"], network.bert.embeddings.word.weight
        assert isinstance(head, MaskedLanguageHead)
        losses = {self.loss: head.loss(masked, words, batch.targets["ids"])}
        if classes is not None:
            random = batch.targets["random"]
            losses["nsp_loss"] = functional.cross_entropy(classes, random, ignore_index=-1, reduction="sum")
        return losses

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[dict[str, Any]]:
        """Returns for each example the best pieces, their probabilities, the losses, and P(B follows A)."""
        masked, classes = self.hidden(network, batch)
        follows = None if classes is None else finite(classes).softmax(-1)[:, 0].tolist()
        truth = batch.targets["ids"].clamp(min=0)
        parts = [
            self._found(network, masked[begin : begin + SCORED], truth[begin : begin + SCORED])
            for begin in range(0, max(1, len(masked)), SCORED)
        ]
        tokens, probabilities, losses = (torch.cat(each).cpu() for each in zip(*parts, strict=True))
        bounds = [0, *batch.targets["sizes"].cumsum(0).tolist()]
        return [
            {
                "tokens": tokens[start:end].tolist(),
                "probabilities": probabilities[start:end].tolist(),
                "losses": losses[start:end].tolist(),
                "is_next_probability": None if follows is None else follows[number],
            }
            for number, (start, end) in enumerate(pairwise(bounds))
        ]

    def _found(self, network: Network, masked: Tensor, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns for some hidden tokens (M, H) the best pieces, (M, k), their probabilities, and the losses (M,)."""
        log_probabilities = finite(self.logits(network, masked)).log_softmax(-1)
        # A model may have more rows than there are pieces, to make a round number of them.
        best = log_probabilities[:, : len(self.wordpiece.pieces)].topk(min(self.top_k, len(self.wordpiece.pieces)))
        return best.indices, best.values.exp(), -log_probabilities.gather(-1, truth[:, None])[:, 0]

    def decode(self, record: Record, examples: list[Example], answer: list[dict[str, Any]]) -> Record:
        """Returns the record with the likeliest pieces for each hidden token, and what the losses and NSP say."""
        (example,), (output,) = examples, answer
        pieces = self.wordpiece.pieces
        prediction = [
            [{"token": pieces[number], "probability": p} for number, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(output["tokens"], output["probabilities"], strict=True)
        ]
        details: dict[str, Any] = {}
        if example["segment_b"][0] >= 0 and output["is_next_probability"] is not None:
            details["is_next_probability"] = output["is_next_probability"]
        if len(output["losses"]) and example["masked_ids"].min() >= 0:
            details["loss"] = sum(output["losses"]) / len(output["losses"])
        return {**record, "prediction": prediction, "details": details}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns MLM loss, perplexity and accuracy, and NSP accuracy."""
        return metrics.score(records)


def pair_ids(wordpiece: WordPiece, record: Record) -> tuple[list[int], int | None]:
    """Returns the ids of a pair and the index of B's first, None where there is no B; raises `BadData`."""
    ids, border = wordpiece.ids_of(record["tokens"]), record.get("segment_b")
    if not ids:
        raise BadData(field="tokens", found=[], expected="[CLS] and more")
    if border is not None and not 0 < border < len(ids):
        raise BadData(field="segment_b", found=border, expected="the index of a token")
    return ids, border


def text_ids(wordpiece: WordPiece, record: Record) -> tuple[list[int], list[int] | None]:
    """Returns the ids of a record's words or text, and of its second text; a `[MASK]` in them is the special token."""
    words, pair = record.get("words"), record.get("text_pair")
    text = record["text"] if words is None else " ".join(words)
    first = wordpiece.encode(text, mask_is_special=True).ids
    return first, None if pair is None else wordpiece.encode(pair, mask_is_special=True).ids
