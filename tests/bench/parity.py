"""Every id and offset that we make beside those of `tokenizers`: over all real text, and over hostile strings.

python tests/bench/parity.py DATA [--strings 200000]: prints how many texts and pieces were compared, for each
vocabulary and corpus, then for each casing of the strings; ends at the first difference with the text and status 1.

The peer is what BertWordPieceTokenizer is made of, without its added tokens: it would find them in a text in which
they are written, where they are text to us. So no text is left out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from bertcli.folder import SPECIAL, UNK, Casing, read_vocabulary
from bertcli.text.batch import BatchEncoder
from bertcli.text.wordpiece import WordPiece

TESTS = Path(__file__).parents[1]
# The suite's own hostile characters, pieces and casings.
sys.path += [str(TESTS), str(TESTS / "text")]
from test_wordpiece import CASINGS, PIECES, TEXT, WORDS  # type: ignore[import-not-found]  # noqa: E402

VOCABULARIES = {
    "bert-base-uncased": Casing(True, True),
    "bert-base-cased": Casing(False, False),
    "bert-base-multilingual-cased": Casing(False, False),
}
BATCH = 1000  # texts
PROCESSES = 2
MADE_AT_ONCE = 100  # strings of one example

# Words of the lengths at which something changes, special tokens, and what stands between hostile characters.
LENGTHS = [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 99, 100, 101, 400]
FRAGMENTS = [*SPECIAL, *WORDS.split(), *(character * length for character in "aé中\u0301" for length in LENGTHS)]
MIXED = st.lists(st.one_of(TEXT, st.sampled_from(FRAGMENTS)), max_size=8).map("".join)


# -- the comparison --------------------------------------------------------------------------------------------------


def peer(ids: dict[str, int], casing: Casing) -> Any:
    """Returns the tokenizer of `tokenizers`."""
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=casing.split_cjk,
        strip_accents=casing.strip_accents,
        lowercase=casing.lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


@cache
def both(path: Path | None, casing: Casing) -> tuple[BatchEncoder, Any]:
    """Returns ours and the peer, of a vocabulary file, else of the suite's own pieces."""
    pieces = read_vocabulary(path) if path else list(dict.fromkeys(PIECES))
    return BatchEncoder(WordPiece(pieces, casing)), peer({piece: index for index, piece in enumerate(pieces)}, casing)


def compare(path: Path | None, casing: Casing, texts: list[str]) -> int:
    """Returns how many pieces the texts have; raises `AssertionError` at the first that differ."""
    encoder, theirs = both(path, casing)
    ours, every, count = encoder.wordpiece, encoder.encode(texts), 0
    for index, expected in enumerate(theirs.encode_batch(texts, add_special_tokens=False)):
        text, ids, offsets = texts[index], expected.ids, expected.offsets
        part = slice(*every.bounds[index : index + 2].tolist())
        ways = {
            "text_ids": (ours.text_ids(text), offsets),
            "encode": tuple(ours.encode(text)),
            "BatchEncoder": (every.ids[part].tolist(), list(map(tuple, every.offsets[part].tolist()))),
        }
        for way, found in ways.items():
            if found != (ids, offsets):
                raise AssertionError(f"{way} of {text!r}, {path}, {casing}: {found}, expected {(ids, offsets)}")
        count += len(ids)
    return count


# -- real text -------------------------------------------------------------------------------------------------------


def strings(value: Any) -> Iterator[str]:
    """Yields every string of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def texts(path: Path) -> Iterator[str]:
    """Yields a file's lines; of JSON the strings, of CoNLL's columns the sentences."""
    with zstandard.open(path, "rb") if path.suffix == ".zst" else path.open("rb") as file:
        lines = (line.removesuffix("\n") for line in io.TextIOWrapper(file, "utf-8", newline="\n"))
        if ".jsonl" in path.suffixes:
            yield from (text for line in lines for text in strings(json.loads(line)))
        elif ".json" in path.suffixes:
            yield from strings(json.loads("\n".join(lines)))
        elif path.parent.name.startswith("conll"):
            for is_sentence, rows in groupby(lines, key=bool):
                if is_sentence:
                    yield " ".join(row.split(" ")[0] for row in rows)
        else:
            yield from lines


def batches(items: Iterable[str]) -> Iterator[list[str]]:
    items = iter(items)
    while batch := list(islice(items, BATCH)):
        yield batch


def compare_file(vocabulary: Path, casing: Casing, job: tuple[Path, int]) -> tuple[int, int]:
    """Returns how many texts and pieces there are in one process's share of a file."""
    path, share = job
    own = islice(texts(path), share, None, PROCESSES)
    sizes = [(len(batch), compare(vocabulary, casing, batch)) for batch in batches(own)]
    return sum(size for size, _ in sizes), sum(pieces for _, pieces in sizes)


def compare_corpora(data: Path, pool: Executor) -> None:
    for name, casing in VOCABULARIES.items():
        compared = partial(compare_file, data / "vocab" / f"{name}-vocab.txt", casing)
        for folder in sorted(path for path in data.iterdir() if path.is_dir() and path.name != "vocab"):
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            jobs = [(path, share) for path in files for share in range(PROCESSES)]
            report(f"{name}, {folder.name}", pool.map(compared, jobs))


# -- hostile strings -------------------------------------------------------------------------------------------------


def hostile(count: int) -> list[str]:
    """Returns so many distinct strings, the same in every run."""
    made: dict[str, None] = {}

    @settings(
        max_examples=1 + 3 * count // (2 * MADE_AT_ONCE),  # strings come again, from example to example
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(st.one_of(TEXT, MIXED), min_size=MADE_AT_ONCE, max_size=MADE_AT_ONCE, unique=True))
    def make(texts: list[str]) -> None:
        made.update(dict.fromkeys(texts))

    make()
    return list(made)[:count]


def compare_hostile(casing: Casing, batch: list[str]) -> tuple[int, int]:
    return len(batch), compare(None, casing, batch)


def compare_strings(count: int, pool: Executor) -> None:
    made = hostile(count)
    for casing in CASINGS:
        report(f"hostile, {casing}", pool.map(partial(compare_hostile, casing), batches(made)))


# -- the whole -------------------------------------------------------------------------------------------------------


def report(name: str, results: Iterable[tuple[int, int]]) -> None:
    """Print what was compared, once all of it has come."""
    begun = time.monotonic()
    compared, pieces = (sum(counts) for counts in zip(*results, strict=True))
    print(f"{name}: {compared} texts, {pieces} pieces, 0 differ ({time.monotonic() - begun:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--strings", type=int, default=200_000)
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # two processes use the cores already
    with ProcessPoolExecutor(PROCESSES) as pool:
        try:
            compare_strings(arguments.strings, pool)
            compare_corpora(arguments.data, pool)
        except AssertionError as difference:
            sys.exit(str(difference))


if __name__ == "__main__":
    main()
