"""Pre-training as one would write it without bertcli: a loop over transformers' BertForPreTraining.

python tests/paper/transformers_loop.py PAIRS.jsonl.zst -v VOCAB -o FOLDER, and what budget.sh gives it: --help

All pairs are on the device as ids before the clock starts; masks are made there, afresh each epoch, by the rule of
transformers' collator. Every sequence is padded to --max-length: nine in ten have it, so that the longest of a batch
has it too, and torch.compile sees one shape only. On a GPU the model is compiled, under bf16 autocast. The optimizer
is torch's fused AdamW, the schedule transformers' linear one. Compiling, and the steps by which the speed is measured,
come before the clock, and what is learned in them is forgotten. `log.jsonl` has rows as bertcli's: at step 1, each 100
steps and at the end, with the tokens since the row before. The head scores all pieces at every token, as it does
in transformers.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
import zstandard
from torch import Tensor
from transformers import BertConfig, BertForPreTraining, get_linear_schedule_with_warmup

from bertcli.model.config import shape

WARM = 20  # steps in which code is compiled
LOGGED = 100  # steps a row
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
Columns = dict[str, Tensor]


def read(file: Path, ids: dict[str, int], length: int) -> Columns:
    """Returns all pairs: `ids` (N, length), padded with 0, and of each its `length`, B's first token, its label."""
    rows, numbers = [], []
    with file.open("rb") as packed:
        whole = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        for record in map(json.loads, io.BufferedReader(whole)):
            tokens = [ids[token] for token in record["tokens"]]
            rows.append(torch.tensor(tokens + [0] * (length - len(tokens)), dtype=torch.int32))
            numbers.append((len(tokens), record["segment_b"], int(not record["is_next"])))
    names = ("length", "segment_b", "random")
    return {"ids": torch.stack(rows), **dict(zip(names, torch.tensor(numbers).unbind(1), strict=True))}


class Masks:
    """Hides 15% of the tokens of a batch: 80% become [MASK], 10% a random piece, 10% stay."""

    def __init__(self, ids: dict[str, int], device: torch.device) -> None:
        self.mask, self.pieces = ids["[MASK]"], len(ids)
        self.special = torch.zeros(len(ids), dtype=torch.bool, device=device)
        self.special[[ids[name] for name in SPECIAL]] = True

    def __call__(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the ids to read, and those to predict, -100 where there is nothing to."""
        chosen = (torch.rand(ids.shape, device=ids.device) < 0.15) & ~self.special[ids]
        fate = torch.rand(ids.shape, device=ids.device)
        read = torch.where(chosen & (fate < 0.8), self.mask, ids)
        read = torch.where(chosen & (fate >= 0.9), torch.randint_like(ids, self.pieces), read)
        return read, torch.where(chosen, ids, -100)


def batches(pairs: Columns, size: int, masks: Masks, device: torch.device) -> Iterator[tuple[Columns, int]]:
    """Yields batches without end, as the model takes them, and the number of their tokens; each epoch shuffled anew."""
    if len(pairs["ids"]) < size:
        raise SystemExit(f"{len(pairs['ids'])} pairs are no batch of {size}")
    on_device = {name: column.to(device) for name, column in pairs.items()}
    places = torch.arange(pairs["ids"].shape[1], device=device)
    while True:
        order = torch.randperm(len(pairs["ids"]))
        for rows, own in zip(order.to(device).split(size), order.split(size), strict=True):
            if len(own) == size:  # what is left of an epoch would be another shape
                some = {name: column[rows] for name, column in on_device.items()}
                ids, labels = masks(some["ids"].long())
                inputs = {
                    "input_ids": ids,
                    "attention_mask": (places < some["length"][:, None]).long(),
                    "token_type_ids": (places >= some["segment_b"][:, None]).long(),
                    "labels": labels,
                    "next_sentence_label": some["random"],
                }
                yield inputs, int(pairs["length"][own].sum())


class Training:
    """A model with its optimizer and schedule; `forward` is the model, compiled or not."""

    def __init__(self, model: BertForPreTraining, forward: Callable[..., Any], asked: argparse.Namespace) -> None:
        self.model, self.forward, self.asked = model.train(), forward, asked
        matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in model.parameters() if parameter.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=asked.lr, eps=1e-6, fused=True)

    def rows(self, some: Iterator[tuple[Columns, int]], steps: int) -> Iterator[dict[str, Any]]:
        """Yields the rows of the log of so many steps."""
        warmup = int(self.asked.warmup * steps)
        schedule = get_linear_schedule_with_warmup(self.optimizer, warmup, steps)
        device, begun, tokens = self.model.device, time.monotonic(), 0
        for step, (inputs, own) in zip(count(1), islice(some, steps), strict=False):
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = self.forward(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            schedule.step()
            self.optimizer.zero_grad()
            tokens += own
            if step in (1, steps) or step % LOGGED == 0:
                row = {"step": step, "loss": loss.item(), "tokens": tokens}
                yield row | {"seconds": time.monotonic() - begun}
                tokens = 0


def fitting(model: BertForPreTraining, forward: Callable[..., Any], some: Any, asked: argparse.Namespace) -> int:
    """Returns how many steps fit into the seconds, or those that were asked for; code is compiled then."""
    training = Training(model, forward, asked)
    *_, _ = training.rows(some, WARM)
    if asked.steps:
        return int(asked.steps)
    first, *_, last = training.rows(some, asked.calibration)
    return 1 + int(asked.seconds * (last["step"] - first["step"]) / (last["seconds"] - first["seconds"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("-v", "--vocab", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    for name, kind in [
        *(("preset", str), ("batch-size", int), ("max-length", int), ("lr", float), ("warmup", float)),
        *(("seed", int), ("seconds", float), ("calibration", int), ("compile", str)),
    ]:
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--steps", type=int, help="instead of those that fit into the seconds")
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ids = {piece: number for number, piece in enumerate(asked.vocab.read_text().rstrip("\n").split("\n"))}
    layers, width, heads = shape(asked.preset)
    size = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    model = BertForPreTraining(BertConfig(vocab_size=len(ids), **size, intermediate_size=4 * width)).to(device)
    pairs = read(asked.pairs, ids, asked.max_length)
    some = batches(pairs, asked.batch_size, Masks(ids, device), device)
    forward = torch.compile(model, mode=asked.compile) if device.type == "cuda" else model
    fresh = deepcopy(model.state_dict())
    steps = fitting(model, forward, some, asked)
    model.load_state_dict(fresh)
    asked.output.mkdir(parents=True, exist_ok=True)
    with (asked.output / "log.jsonl").open("w") as log:
        for row in Training(model, forward, asked).rows(some, steps):
            print(json.dumps(row), file=log, flush=True)
    model.save_pretrained(asked.output)
    shutil.copy(asked.vocab, asked.output / "vocab.txt")
    with suppress(FileNotFoundError):  # where there is none the vocabulary tells its casing
        shutil.copy(asked.vocab.with_name("tokenizer_config.json"), asked.output)


if __name__ == "__main__":
    main()
