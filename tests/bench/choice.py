"""The peer of `finetune choice`: a plain loop round transformers' BertForMultipleChoice, last epoch scored.

MODEL=folder DATA=folder python tests/bench/choice.py swag RESTARTS LR EPOCHS BATCH: DATA holds swag-{train,val}.csv in
SWAG's regular layout. Like the other loops it has bf16 on a GPU, dynamic padding, AdamW and 10% warm-up.
"""

from __future__ import annotations

import csv
import math
import os
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertForMultipleChoice

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WINDOW = 128


def rows(path: Path, tokenizer: Any) -> list[tuple[list[Any], int]]:
    """Returns each item's encoded choices and the index of the right one."""
    with path.open(newline="", encoding="utf-8") as file:
        items = list(csv.DictReader(file))
    encoded = []
    for item in items:
        endings = [f"{item['sent2']} {item[f'ending{number}']}" for number in range(4)]
        inputs = tokenizer([item["sent1"]] * 4, endings, truncation=True, max_length=WINDOW)
        choices = list(zip(inputs["input_ids"], inputs["token_type_ids"], strict=True))
        encoded.append((choices, int(item["label"])))
    return encoded


def scores(model: Any, items: list[tuple[list[Any], int]]) -> Any:
    """Returns the logits of some items: (B, 4)."""
    longest = max(len(ids) for choices, _ in items for ids, _ in choices)

    def padded(part: int) -> torch.Tensor:
        return torch.tensor([[c[part] + [0] * (longest - len(c[part])) for c in choices] for choices, _ in items])

    ids, segments = padded(0).to(DEVICE), padded(1).to(DEVICE)
    return model(input_ids=ids, token_type_ids=segments, attention_mask=(ids != 0).long()).logits.float()


def groups(model: Any) -> list[dict[str, Any]]:
    """Returns the optimizer's groups: no decay on biases and norms."""
    named = list(model.named_parameters())
    is_plain = [("bias" in name or "LayerNorm" in name) for name, _ in named]
    decayed = [parameter for (_, parameter), plain in zip(named, is_plain, strict=True) if not plain]
    others = [parameter for (_, parameter), plain in zip(named, is_plain, strict=True) if plain]
    return [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]


def train(model: Any, items: list[Any], lr: float, epochs: int, batch: int, seed: int) -> None:
    """Train a model in place."""
    shuffle, order = random.Random(seed), list(range(len(items)))
    optimizer = torch.optim.AdamW(groups(model), lr=lr, fused=DEVICE == "cuda")
    total = epochs * math.ceil(len(items) / batch)
    warm, step = max(1, total // 10), 0
    model.train()
    for _ in range(epochs):
        shuffle.shuffle(order)
        for begin in range(0, len(order), batch):
            own = [items[index] for index in order[begin : begin + batch]]
            for group in optimizer.param_groups:
                group["lr"] = lr * min((step + 1) / warm, (total - step) / max(1, total - warm))
            with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
                labels = torch.tensor([label for _, label in own], device=DEVICE)
                loss = torch.nn.functional.cross_entropy(scores(model, own), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
    model.eval()


def main(_: str, restarts: str, lr: str, epochs: str, batch: str) -> None:
    """Print the mean and the deviation of the accuracy over the restarts."""
    folder, data = os.environ["MODEL"], Path(os.environ["DATA"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    learned, asked = (rows(data / f"swag-{part}.csv", tokenizer) for part in ("train", "val"))
    accuracies = []
    for seed in range(int(restarts)):
        torch.manual_seed(seed)
        model = BertForMultipleChoice.from_pretrained(folder, dtype=torch.float32).to(DEVICE)
        train(model, learned, float(lr), int(epochs), int(batch), seed)
        with torch.no_grad():
            parts = [scores(model, asked[begin : begin + 64]).argmax(-1) for begin in range(0, len(asked), 64)]
        found = torch.cat(parts).tolist()
        right = sum(guess == label for guess, (_, label) in zip(found, asked, strict=True))
        accuracies.append(100 * right / len(asked))
    print(f"swag mean {statistics.fmean(accuracies):.2f} sd {statistics.pstdev(accuracies):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
