"""`score`: all metrics of a task from predictions beside gold labels."""

from __future__ import annotations

import importlib

import click

from bertcli.commands import options, owned
from bertcli.commands.streams import Streams

TASKS = ("classification", "regression", "tagging", "span", "choice", "pretraining", "pairs")


@options.command(
    "score",
    kind=options.Kind.SUMS_UP,
    reads=(
        "Predictions beside gold labels, as predict writes them: `prediction`, and `label` of classification, "
        "regression and choice, `labels` of tagging and of classification with several labels a text, `answers` of "
        "span. pretraining: `masked_tokens`, or of a left-to-right model `tokens`, `prediction`, `details`, and "
        "`is_next` where there are two segments. pairs: `prediction`, and as far as they are there `phenomenon` and "
        "`paradigm`."
    ),
    writes="One plain JSON object with every metric of the task, in the units of the official scripts.",
    examples=[
        ("bertcli score classification predicted.jsonl.zst", "All metrics of a classifier's answers."),
        (
            """echo '{"label": "1", "prediction": "1"}' | bertcli score classification""",
            "One prediction, and it is right.",
        ),
        (
            """echo '{"labels": ["B-LOC", "O"], "prediction": ["B-LOC", "O"]}' | bertcli score tagging""",
            "One entity, and it is found.",
        ),
        (
            """echo '{"answers": [{"text": "the cat", "start": 0}], "prediction": "A cat."}' | bertcli score span""",
            "Articles, case and punctuation are nothing to SQuAD.",
        ),
        (
            "bertcli read blimp blimp.jsonl | bertcli predict --pseudo-likelihood | bertcli score pairs",
            "How often a pre-trained model finds the good sentence of two likelier.",
        ),
    ],
)
@click.argument("task", metavar="TASK", type=click.Choice(TASKS))
@owned.option(
    ("classification",),
    "--positive",
    metavar="LABEL",
    help="The label whose f1, precision and recall are given, where there are two.  [default: 1]",
)
@options.inputs("FILE")
def command(streams: Streams, task: str, positive: str | None) -> None:
    """Score predictions beside gold labels.

    TASK classification gives `accuracy`, `matthews`, `precision`, `recall` and `f1` as fractions, and under `labels`
    the gold, predicted and correct counts of each. With more than two labels, or two that lack `--positive`, there are
    means over the labels instead: `macro_precision`, `macro_recall` and `macro_f1`. With several labels a text,
    `accuracy` is the share of texts with exactly their labels, and `micro_precision`, `micro_recall` and `micro_f1`
    are those of all labels together.

    TASK regression gives `pearson`, `spearman` (equal numbers share their mean rank), `mse` and `mae`, the mean squared
    and absolute errors. A correlation is 0 where one side is constant.

    TASK tagging gives the `precision`, `recall` and `f1` of entities in percent, as conlleval does: IOB1, IOB2 and
    BIOES are all read by its lenient rules, and an entity counts where its type and both ends are right. `gold`,
    `predicted` and `correct` are counts of entities; `types` has all six for each type. `scheme` is that of the gold
    labels, "mixed" where none fits, null where they hold no entity. `accuracy` of the `words` is in percent. Labels
    that spell no entities, as parts of speech, have their accuracy, and `labels` the counts of each.

    TASK span gives `exact` and `f1` in percent by the rules of SQuAD's scripts: 1.1 where every question has an answer,
    else 2.0, with `has_answer_exact`, `has_answer_f1` and `has_answer_total` of those that have one, `no_answer_exact`,
    `no_answer_f1` and `no_answer_total` of the others. Where `details` tell the scores, `best_exact` and `best_f1` are
    the most that a null threshold could reach, and `best_exact_threshold` and `best_f1_threshold` where, as the
    official script finds them.

    TASK choice gives `accuracy` as a fraction.

    TASK pretraining gives `mlm_loss` (mean cross-entropy a masked token, in nats), `perplexity`, `mlm_accuracy`
    and `nsp_accuracy`, and how many `masked` tokens and `pairs` they stand for.

    TASK pairs gives as `accuracy` the share of minimal pairs whose good sentence was found likelier, a fraction, and
    under `phenomena` and `paradigms` the `accuracy` and `total` of each that has a name.

    `total` is the number of records. A metric of which there is nothing to count is left out; empty input gives a
    `total` of 0.
    """
    given = owned.own(task, {"positive": positive})
    metric = importlib.import_module(f"bertcli.metrics.{task}")
    observed = streams.reader(metric.SCHEMA).map(metric.observe)
    streams.write_result(metric.summarize(observed, **given))
    streams.report_skipped()
