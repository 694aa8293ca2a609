"""Toy records of every task, made of the words that the small models know, and a start to learn them from."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import models

ANIMALS, THINGS = ("cat", "dog"), ("house", "stone")
NEUTRAL = [word for word in models.PLAIN if word != "the"]  # of which scores and readers leave out nothing
TASKS = ("classification", "regression", "tagging", "span", "choice")
Record = dict[str, Any]


def start(path: Path) -> Path:
    """Returns a pre-trained folder to begin from, its weights random."""
    return models.save(models.theirs("BertForPreTraining"), path)


def records(task: str, count: int, seed: int = 0) -> list[Record]:
    """Returns records whose answers can be read off their words; some of span have none."""
    if task == "classification":
        return models.coloured(count, seed)
    rng = random.Random(seed)
    return [{"id": f"{number}", **MADE[task](rng)} for number in range(count)]


def _regression(rng: random.Random) -> Record:
    words = rng.choices(["good", "bad", "the"], k=rng.randint(2, 9))
    return {"text": " ".join(words), "label": 2.5 + words.count("good") - words.count("bad")}


def _tagging(rng: random.Random) -> Record:
    words = rng.choices(models.WORDS, k=rng.randint(1, 12))
    labels = ["B-ANIMAL" if word in ANIMALS else "B-THING" if word in THINGS else "O" for word in words]
    return {"words": words, "labels": labels}


def _span(rng: random.Random) -> Record:
    words, answers = rng.sample(NEUTRAL, rng.randint(4, 10)), []
    if rng.random() < 0.75:
        place, colour = rng.randrange(len(words) + 1), rng.choice(models.COLOURS)
        answers = [{"text": colour, "start": sum(len(word) + 1 for word in words[:place])}]
        words.insert(place, colour)
    return {"question": "is it red", "context": " ".join(words), "answers": answers}


def _choice(rng: random.Random) -> Record:
    topic, *others = rng.sample(NEUTRAL, rng.randint(3, 5))
    choices = [" ".join(rng.choices([other, "the"], k=3)) for other in others]
    label = rng.randrange(len(choices))
    choices[label] = f"the {topic} is"
    return {"text": f"the {topic} was", "choices": choices, "label": label}


MADE = {"regression": _regression, "tagging": _tagging, "span": _span, "choice": _choice}
