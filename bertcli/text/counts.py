"""How often each word comes in a text; memory grows with the distinct words, never with the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from bertcli.folder import LONGEST_WORD, Casing
from bertcli.records import Record
from bertcli.text.normalize import splitter
from bertcli.text.words import WordTable, portions, slices

BATCH = 1 << 22  # bytes that are counted together, so that the counts are few beside the words
LONGEST_KEPT = 16 * LONGEST_WORD  # of an absurd word; more than enough of one with an accent on each letter


def texts(record: Record, index: int) -> list[str]:
    """Returns the texts of a document: its text, or its sentences, or the words that these are given as."""
    if record.get("sentences") is None:
        return [record["text"]]
    return [text for each in record["sentences"] for text in ([each] if isinstance(each, str) else each)]


class WordCounter:
    """Counts words as BERT cuts them, with their case and accents; it remembers the runs that it met."""

    def __init__(self, *, split_cjk: bool) -> None:
        """Know no word yet."""
        self._runs = WordTable(lowercase=False, split_cjk=split_cjk)
        self._split = splitter(Casing(lowercase=False, strip_accents=False, split_cjk=split_cjk))
        self._words: list[list[str]] = []  # of each run, by its number

    def count(self, documents: Iterable[list[str]]) -> Counter[str]:
        """Returns how often each word comes in some documents."""
        totals = np.zeros(0, dtype=np.int64)
        for together in portions(part for texts in documents for text in texts for part in slices(text)):
            numbers = self._runs.find(together).numbers
            counts = np.bincount(numbers, minlength=len(self._runs.words))
            counts[: len(totals)] += totals
            totals = counts
        new = self._runs.words[len(self._words) :]
        self._words += [[word[:LONGEST_KEPT] for word in self._split(run.decode())] for run in new]
        words: Counter[str] = Counter()
        for number in np.flatnonzero(totals).tolist():
            for word in self._words[number]:
                words[word] += int(totals[number])
        if self._runs.is_full:
            self._runs.clear()
            self._words.clear()
        return words
