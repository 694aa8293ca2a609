"""What one would write without bertcli: a plain transformers loop over masked pairs on the CPU.

python tests/bench/pretraining_peer.py VOCAB PRESET BATCH STEPS FILE...: prints `step loss tokens seconds` a step, as
bertcli logs them. Records are padded to the longest of their batch, as transformers' collators do; they are in memory
as ids before the first step, so that reading costs nothing. Dropout 0.1, AdamW, the norm of the gradients cut at 1.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import zstandard
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForPreTraining

from bertcli.model.config import shape


def lines(path: str) -> Iterator[bytes]:
    with zstandard.open(path, "rb") as file:
        yield from io.BufferedReader(file)


def encoded(record: dict[str, Any], ids: dict[str, int]) -> dict[str, Tensor]:
    """Returns a masked pair as the model takes it; -100 where there is nothing to predict."""
    tokens = torch.tensor([ids[token] for token in record["tokens"]])
    labels = torch.full_like(tokens, -100)
    labels[record["masked_positions"]] = torch.tensor([ids[token] for token in record["masked_tokens"]])
    return {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "token_type_ids": (torch.arange(len(tokens)) >= record["segment_b"]).long(),
        "labels": labels,
        "next_sentence_label": torch.tensor(int(not record["is_next"])),
    }


def collated(examples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    columns = {name: [example[name] for example in examples] for name in examples[0]}
    labels = torch.stack(columns.pop("next_sentence_label"))
    padded = {name: pad_sequence(rows, True, -100 if name == "labels" else 0) for name, rows in columns.items()}
    return padded | {"next_sentence_label": labels}


def main(vocabulary: str, preset: str, batch: str, steps: str, *files: str) -> None:
    pieces = Path(vocabulary).read_text().splitlines()
    ids = {piece: number for number, piece in enumerate(pieces)}
    records = map(json.loads, chain.from_iterable(map(lines, files)))
    examples = [encoded(record, ids) for record in islice(records, int(batch) * int(steps))]
    layers, width, heads = shape(preset)
    config = BertConfig(
        vocab_size=len(pieces),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    model = BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    begun = time.monotonic()
    for step in range(1, int(steps) + 1):
        inputs = collated(examples[(step - 1) * int(batch) : step * int(batch)])
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        row = {"step": step, "loss": loss.item(), "tokens": int(inputs["attention_mask"].sum())}
        print(json.dumps(row | {"seconds": time.monotonic() - begun}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
