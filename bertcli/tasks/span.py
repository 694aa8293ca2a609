"""Where a context answers a question, as in SQuAD 1.1 and 2.0 (sections 4.2 and 4.3).

A context beyond one window is read in windows, `stride` tokens apart, with the question in each of them. The answer
is the likeliest span, in whichever window it has the most context; [CLS] stands for no answer.

Shapes: T tokens, S sequences, L tokens of the longest.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData
from bertcli.metrics import span as metrics
from bertcli.model.config import Config
from bertcli.model.heads import Network, SpanHead
from bertcli.records import Question, Record, checker
from bertcli.records import Span as Schema
from bertcli.tasks.task import Batch, Example, Task, array, finite, packed, sequence, softmax
from bertcli.text.windows import best_window, windows
from bertcli.text.wordpiece import WordPiece

NOWHERE = -1  # where an example's answer is that has none to learn from
CANDIDATES = 20  # starts and ends of a window that are tried with each other, Google's number, among those that may be


@dataclass(frozen=True)
class Rule:
    """How contexts are read, and what an answer may be; lengths in tokens.

    `null_threshold` is the lead of no answer over the best span from which on there is none; None always answers.
    """

    stride: int = 128
    max_question: int = 64
    max_answer: int = 30
    null_threshold: float | None = None


class Context(NamedTuple):
    """A context's pieces, and where each begins and ends in it (n, 2)."""

    text: str
    ids: list[int]
    offsets: NDArray[np.int32]


