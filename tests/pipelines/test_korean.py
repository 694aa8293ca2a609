"""Korean through the whole text pipe: syllables stay whole, accents are kept unasked, hardly a word is lost."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import run
from tokenizers.normalizers import BertNormalizer

from bertcli.frames import decompressed
from bertcli.stream import loads

JAMO = [*map(chr, [*range(0x1100, 0x1200), *range(0xA960, 0xA980), *range(0xD7B0, 0xD800)])]
KEPT = "--uncased --no-strip-accents --split-cjk"


def content(path: Path) -> bytes:
    with path.open("rb") as file:
        return b"".join(decompressed(file))


@pytest.fixture(scope="module")
def home(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with an encyclopaedia and film reviews as text, their vocabulary, pairs, masks and pieces."""
    home = tmp_path_factory.mktemp("korean")
    wikipedia = shared / "korean" / "wikipedia.txt.zst"
    reviews = content(shared / "korean" / "nsmc-test-10k.tsv.zst").splitlines()[1:]
    (home / "reviews.txt").write_bytes(b"\n".join(row.split(b"\t")[1] for row in reviews))
    for line in (
        f"bertcli vocab {wikipedia} reviews.txt > vocab.txt 2> vocab.err",
        f"bertcli read text {wikipedia} | bertcli pairs 2> pairs.err | bertcli mask > masked.jsonl.zst",
        "bertcli tokenize reviews.txt > tokenized.jsonl.zst 2> tokenize.err",
    ):
        done = run(["bash", "-o", "pipefail", "-c", line], cwd=home)
        assert done.status == 0, done.err
    return home


def records(path: Path) -> Iterator[dict]:
    return map(loads, content(path).splitlines())


def originals(record: dict) -> list[str]:
    tokens = list(record["tokens"])
    for position, token in zip(record["masked_positions"], record["masked_tokens"], strict=True):
        tokens[position] = token
    return tokens


def test_accents_are_kept_all_along(home: Path) -> None:
    assert KEPT in (home / "vocab.err").read_text()
    for stage in ("pairs", "tokenize"):
        assert f"{KEPT} (inferred" in (home / f"{stage}.err").read_text()


def test_pieces_are_syllables(home: Path) -> None:
    pieces = (home / "vocab.txt").read_text().splitlines()
    assert len(pieces) == 30000
    assert sum("\uac00" <= piece[-1] <= "\ud7a3" for piece in pieces) > 20000
    assert set().union(*pieces).isdisjoint(JAMO)
    assert all(unicodedata.is_normalized("NFC", piece) for piece in pieces if piece[-1] > "\u1000")


def test_the_pieces_of_a_line_are_its_letters(home: Path) -> None:
    """Put together again, the pieces are the text in lower case, without blanks and with every syllable as it was."""
    normalize = BertNormalizer(lowercase=True, strip_accents=False).normalize_str
    whole = 0
    for record in records(home / "tokenized.jsonl.zst"):
        if "[UNK]" not in record["tokens"]:
            whole += 1
            together = "".join(piece.removeprefix("##") for piece in record["tokens"])
            assert together == "".join(normalize(record["text"]).split()), record
            assert [record["text"][start:end].lower() for start, end in record["offsets"]] == [
                piece.removeprefix("##") for piece in record["tokens"]
            ]
    assert whole > 9000


@pytest.mark.parametrize("stage", ["masked", "tokenized"])
def test_hardly_a_word_is_unknown(home: Path, stage: str) -> None:
    words = unknown = 0
    for record in records(home / f"{stage}.jsonl.zst"):
        tokens = originals(record) if stage == "masked" else record["tokens"]
        words += sum(not token.startswith("##") and token not in ("[CLS]", "[SEP]") for token in tokens)
        unknown += tokens.count("[UNK]")
    print(f"{stage}: {unknown} of {words} words are [UNK]")
    assert words > 100_000
    assert unknown < 0.001 * words


def test_pairs_are_whole(home: Path) -> None:
    pieces = set((home / "vocab.txt").read_text().splitlines())
    pairs = list(records(home / "masked.jsonl.zst"))
    assert len(pairs) > 1000
    for pair in pairs:
        tokens = originals(pair)
        assert pieces.issuperset(pair["tokens"])
        assert len(tokens) <= 128
        assert (tokens[0], tokens[-1], tokens[pair["segment_b"] - 1]) == ("[CLS]", "[SEP]", "[SEP]")
    assert 0.4 < sum(pair["is_next"] for pair in pairs) / len(pairs) < 0.6
