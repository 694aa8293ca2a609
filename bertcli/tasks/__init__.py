"""The tasks, one file each in the same order: encode, head, loss, decode. `task.py` is the protocol."""

from __future__ import annotations

from bertcli.errors import BadData
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import OBJECTIVES, Pretraining
from bertcli.tasks.task import Task
from bertcli.weights.safetensors import ModelFolder

SINGLE_LABEL = "single_label_classification"


def of_folder(model: ModelFolder, max_length: int, top_k: int) -> Task:
    """Returns the task that a folder's head was made for; raises `BadData` where it has none of ours."""
    file = str(model.path / "config.json")
    if model.architecture == "BertForSequenceClassification":
        if model.problem_type not in (None, SINGLE_LABEL):
            raise BadData(file=file, field="problem_type", found=model.problem_type, expected=SINGLE_LABEL)
        if len(model.config.labels) < 2:
            raise BadData(file=file, field="id2label", found=len(model.config.labels), expected="two labels or more")
        return Classification(model.wordpiece, max_length, model.config.labels)
    objective = next((name for name, own in OBJECTIVES.items() if own == model.architecture), None)
    if objective is None:
        expected = " or ".join(["BertForSequenceClassification", *OBJECTIVES.values()])
        raise BadData(file=file, field="architectures", found=model.architecture, expected=expected)
    return Pretraining(model.wordpiece, max_length, objective=objective, top_k=top_k, training=False)