class Span(Task):
    """Finds the stretch of a context that answers a question, or says that there is none."""

    name = "span"
    architecture = "BertForQuestionAnswering"
    pooler = False
    criteria = ("f1",)
    units = "questions"

    def __init__(self, wordpiece: WordPiece, max_length: int, rule: Rule | None = None, nbest: int = 0) -> None:
        """Take the rule, and how many answers to name for each question beside the best."""
        self.wordpiece, self.max_length, self.rule, self.nbest = wordpiece, max_length, rule or Rule(), nbest
        self._context = Context("", [], np.zeros((0, 2), np.int32))
        self.lost = 0  # questions to learn from whose answer is nowhere in the context

    @property
    def room(self) -> int:
        """Returns the tokens that a question may have: half of a window at most."""
        return min(self.rule.max_question, (self.max_length - 3) // 2)

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window of the context, with its pieces' `offsets` and which it answers for."""
        checker(Question)(record)
        question = self.wordpiece.text_ids(record["question"])
        self.shortened += len(question) > self.room
        question, context = question[: self.room], self._read(record["context"])
        room = self.max_length - 3 - len(question)
        # Windows that hardly overlap would lose the answers between them.
        stride = min(self.rule.stride, max(1, room // 2))
        spans = windows(len(context.ids), room, stride) or [(0, 0)]
        owner = np.array(best_window(spans, len(context.ids)))
        examples = []
        for number, (start, end) in enumerate(spans):
            example, _ = sequence(self.wordpiece, question, context.ids[start:end], self.max_length)
            offsets, is_best = context.offsets[start:end].reshape(-1), owner[start:end] == number
            examples.append({**example, "offsets": offsets, "is_best": is_best})
        return examples

    def _read(self, text: str) -> Context:
        if text != self._context.text:  # the questions of one context follow each other
            ids, offsets = self.wordpiece.encode(text)
            # A letter's combining marks, of which its piece may know nothing, are part of an answer that ends with it.
            whole = offsets if text.isascii() else [(start, _end_of_letter(text, end)) for start, end in offsets]
            self._context = Context(text, ids, np.array(whole, np.int32).reshape(-1, 2))
        return self._context

    def learn(self, record: Record) -> list[Example]:
        """Returns the windows with the answer's first and last token; [CLS] where it is not in the window.

        There are none for a question whose answer is nowhere in the context.
        """
        windows, gold = self.encode(record), self.gold(record)
        if not record["answers"] and self.rule.null_threshold is None:
            self.rule = replace(self.rule, null_threshold=0.0)
        place = self._place(record["context"], gold, record["answers"][0]["start"]) if record["answers"] else (0, 0)
        pieces = 0 if place is None else len(_overlapping(self._context.offsets, place))
        if place is None or (record["answers"] and not pieces):
            self.lost += 1
            return []
        examples = []
        for window in windows:
            inside = _overlapping(window["offsets"].reshape(-1, 2), place) + int(window["segment_b"][0])
            span = [inside[0], inside[-1]] if 0 < pieces == len(inside) else [0, 0]
            examples.append({"ids": window["ids"], "segment_b": window["segment_b"], "span": array(span)})
        return examples

    @staticmethod
    def _place(context: str, text: str, start: int) -> tuple[int, int] | None:
        """Returns where an answer begins and ends: where it is said to, else the nearest place that reads like it."""
        if text and start >= 0 and context.startswith(text, start):
            return start, start + len(text)
        pattern = r"\s+".join(map(re.escape, text.split()))
        found = [match.span() for match in re.finditer(pattern, context, re.IGNORECASE)] if pattern else []
        return min(found, key=lambda span: abs(span[0] - start), default=None)

    def gold(self, record: Record) -> str:
        """Returns the first answer of a record, "" where the context has none."""
        checker(Schema)(record)
        if record.get("answers") is None:
            raise BadData(field="answers", found=None, expected="a list of answers, [] where there is none")
        return record["answers"][0]["text"] if record["answers"] else ""

    def __str__(self) -> str:
        """Returns how the questions are read."""
        told = [f"windows {self.rule.stride} tokens apart, at most half of one"]
        told += [f"{self.shortened} questions cut to {self.room} tokens"] if self.shortened else []
        told += [f"{self.lost} left out, their answer is not in the context"] if self.lost else []
        return "; ".join(told)

    def padding(self, length: int) -> Example:
        """Returns an example without an answer, nor the lack of one."""
        return {**super().padding(length), "span": array([NOWHERE, NOWHERE])}

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch; where they are known with each sequence's `spans`, first and last token in it: (S, 2).

        `owner` (T,) is each token's sequence.
        """
        batch = packed(examples)
        if "span" not in examples[0]:
            return Batch(batch, {}, {})
        spans = torch.from_numpy(np.stack([example["span"] for example in examples])).long()
        owner = torch.from_numpy(np.repeat(np.arange(len(examples)), batch.lengths))
        return Batch(batch, {"spans": spans, "owner": owner}, {"loss": float((spans[:, 0] != NOWHERE).sum())})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product of two rows over each token's vector."""
        return {"span": SpanHead(config)}

    def logits(self, network: Network, batch: Batch) -> Tensor:
        """Returns each token's scores as the first and as the last of the answer: (T, 2)."""
        scores: Tensor = network.heads["span"](network.hidden(batch.packed))
        return scores.float()

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the mean of the cross-entropies of first and last token, summed over the sequences."""
        spans, owner = batch.targets["spans"], batch.targets["owner"]
        scores = self.logits(network, batch)
        rows = scores.new_full((len(spans), batch.packed.longest, 2), -torch.inf)  # (S, L, 2)
        rows = rows.index_put((owner, batch.packed.positions), scores)
        return {"loss": functional.cross_entropy(rows, spans, ignore_index=NOWHERE, reduction="sum") / 2}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[NDArray[np.float32]]:
        """Returns each sequence's scores: (its tokens, 2)."""
        scores = finite(self.logits(network, batch)).cpu().numpy()
        return np.split(scores, np.cumsum(batch.packed.lengths)[:-1])

    def combine(self, examples: list[Example], outputs: list[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns the scores of all windows: (T, 2)."""
        return np.concatenate(outputs).astype(np.float64)

    def decode(self, record: Record, examples: list[Example], answer: NDArray[np.float64]) -> Record:
        """Returns the record with its answer, and the scores of the best span and of none.

        Where a context is empty the best span is empty too, and has the score of none.
        """
        sizes = np.cumsum([len(example["ids"]) for example in examples])[:-1]
        windows = list(zip(examples, np.split(answer, sizes), strict=True))
        null = min(float(own[0].sum()) for _, own in windows)
        found = sorted((span for window in windows for span in self._candidates(*window)), key=_descending)
        score, start, end = found[0] if found else (null, 0, 0)
        details: dict[str, Any] = {"start": start, "end": end, "score": score, "null_score": null}
        if self.nbest:
            details["nbest"] = self._list(record["context"], found, null)
        return self._decided({**record, "prediction": "", "details": details})

    def _candidates(self, example: Example, scores: NDArray[np.float64]) -> list[tuple[float, int, int]]:
        """Returns a window's best spans: score, and where in the context it begins and ends."""
        offsets, border = example["offsets"].reshape(-1, 2), int(example["segment_b"][0])
        own = scores[border : border + len(offsets)]
        count = max(CANDIDATES, self.nbest)
        starts = _largest(np.where(example["is_best"], own[:, 0], -np.inf), count)
        ends = _largest(own[:, 1], count)
        sums = own[starts, 0][:, None] + own[ends, 1]
        lengths = ends - starts[:, None]
        sums[(lengths < 0) | (lengths >= self.rule.max_answer) | ~example["is_best"][starts][:, None]] = -np.inf
        best = [place for place in _largest(sums.ravel(), count) if sums.flat[place] > -np.inf]
        pairs = [(starts[place // len(ends)], ends[place % len(ends)], sums.flat[place]) for place in best]
        return [(float(score), int(offsets[first, 0]), int(offsets[last, 1])) for first, last, score in pairs]

    def _list(self, context: str, found: list[tuple[float, int, int]], null: float) -> list[dict[str, Any]]:
        """Returns the best answers, each text once; among them, where there may be none, the empty one."""
        texts: dict[str, tuple[float, int, int]] = {}
        for score, start, end in found:
            texts.setdefault(context[start:end], (score, start, end))
        best = list(texts.values())[: self.nbest]  # found is sorted
        if self.rule.null_threshold is not None or not best:
            best = sorted([*best, (null, 0, 0)], key=_descending)
        probabilities = softmax(np.array([score for score, _, _ in best])).tolist()
        return [
            {"text": context[start:end], "start": start, "end": end, "score": score, "probability": probability}
            for (score, start, end), probability in zip(best, probabilities, strict=True)
        ]

    def _decided(self, record: Record) -> Record:
        """Returns an answered record with the answer that the threshold lets stand."""
        details, threshold = record["details"], self.rule.null_threshold
        is_none = threshold is not None and details["null_score"] - details["score"] > threshold
        return {**record, "prediction": "" if is_none else record["context"][details["start"] : details["end"]]}

    def calibrate(self, records: list[Record]) -> list[Record]:
        """Returns answered records under the threshold that gives them the best F1, where some have no answer."""
        if self.rule.null_threshold is None or all(record["answers"] for record in records):
            return records
        self.rule = replace(self.rule, null_threshold=metrics.best_threshold(map(metrics.observe, records)))
        return [self._decided(record) for record in records]

    def join(self, others: Sequence[Span]) -> None:
        """Take the mean of all models' thresholds, where all have one."""
        thresholds = [task.rule.null_threshold for task in (self, *others)]
        known = [threshold for threshold in thresholds if threshold is not None]
        if others:
            mean = float(np.mean(known)) if len(known) == len(thresholds) else None
            self.rule = replace(self.rule, null_threshold=mean)

    def options(self) -> dict[str, Any]:
        """Returns the rule, but for the threshold, which is learned, beside what all tasks are told."""
        return {**super().options(), **asdict(self.rule), "null_threshold": None}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns exact match and F1."""
        return metrics.score(records)

    def notes(self) -> dict[str, Any]:
        """Returns the rule."""
        return asdict(self.rule)


def _end_of_letter(text: str, end: int) -> int:
    """Returns where a letter that ends here has its last combining mark."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return end


def _descending(span: tuple[float, int, int]) -> tuple[float, int, int]:
    """Returns the key by which spans are sorted: the best score, of equals the first and shortest."""
    return -span[0], span[1], span[2]


def _overlapping(offsets: NDArray[np.int32], place: tuple[int, int]) -> NDArray[np.int64]:
    """Returns the indices of the pieces that have characters of a place."""
    return np.flatnonzero((offsets[:, 1] > place[0]) & (offsets[:, 0] < place[1]))


def _largest(numbers: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Returns the places of the largest numbers, the largest first."""
    if len(numbers) > count:
        places: NDArray[np.int64] = np.argpartition(-numbers, count)[:count]
    else:
        places = np.arange(len(numbers))
    return places[np.argsort(-numbers[places], kind="stable")]
