"""How often each word comes in a text; memory grows with the distinct words, never with the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from bertcli.folder import Casing
from bertcli.records import Record
from bertcli.text.normalize import splitter
from bertcli.text.words import WordTable, portions, slices

BATCH = 1 << 22  # bytes that are counted together, so that the counts are few beside the words
LONGEST_WORD = 100  # code points; a longer word is [UNK] to the tokenizer
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
        self._words = WordTable(lowercase=False, split_cjk=split_cjk)
        self._split = splitter(Casing(lowercase=False, strip_accents=False, split_cjk=split_cjk))

    def count(self, documents: Iterable[list[str]]) -> Counter[str]:
        """Returns how often each word comes in some documents."""
        totals = np.zeros(0, dtype=np.int64)
        for together in portions(part for texts in documents for text in texts for part in slices(text)):
            numbers = self._words.find(together).numbers
            counts = np.bincount(numbers, minlength=len(self._words.words))
            counts[: len(totals)] += totals
            totals = counts
        words: Counter[str] = Counter()
        for number in np.flatnonzero(totals).tolist():
            for word in self._split(self._words.words[number].decode()):
                words[word[:LONGEST_KEPT]] += int(totals[number])
        if self._words.is_full:
            self._words.clear()
        return words
