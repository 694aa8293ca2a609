"""Let transformers read a classification folder and answer the same records.

python tests/paper/agree.py FOLDER PREDICTED.jsonl: prints for how many of the rows that `bertcli predict` wrote plain
the two give the same label, and by how much their probabilities differ at most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def main(folder: str, predicted: str) -> None:
    """Print the agreement; fails where a row differs."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = [json.loads(line) for line in Path(predicted).read_text().splitlines()]
    same, gap = 0, 0.0
    for row in rows:
        inputs = tokenizer(row["text"], row.get("text_pair"), truncation=True, return_tensors="pt")
        with torch.no_grad():
            probabilities = model(**inputs).logits[0].softmax(-1).tolist()
        theirs = {model.config.id2label[number]: p for number, p in enumerate(probabilities)}
        same += max(theirs, key=theirs.__getitem__) == row["prediction"]
        ours = row["details"]["probabilities"]
        gap = max(gap, *(abs(theirs[label] - ours[label]) for label in ours))
    print(
        f"transformers gives the same label for {same} of {len(rows)} rows; probabilities differ by {gap:.1e} at most"
    )
    sys.exit(same != len(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
