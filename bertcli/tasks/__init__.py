"""The tasks, one file each in the same order: encode, head, loss, decode. `task.py` is the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from bertcli.errors import BadData
from bertcli.model.config import OBJECTIVES, is_own
from bertcli.tasks.choice import Choice
from bertcli.tasks.classification import ONE, SEVERAL, Classification
from bertcli.tasks.features import FeatureTagging
from bertcli.tasks.left_to_right import LeftToRight
from bertcli.tasks.likelihood import Likelihood
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.pseudo_likelihood import PseudoLikelihood
from bertcli.tasks.regression import Regression
from bertcli.tasks.span import Rule, Span
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import Task
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.folder import FeatureFolder, ModelFolder

NEW: dict[str, Callable[..., Task]] = {
    "classification": Classification,
    "regression": Regression,
    "tagging": Tagging,
    "choice": Choice,
}
PRETRAINING: dict[str, type[Pretraining]] = {"mlm+nsp": Pretraining, "mlm": Pretraining, "ltr": LeftToRight}
FINETUNED = {task.name: task for task in (Classification, Regression, Tagging, Span, Choice)}


def new(name: str, wordpiece: WordPiece, max_length: int, **own: Any) -> Task:
    """Returns a task to learn by its name, with its own options."""
    if name == "span":
        return Span(wordpiece, max_length, Rule(**own))
    return NEW[name](wordpiece, max_length, **own)


def kind_of(model: ModelFolder) -> str | None:
    """Returns the transformers class whose head a folder has; where transformers has none, its notes tell the task."""
    if is_own(model.config, model.architecture):
        task = FINETUNED.get(str(model.notes.get("task")))
        return task and task.architecture
    return model.architecture


def of_folder(
    model: ModelFolder | FeatureFolder,
    max_length: int,
    *,
    top_k: int = 5,
    pseudo_likelihood: bool = False,
    nbest: int = 0,
    **rule: Any,
) -> Task:
    """Returns the task that a folder's head was made for; raises `BadData` where it has none of ours.

    `pseudo_likelihood` is what a pre-trained model is then asked for, instead of what may stand in a gap. `rule` has
    what is given of a span's rule, instead of what the folder's notes say.
    """
    if isinstance(model, FeatureFolder):
        config, source = model.config, model.notes.get("source")
        return FeatureTagging(_labels(model), width=config.hidden_size, layers=config.layers, source=source)
    wordpiece, kind = model.wordpiece, kind_of(model)
    if kind == "BertForSequenceClassification":
        return _of_texts(model, max_length)
    if kind == "BertForTokenClassification":
        return Tagging(wordpiece, max_length, _labels(model))
    if kind == "BertForQuestionAnswering":
        noted = {field.name: _noted(model, field.name) for field in fields(Rule) if field.name in model.notes}
        return Span(wordpiece, max_length, Rule(**{**noted, **rule}), nbest)
    if kind == "BertForMultipleChoice":
        return Choice(wordpiece, max_length, cut=_noted(model, "cut"))
    objective = next((name for name, own in OBJECTIVES.items() if own == kind), None)
    if kind is None and is_own(model.config, model.architecture):
        file, found = str(model.path / "bertcli.json"), model.notes.get("task")
        raise BadData(file=file, field="task", found=found, expected=" or ".join(FINETUNED))
    if objective is None:
        ours = (each.architecture for each in (Classification, Tagging, Span, Choice))
        expected = " or ".join([*map(str, ours), *OBJECTIVES.values()])
        raise BadData(file=str(model.path / "config.json"), field="architectures", found=kind, expected=expected)
    if pseudo_likelihood:
        return (Likelihood if model.config.is_decoder else PseudoLikelihood)(wordpiece, max_length)
    return PRETRAINING[objective](wordpiece, max_length, objective=objective, top_k=top_k, training=False)


def _labels(model: ModelFolder | FeatureFolder) -> tuple[str, ...]:
    """Returns a tagger's labels; raises `BadData` where its folder names none."""
    if not model.config.labels:
        raise BadData(file=str(model.path / "config.json"), field="id2label", found=None, expected="names of labels")
    return model.config.labels


def _of_texts(model: ModelFolder, max_length: int) -> Task:
    """Returns classification or regression, as the folder's `problem_type` says or else its number of labels."""
    labels, cut = model.config.labels, _noted(model, "cut")
    kind = model.config.problem_type or ("regression" if len(labels) == 1 else ONE)
    if kind == "regression" and len(labels) == 1:
        return Regression(model.wordpiece, max_length, cut=cut)
    if kind == SEVERAL or (kind == ONE and len(labels) > 1):
        return Classification(model.wordpiece, max_length, labels, several=kind == SEVERAL, cut=cut)
    file, expected = str(model.path / "config.json"), f"{ONE}, {SEVERAL}, or regression to one number"
    raise BadData(f"{kind} of {len(labels)} outputs", file=file, field="problem_type", found=kind, expected=expected)


def _noted(model: ModelFolder, name: str) -> Any:
    """Returns what `bertcli.json` says of how a task reads and answers; raises `BadData` for what cannot be meant."""
    value = model.notes.get(name)
    file = str(model.path / "bertcli.json")
    if name == "cut":
        if value not in (None, False, True):
            raise BadData(file=file, field=name, found=value, expected="true or false")
        return bool(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "null_threshold":
        if not (value is None or is_number):
            raise BadData(file=file, field=name, found=value, expected="a number")
    elif not (is_number and isinstance(value, int) and value > 0):
        raise BadData(file=file, field=name, found=value, expected="a whole number from 1")
    return value
