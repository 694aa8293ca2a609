"""The pipe on real text: what a small model learns in a minute is more than how often each piece occurs."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from program import Result, run

from bertcli.frames import decompressed
from bertcli.stream import loads

MODEL = "--num-layers 2 --hidden-size 128 --num-heads 2 --max-length 64"
LINES = {"modern": 70_000, "heldout": 3_000}  # of the corpora, their first
LEARN = "--steps 400 --batch-size 16 --lr 2e-3 --warmup 0.05 --dropout 0 --save-every 0"


@pytest.fixture(scope="module")
def home(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a vocabulary, masked pairs of two corpora, and a model."""
    home = tmp_path_factory.mktemp("real")
    for name, count in LINES.items():
        with (shared / "corpus" / f"{name}.txt.zst").open("rb") as file:
            lines = b"".join(decompressed(file)).splitlines(keepends=True)
        (home / f"{name}.txt").write_bytes(b"".join(lines[:count]))
    for line in (
        "bertcli vocab modern.txt --size 4000 > vocab.txt",
        "bertcli read text modern.txt | bertcli pairs --max-length 64 | bertcli mask > train.jsonl.zst",
        "bertcli read text heldout.txt | bertcli pairs --max-length 64 | bertcli mask > held.jsonl.zst",
        f"bertcli pretrain train.jsonl.zst -o model {MODEL} {LEARN}",
    ):
        done = run(["bash", "-o", "pipefail", "-c", line], cwd=home)
        assert done.status == 0, done.err
    return home


def targets(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in b"".join(decompressed(file)).splitlines():
            yield from loads(line)["masked_tokens"]


def test_the_loss_is_below_the_unigram_cross_entropy(home: Path) -> None:
    line = "bertcli predict held.jsonl.zst --top-k 1 | bertcli score pretraining"
    score = json.loads(run(["bash", "-o", "pipefail", "-c", line], cwd=home).out)
    seen, asked = (Counter(targets(home / name)) for name in ("train.jsonl.zst", "held.jsonl.zst"))
    total, pieces = seen.total(), len((home / "vocab.txt").read_text().splitlines())
    unigram = -sum(n * math.log((seen[piece] + 1) / (total + pieces)) for piece, n in asked.items()) / asked.total()
    print(f"MLM loss {score['mlm_loss']:.3f}, unigram cross-entropy {unigram:.3f}, of {score['masked']} hidden tokens")
    assert score["masked"] == asked.total()
    assert score["mlm_loss"] < unigram


def test_its_vectors_are_those_of_transformers(home: Path, shell: Callable[..., Result]) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    texts = ["The results were published last year .", "No", "a longer sentence , with more words than the others"]
    line = f"bertcli embed -m {home}/model --layers concat4 --pool tokens --dtype float32 --text"
    refused = shell(line, "\n".join(texts).encode())
    assert refused.status == 2, "two layers and the embeddings are no four"
    line = line.replace("concat4", "0,1,2")
    rows = shell(line, "\n".join(texts).encode()).records
    tokenizer = transformers.AutoTokenizer.from_pretrained(home / "model")
    model = transformers.AutoModel.from_pretrained(home / "model").eval()
    for text, row in zip(texts, rows, strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
        expected = torch.cat(states, -1)[0].numpy()
        vectors = np.frombuffer(base64.b64decode(row["vectors"]["data"]), "<f4").reshape(row["vectors"]["shape"])
        assert row["tokens"] == tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        assert np.abs(vectors - expected).max() < 1e-5
