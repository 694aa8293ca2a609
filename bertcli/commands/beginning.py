"""What a fine-tuned model begins from: the weights of a model folder, or nothing but the vectors that it is to read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import inference, owned, training
from bertcli.commands.options import Integer, applied, typed
from bertcli.errors import UsageError

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.settings import Settings
    from bertcli.model.heads import Network
    from bertcli.tasks.task import Task
    from bertcli.weights.folder import ModelFolder


options = applied(
    owned.option(
        ("tagging",),
        "--features",
        is_flag=True,
        help="TRAIN and --dev are embed's output, a row a word; a BiLSTM learns on it, and of -m, where it is given, "
        "only that the vectors are from it.",
    ),
    click.option("--bilstm", is_flag=True, help="Put a BiLSTM of two layers between the model and its head."),
    click.option(
        "--bilstm-units",
        type=Integer(1, 1 << 14),
        help="Its units, in each direction, with --bilstm or --features.  [default: 768]",
    ),
)


def begun(
    streams: Streams,
    model: Path,
    task_name: str,
    own: dict[str, Any],
    *,
    bilstm: bool,
    bilstm_units: int | None,
    max_length: int | None,
    usual: int,
) -> Model | Vectors:
    """Returns what a run begins from. Raises `UsageError` for options that do not go together."""
    from bertcli.model.bilstm import UNITS

    has_vectors = own.pop("features", False)
    if bilstm_units and not (bilstm or has_vectors):
        raise UsageError("--bilstm-units: those of --bilstm, or of --features")
    if has_vectors and bilstm:
        raise UsageError("--bilstm: --features learns one anyway")
    if has_vectors and max_length:
        raise UsageError("--max-length: with --features whole sentences are read")
    units = bilstm_units or UNITS
    if has_vectors:  # the variable, and the default, may be there for other commands
        return Vectors(streams, units, model if typed("model") else None)
    folder = inference.open_model(streams, model)
    return Model(streams, folder, task_name, folder.length(max_length, usual), own, units if bilstm else 0)


@dataclass(frozen=True)
class Model:
    """A model folder, and what is told of the task."""

    streams: Streams
    folder: ModelFolder
    task_name: str
    max_length: int
    own: dict[str, Any]
    units: int  # of a BiLSTM; 0: one that the folder has for this task stays

    @property
    def path(self) -> Path:
        """Returns the folder's path."""
        return self.folder.path

    def task(self) -> Task:
        """Returns the task, that has learned nothing yet."""
        from bertcli.tasks import new

        return new(self.task_name, self.folder.wordpiece, self.max_length, **self.own)

    def network(self, task: Task, settings: Settings) -> Network:
        """Returns the folder's network under a head for the task's labels, its own where they agree."""
        from bertcli.tasks import kind_of
        from bertcli.tasks.task import headed

        old = self.folder.config
        is_alike = kind_of(self.folder) == task.architecture
        units = self.units or (old.bilstm if is_alike else 0)
        config = replace(old, labels=task.labels, problem_type=task.problem_type, bilstm=units)
        network = headed(task, config.with_dropout(settings.dropout), settings.seed)
        has_names = task.name in ("classification", "tagging")  # of the others' heads the outputs have none
        has_labels = sorted(old.labels) == sorted(task.labels)
        fits = has_labels if has_names else task.name != "regression" or len(old.labels) == 1
        is_same = is_alike and fits and old.bilstm == units
        training.start_from(self.streams, network, self.folder, keep_head=is_same)
        task.adapt(network, old.labels if is_same else None)
        return network


@dataclass(frozen=True)
class Vectors:
    """Vectors, of which the first record tells what they are like, and the model that they are said to be from."""

    streams: Streams
    units: int
    path: Path | None

    def task(self) -> Task:
        """Returns the task, that has learned nothing yet."""
        from bertcli.tasks.features import FeatureTagging

        return FeatureTagging()

    def network(self, task: Task, settings: Settings) -> Network:
        """Returns a BiLSTM and a head for the task's labels, drawn anew.

        Raises `UsageError` where the vectors say that they are from another model.
        """
        from bertcli.model.config import FeatureConfig
        from bertcli.tasks.features import FeatureTagging
        from bertcli.tasks.task import build
        from bertcli.weights.folder import fingerprint

        assert isinstance(task, FeatureTagging)
        if self.path and task.source and not task.source.endswith(own := fingerprint(self.path)):
            raise UsageError(f"--model {self.path}: is {own}, and the vectors are from {task.source}")
        config = FeatureConfig(
            task.width, self.units, task.layers, hidden_dropout_prob=settings.dropout, labels=task.labels
        )
        self.streams.note(f"a BiLSTM of {self.units} units a direction on {task.form}")
        return build(task, config, settings.seed)
