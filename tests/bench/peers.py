"""What one would write without bertcli: the scripts that tests/bench/text.py times beside it.

python tests/bench/peers.py SCRIPT ARGUMENT...: each script is a whole process, with `tokenizers` for the words.
"""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, BinaryIO

import orjson
import zstandard
from tokenizers import BertWordPieceTokenizer, Tokenizer


def open_tokenizer(vocabulary: str) -> Any:
    """Returns BERT's uncased tokenizer as `tokenizers` makes it, with all its methods."""
    return Tokenizer.from_str(BertWordPieceTokenizer(vocabulary).to_str())


def pieces_of(tokenizer: Any) -> list[str]:
    """Returns the vocabulary by id: what `encode_batch_fast` makes has no tokens."""
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def lines(path: str) -> Iterator[str]:
    """Yields a compressed file's lines."""
    with zstandard.open(path, "rb") as file, io.TextIOWrapper(file, "utf-8", newline="\n") as text:
        yield from (line.removesuffix("\n") for line in text)


def batches(items: Iterable[str], size: int = 1000) -> Iterator[list[str]]:
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


@contextmanager
def compressed() -> Iterator[BinaryIO]:
    """Gives stdout as one zstd frame of the level that bertcli writes."""
    with zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(sys.stdout.buffer) as out:
        yield out


# -- tokenize --------------------------------------------------------------------------------------------------------


def tokenize(vocabulary: str, path: str, *, offsets: bool = True) -> None:
    """Write each line with its tokens, ids and offsets, which `encode_batch` makes."""
    tokenizer = open_tokenizer(vocabulary)
    pieces = pieces_of(tokenizer)
    encode = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
    with compressed() as out:
        for batch in batches(line for line in lines(path) if line):
            for text, encoding in zip(batch, encode(batch, add_special_tokens=False), strict=True):
                ids = encoding.ids
                record = {"text": text, "tokens": [pieces[index] for index in ids], "ids": ids}
                out.write(orjson.dumps(record | {"offsets": encoding.offsets} if offsets else record) + b"\n")


def tokenize_without_offsets(vocabulary: str, path: str) -> None:
    """Write each line with its tokens and ids, which `encode_batch_fast` makes."""
    tokenize(vocabulary, path, offsets=False)


# -- vocab -----------------------------------------------------------------------------------------------------------


def vocab(size: str, *paths: str) -> None:
    """Write the vocabulary that the trainer of `tokenizers` learns by its defaults."""
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(chain.from_iterable(map(lines, paths)), vocab_size=int(size), show_progress=False)
    sys.stdout.write("".join(f"{piece}\n" for piece in pieces_of(tokenizer)))


def shuffled(*paths: str) -> None:
    """Write the lines of some files in another order."""
    everything = list(chain.from_iterable(map(lines, paths)))
    random.Random(0).shuffle(everything)
    with compressed() as out:
        for line in everything:
            out.write(f"{line}\n".encode())


# -- pairs and masks -------------------------------------------------------------------------------------------------

MAX_LENGTH, SHORT, RATE, RANDOM_NEXT = 128, 0.1, 0.15, 0.5

Document = list[list[str]]


def pretraining_data(vocabulary: str, path: str) -> None:
    """Write masked pairs as Google's script makes them: everything in memory, documents and pairs shuffled."""
    rng = random.Random(12345)
    tokenizer = open_tokenizer(vocabulary)
    pieces = pieces_of(tokenizer)
    documents = read_documents(tokenizer, pieces, path)
    rng.shuffle(documents)
    records = [
        masked(*pair, pieces, rng) for index in range(len(documents)) for pair in pairs_of(documents, index, rng)
    ]
    rng.shuffle(records)
    with compressed() as out:
        for record in records:
            out.write(orjson.dumps(record) + b"\n")


def read_documents(tokenizer: Any, pieces: list[str], path: str) -> list[Document]:
    """Returns the sentences of each document as tokens; a blank line ends one."""
    documents: list[Document] = [[]]
    for batch in batches(map(str.strip, lines(path))):
        for line, encoding in zip(batch, tokenizer.encode_batch_fast(batch, add_special_tokens=False), strict=True):
            if not line:
                documents.append([])
            elif ids := encoding.ids:
                documents[-1].append([pieces[index] for index in ids])
    return [document for document in documents if document]


def pairs_of(documents: list[Document], index: int, rng: random.Random) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yields (A, B, is_next) of one document."""
    document, room = documents[index], MAX_LENGTH - 3
    target = rng.randint(2, room) if rng.random() < SHORT else room
    chunk: Document = []
    position = length = 0
    while position < len(document):
        chunk.append(document[position])
        length += len(document[position])
        position += 1
        if position < len(document) and length < target:
            continue
        end = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first = list(chain.from_iterable(chunk[:end]))
        is_next = len(chunk) > 1 and rng.random() >= RANDOM_NEXT
        if is_next:
            second = list(chain.from_iterable(chunk[end:]))
        else:
            second = passage(documents, index, target - len(first), rng)
            position -= len(chunk) - end
        truncate(first, second, room, rng)
        yield first, second, is_next
        chunk, length = [], 0


def passage(documents: list[Document], index: int, length: int, rng: random.Random) -> list[str]:
    """Returns sentences from a random place of another document, until they make `length` tokens."""
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    tokens: list[str] = []
    for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
        tokens.extend(sentence)
        if len(tokens) >= length:
            break
    return tokens


def truncate(first: list[str], second: list[str], room: int, rng: random.Random) -> None:
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        longer.pop(0 if rng.random() < 0.5 else -1)


def masked(first: list[str], second: list[str], is_next: bool, pieces: list[str], rng: random.Random) -> dict[str, Any]:
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    places = [place for place, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    rng.shuffle(places)
    positions = sorted(places[: max(1, round(len(tokens) * RATE))])
    originals = [tokens[position] for position in positions]
    for position in positions:
        if rng.random() < 0.8:
            tokens[position] = "[MASK]"
        elif rng.random() < 0.5:
            tokens[position] = pieces[rng.randint(0, len(pieces) - 1)]
    return {
        "tokens": tokens,
        "segment_b": len(first) + 2,
        "is_next": is_next,
        "masked_positions": positions,
        "masked_tokens": originals,
    }


SCRIPTS = {
    script.__name__: script for script in (tokenize, tokenize_without_offsets, vocab, shuffled, pretraining_data)
}

if __name__ == "__main__":
    SCRIPTS[sys.argv[1]](*sys.argv[2:])
