"""What vocabularies are worth on text that they were not learned from: ours beside those of `tokenizers`' trainer.

python tests/bench/vocab.py DATA: English and Korean, 8,000 and 30,000 pieces. Every vocabulary is learned from the same
text and measured by `tokenizers`: pieces a word, an unknown word being one, and the share of the words unknown.

The trainer's default is 1,000 characters, and where that is not all it runs a second time with all. Because a word with
an unknown character costs one piece only, the fewer characters, the fewer pieces: so ours is learned once by its own
default, and once with as large an alphabet as each of the peers'.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from peers import lines
from tokenizers import BertWordPieceTokenizer


class Corpus(NamedTuple):
    """Files to learn from, and words to measure on; uncased, Korean with its accents."""

    name: str
    files: list[Path]
    heldout: Counter[str]
    strip_accents: bool


def words(tokenizer: Any, texts: list[str]) -> Counter[str]:
    """Returns how often each normalised word comes."""
    normalize, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    return Counter(word for text in texts for word, _ in split(normalize(text)))


def english(data: Path) -> Corpus:
    corpus = data / "corpus"
    heldout = words(BertWordPieceTokenizer(), list(lines(str(corpus / "heldout.txt.zst"))))
    return Corpus("English", [corpus / "modern.txt.zst", corpus / "books.txt.zst"], heldout, strip_accents=True)


def korean(data: Path, folder: Path) -> Corpus:
    """The encyclopaedia but for its last documents, and the reviews to train on; held out, those and the test's."""
    documents = "\n".join(lines(str(data / "korean" / "wikipedia.txt.zst"))).split("\n\n")
    train, test = (
        [row.split("\t")[1] for row in lines(str(data / "korean" / f"nsmc-{part}.tsv.zst")) if "\t" in row][1:]
        for part in ("train-60k", "test-10k")
    )
    file = folder / "korean.txt"
    file.write_text("\n".join(documents[:120] + train))
    return Corpus("Korean", [file], words(BertWordPieceTokenizer(strip_accents=False), documents[120:] + test), False)


def ours(corpus: Corpus, size: int, vocabulary: Path, *options: str) -> None:
    command = [sys.executable, "-m", "bertcli", "vocab", "--quiet", "--size", str(size), *options]
    with vocabulary.open("wb") as file:
        subprocess.run([*command, *map(str, corpus.files)], stdout=file, check=True)


def theirs(corpus: Corpus, size: int, vocabulary: Path, characters: int) -> None:
    tokenizer = BertWordPieceTokenizer(strip_accents=corpus.strip_accents)
    texts = chain.from_iterable(lines(str(file)) if file.suffix == ".zst" else file.open() for file in corpus.files)
    tokenizer.train_from_iterator(texts, vocab_size=size, limit_alphabet=characters, show_progress=False)
    ids = tokenizer.get_vocab()
    vocabulary.write_text("".join(f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__)))


class Figures(NamedTuple):
    """What a vocabulary is worth on running words, and how many of its pieces are single characters."""

    pieces_a_word: float
    unknown: float
    characters: int


def figures(corpus: Corpus, vocabulary: Path) -> Figures:
    tokenizer = BertWordPieceTokenizer(str(vocabulary), strip_accents=corpus.strip_accents)
    encodings = tokenizer.encode_batch(list(corpus.heldout), add_special_tokens=False)
    pieces = unknown = 0
    for encoding, count in zip(encodings, corpus.heldout.values(), strict=True):
        pieces += count * len(encoding.tokens)
        unknown += count * ("[UNK]" in encoding.tokens)
    total = corpus.heldout.total()
    characters = sum(len(piece.removeprefix("##")) == 1 for piece in tokenizer.get_vocab())
    return Figures(pieces / total, unknown / total, characters)


def show(name: str, found: Figures, against: Figures | None = None) -> None:
    ratio = f"   pieces {found.pieces_a_word / against.pieces_a_word:.4f} times" if against else ""
    print(f"  {name:<28}{found.pieces_a_word:.4f} pieces a word {found.unknown:9.4%} [UNK]{ratio}", flush=True)


def compare(corpus: Corpus, size: int, vocabulary: Path) -> None:
    print(f"\n{corpus.name}, {size:,} pieces; {corpus.heldout.total():,} words held out")
    ours(corpus, size, vocabulary)
    mine = figures(corpus, vocabulary)
    for limit in (1000, 1 << 20):
        theirs(corpus, size, vocabulary, limit)
        peer = figures(corpus, vocabulary)
        show(f"tokenizers, {peer.characters} characters", peer)
        show(f"bertcli, {mine.characters} characters", mine, peer)
        ours(corpus, size, vocabulary, "--alphabet", str(peer.characters))
        like = figures(corpus, vocabulary)
        if like != mine:
            show(f"bertcli, {like.characters} characters", like, peer)
        if peer.characters < limit:
            return  # it knows all there are


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for corpus in (english(data), korean(data, Path(folder))):
            for size in (8000, 30000):
                compare(corpus, size, Path(folder) / "vocab.txt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
