"""Tiny files in the layouts in which text and the paper's tasks are published, all of a dozen words."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

WORDS = ["the", "morning", "was", "bright", "and", "road", "long", "nobody", "saw", "ships", "harbour", "noon"]
PARTS = ("train", "dev")


def build(folder: Path) -> Path:
    """Returns the folder, filled: with text, and with the files of all tasks."""
    rng = random.Random(0)
    files = {"train.txt": text(rng, 24), "heldout.txt": text(rng, 6)}
    files |= {f"glue/{name}": content for name, content in glue(rng)}
    files |= {f"conll/{part}.txt": conll(rng) for part in ("train", "valid")}
    files |= {f"squad/{part}-v{version}.json": squad(rng, version) for part in PARTS for version in ("1.1", "2.0")}
    files |= {f"swag/{part}.csv": swag(rng) for part in ("train", "val")}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def sentence(rng: random.Random, length: int = 6) -> str:
    return " ".join(rng.choices(WORDS, k=length))


def text(rng: random.Random, documents: int) -> str:
    return "\n".join("".join(sentence(rng) + "\n" for _ in range(5)) for _ in range(documents))


def tsv(*rows: Iterable[object]) -> str:
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def glue(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yields files in the layouts of GLUE, their names and their texts: of SST-2, MRPC, STS-B and MNLI."""
    for part, count in {"train": 12, "dev": 8}.items():
        sides = [(number, sentence(rng), sentence(rng)) for number in range(count)]
        labels = ("entailment", "neutral", "contradiction")
        yield f"SST-2/{part}.tsv", tsv(("sentence", "label"), *((a, n % 2) for n, a, _ in sides))
        mrpc = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
        yield f"MRPC/{part}.tsv", tsv(mrpc, *((n % 2, 1, 2, a, b) for n, a, b in sides))
        yield f"STS-B/{part}.tsv", tsv(("sentence1", "sentence2", "score"), *((a, b, n % 5) for n, a, b in sides))
        for name in ["train"] if part == "train" else ["dev_matched", "dev_mismatched"]:
            mnli = ((a, b, labels[n % 3]) for n, a, b in sides)
            yield f"MNLI/{name}.tsv", tsv(("sentence1", "sentence2", "gold_label"), *mnli)


def conll(rng: random.Random) -> str:
    """Returns documents of two sentences each, with a city in each sentence."""
    sentences = ["".join(f"{word} O\n" for word in sentence(rng).split()) + "Oslo B-LOC\n\n" for _ in range(6)]
    return "".join(f"-DOCSTART- O\n\n{sentences[at]}{sentences[at + 1]}" for at in (0, 2, 4))


def squad(rng: random.Random, version: str) -> str:
    """Returns a file of SQuAD 1.1, or of 2.0, in which every other question has no answer."""
    paragraphs = []
    for number in range(8):
        context, is_impossible = sentence(rng, 12), version == "2.0" and number % 2 == 1
        answers = [] if is_impossible else [{"text": context.split()[0], "answer_start": 0}]
        question = {"id": f"q{number}", "question": sentence(rng), "answers": answers, "is_impossible": is_impossible}
        paragraphs.append({"context": context, "qas": [question]})
    return json.dumps({"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]})


def swag(rng: random.Random) -> str:
    """Returns a file in SWAG's regular layout."""
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    ends = [",".join(sentence(rng) for _ in range(4)) for _ in range(8)]
    return header + "".join(f"{n},v{n},{n},a b,{sentence(rng)},it,gold,{each},{n % 4}\n" for n, each in enumerate(ends))
