"""The tasks, one file each in the same order: encode, head, loss, decode. `task.py` is the protocol."""

from __future__ import annotations

from bertcli.errors import BadData
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import OBJECTIVES, Pretraining
from bertcli.tasks.task import Task
from bertcli.weights.safetensors import ModelFolder


def of_folder(model: ModelFolder, max_length: int, top_k: int) -> Task:
    """Returns the task that a folder's head was made for; raises `BadData` where it has none."""
    if model.architecture == Classification.architecture:
        if model.config.problem_type not in (None, "single_label_classification"):
            kind = model.config.problem_type
            raise BadData(
                file=str(model.path / "config.json"),
                field="problem_type",
                found=kind,
                expected="single_label_classification",
            )
        if len(model.config.labels) < 2:  # with one, transformers makes a regression of it
            file, found = str(model.path / "config.json"), len(model.config.labels)
            raise BadData(file=file, field="id2label", found=found, expected="two labels or more")
        return Classification(model.wordpiece, max_length, model.config.labels)
    for objective, architecture in OBJECTIVES.items():
        if model.architecture == architecture:
            options = {"objective": objective, "top_k": top_k, "training": False}
            return Pretraining(model.wordpiece, max_length, **options)  # type: ignore[arg-type]
    expected = " or ".join(["BertForSequenceClassification", *OBJECTIVES.values()])
    raise BadData(
        file=str(model.path / "config.json"),
        field="architectures",
        found=model.architecture,
        expected=expected,
    )
