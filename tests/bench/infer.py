"""Inference against what one would use without bertcli, whole processes and steady rates.

python tests/bench/infer.py infer|cpu [--model FOLDER] [--count N]

infer: `bertcli predict` of a classifier of BERT-base's size with random weights, from texts in a file to answers in a
file: texts of 128 tokens by itself, then mixed lengths beside transformers' pipeline at several batch sizes, each in a
fresh process. cpu: `bertcli embed --pool mean` beside sentence-transformers, by turns, on all cores that it is given
(`taskset` says which); --model names a folder of all-MiniLM-L6-v2, else a model of its shape has random weights.
Prints one line a comparison: ours and theirs in texts a second, the ratio, cores, precision. A steady rate leaves out
what a process needs to begin: ours is that between a file's length and a hundredth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bertcli.folder import SPECIAL, Casing
from bertcli.model.config import Config, of_size
from bertcli.tasks.classification import ONE, Classification
from bertcli.tasks.embedding import Embedding, parse_layers
from bertcli.tasks.task import build
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.folder import open_folder, save_folder

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LABELS = ("negative", "positive")
BATCH_SIZES = (8, 32, 128, 512)
SHARE = 100  # a part of the file, by which the start is told from the work
TURNS = 5

PIPELINE = """
import json, sys, time, torch, transformers
transformers.utils.logging.set_verbosity_error()
model, file, size, device = sys.argv[1:]
answer = transformers.pipeline(
    "text-classification", model=model, device=device, dtype=torch.bfloat16, top_k=None, batch_size=int(size)
)
texts = [json.loads(line)["text"] for line in open(file)]
answer(texts[: int(size)], truncation=True, max_length=512)
begun = time.perf_counter()
made = [json.dumps(each) for each in answer(texts, truncation=True, max_length=512)]
print(len(made) / (time.perf_counter() - begun))
"""
SENTENCES = """
import json, sys, time
from sentence_transformers import SentenceTransformer, models
model, file = sys.argv[1:]
words = models.Transformer(model, max_seq_length=512)
encoder = SentenceTransformer(modules=[words, models.Pooling(words.get_word_embedding_dimension())], device="cpu")
texts = [json.loads(line)["text"] for line in open(file)]
encoder.encode(texts[:32])
begun = time.perf_counter()
made = encoder.encode(texts, batch_size=32)
print(len(made) / (time.perf_counter() - begun))
"""


def vocabulary(size: int = 30_000) -> WordPiece:
    """Returns a tokenizer of letters and made-up words, each of them a piece."""
    rng = random.Random(0)
    words = {"".join(rng.choices(LETTERS, k=rng.randint(3, 9))) for _ in range(size)}
    pieces = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *sorted(words - set(LETTERS))]
    return WordPiece(pieces, Casing(lowercase=True, strip_accents=True))


def classifier(path: Path, config: Config, wordpiece: WordPiece) -> Path:
    """Returns the folder of a classifier with random weights."""
    config = replace(config, labels=LABELS, problem_type=ONE)
    task = Classification(wordpiece, config.max_position_embeddings, LABELS)
    save_folder(path, build(task, config), task.architecture, wordpiece, config.max_position_embeddings, {})
    return path


def encoder(path: Path, config: Config, wordpiece: WordPiece) -> Path:
    """Returns the folder of an encoder with random weights."""
    task = Embedding(wordpiece, config.max_position_embeddings, parse_layers("last", config.num_hidden_layers))
    save_folder(path, build(task, config), "BertModel", wordpiece, config.max_position_embeddings, {})
    return path


def texts(path: Path, count: int, shortest: int, longest: int, wordpiece: WordPiece, seed: int = 0) -> Path:
    """Returns a file of records whose texts have so many words, common ones more often."""
    rng, words = random.Random(seed), [piece for piece in wordpiece.pieces if piece.isalpha() and len(piece) > 1]
    odds = [1 / (1 + rank) for rank in range(len(words))]
    pool = rng.choices(words, odds, k=1_000_000)
    with path.open("w") as file:
        for number in range(count):
            length = rng.randint(shortest, longest)
            start = rng.randrange(len(pool) - length)
            file.write(json.dumps({"id": number, "text": " ".join(pool[start : start + length])}) + "\n")
    return path


def head(path: Path, count: int) -> Path:
    """Returns a file with the first lines of another."""
    part = path.with_suffix(f".{count}.jsonl")
    with path.open() as whole, part.open("w") as file:
        file.writelines(line for line, _ in zip(whole, range(count), strict=False))
    return part


def seconds(*words: object) -> float:
    """Returns how long a command takes, its output in a file."""
    begun = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        subprocess.run(["bertcli", *map(str, words)], stdout=nowhere, check=True)
    return time.perf_counter() - begun


def rates(file: Path, count: int, *words: object) -> tuple[float, float]:
    """Returns the texts a second of a command on a file of so many: the whole process, and without its start."""
    part = head(file, count // SHARE)
    seconds(words[0], part, *words[1:])  # files and caches are warm for both sides
    short, whole = seconds(words[0], part, *words[1:]), seconds(words[0], file, *words[1:])
    return count / whole, (count - count // SHARE) / (whole - short)


def theirs(script: str, *words: object) -> float:
    """Returns the texts a second that a script says of itself, its start left out."""
    done = subprocess.run([sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.split()[-1])


def infer(count: int = 1_000_000, mixed: int = 60_000, device: str = "cuda") -> None:
    """Print our rate on texts of 128 tokens, and on mixed lengths ours and the pipeline's at its best batch size."""
    wordpiece, cores = vocabulary(), len(os.sched_getaffinity(0))
    with TemporaryDirectory() as folder:
        home = Path(folder)
        model = classifier(home / "model", of_size(12, 768, 12, vocab_size=len(wordpiece.pieces)), wordpiece)
        same = texts(home / "same.jsonl", count, 126, 126, wordpiece)
        options = ("-m", model, "--device", device, "--quiet")
        whole, steady = rates(same, count, "predict", *options)
        print(
            f"predict, base, 128 tokens: {steady:,.0f}/s, whole process {whole:,.0f}/s, {cores} cores, auto", flush=True
        )
        spread = texts(home / "mixed.jsonl", mixed, 3, 250, wordpiece)
        _, ours = rates(spread, mixed, "predict", *options)
        some = head(spread, mixed // 6)
        found = {size: theirs(PIPELINE, model, some, size, device) for size in BATCH_SIZES}
        best = max(found.values())
        listed = ", ".join(f"{size}: {rate:,.0f}" for size, rate in found.items())
        told = f"ours {ours:,.0f}/s, pipeline {best:,.0f}/s ({listed}), ratio {ours / best:.2f}"
        print(f"predict, base, 5-252 tokens: {told}, {cores} cores, bf16", flush=True)


def cpu(count: int = 400, model: Path | None = None, turns: int = TURNS) -> None:
    """Print our rate on mixed lengths and that of sentence-transformers, medians over turns."""
    cores = len(os.sched_getaffinity(0))
    with TemporaryDirectory() as folder:
        home, wordpiece = Path(folder), open_folder(model).wordpiece if model else vocabulary()
        size = of_size(6, 384, 12, vocab_size=len(wordpiece.pieces))
        path = model or encoder(home / "model", size, wordpiece)
        file = texts(home / "mixed.jsonl", count, 3, 250, wordpiece)
        options = ("embed", "-m", path, "--pool", "mean", "--device", "cpu", "--max-length", 512)
        pairs = [(rates(file, count, *options), theirs(SENTENCES, path, file)) for _ in range(turns)]
        whole, ours = (statistics.median(rate[index] for rate, _ in pairs) for index in (0, 1))
        peer = statistics.median(rate for _, rate in pairs)
        ratio = statistics.median(rate[1] / rate_of_peer for rate, rate_of_peer in pairs)
        told = f"ours {ours:,.0f}/s (whole process {whole:,.0f}/s), sentence-transformers {peer:,.0f}/s"
        print(f"embed, 6 x 384, 5-252 tokens: {told}, ratio {ratio:.2f}, {cores} cores, fp32", flush=True)


def main() -> None:
    """Run one comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["infer", "cpu"])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--count", type=int)
    asked = parser.parse_args()
    given = {} if asked.count is None else {"count": asked.count}
    infer(**given) if asked.which == "infer" else cpu(model=asked.model, **given)


if __name__ == "__main__":
    main()
