"""What is fuzzed: each reader by the commands that use it, with the seeds that its inputs are made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzz import checks
from fuzz.mutate import BYTES, FRAMES, LINES, Mutation, bomb, safetensors, value

CORPUS = Path(__file__).parent / "corpus"
GLUE = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli", "ax")
SCORES = ("classification", "regression", "tagging", "span", "choice", "pretraining", "pairs")
WRITTEN = ("glue-sst-2", "glue-sts-b", "squad", "squad-nbest", "squad-odds", "conll", "csv", "tsv")
LEARNED = ("classification", "regression", "tagging", "span", "choice")
RECORDS = (*BYTES, *LINES, *[value] * 6, *FRAMES)
COMPUTED = tuple(kind for kind in RECORDS if kind is not bomb)  # a model takes its time for each of a million lines
FOREIGN = (*BYTES, *BYTES, *LINES, *FRAMES)
FILES = (*BYTES, *LINES)  # not streams: nobody compresses them
INPUT, OUTPUT, NUMBERS = "input", "output", "bert_model.ckpt.data-00000-of-00001"


@dataclass(frozen=True)
class Target:
    """A reader: its command lines, one of which reads an input that stands in the file `place` of a folder.

    `check` says what is wrong with a success, given the input and what was written. `around` are the files of the
    corpus that stand beside the input. A line that begins with "learn" is a stage of training, see `attempt`.
    """

    name: str
    lines: tuple[list[str], ...]
    check: Callable[[bytes, bytes], str] = checks.lines_are_valid
    kinds: tuple[Mutation, ...] = RECORDS
    place: str = INPUT
    around: tuple[str, ...] = ()
    seeded_by: str = ""  # a file of the corpus that is a seed too
    named: str = ""  # what an error may name instead of the input

    @property
    def needs_torch(self) -> bool:
        """Returns whether a line of it computes."""
        return any(line[0] in ("predict", "embed", "convert", "learn") for line in self.lines)

    def seeds(self) -> list[Path]:
        """Returns the files that inputs are made of."""
        own = sorted((CORPUS / self.name).glob("*"))
        return own + ([CORPUS / self.seeded_by] if self.seeded_by else [])

    def prepare(self, folder: Path) -> None:
        """Put what stands beside the input into an empty folder."""
        for name in self.around:
            shutil.copytree(CORPUS / name, folder / name)
        if self.place.endswith("index.json"):
            (folder / "model/model.safetensors").rename(folder / "model/model-00001-of-00001.safetensors")
        if self.place.endswith("tokenizer.json"):
            (folder / "model/vocab.txt").unlink()


def targets() -> dict[str, Target]:
    """Returns all readers by name."""
    return {target.name: target for target in _all()}


def _all() -> Iterator[Target]:
    yield from _formats()
    yield from _streams()
    yield from _files()


def _formats() -> Iterator[Target]:
    def read(form: str, check: Any, *options: str, **others: Any) -> Target:
        line = ["read", form, INPUT, *options]
        return Target(f"read-{form}", (line,), check, **{"kinds": FOREIGN, **others})

    text = read("text", checks.documents)
    yield replace(text, lines=(*text.lines, ["read", "text", INPUT, "--document", "file", "--split", "rules"]))
    for task in GLUE:
        yield read(f"glue-{task}", checks.rows)
    yield read("squad", checks.squad, kinds=(*FOREIGN, *[value] * 8))
    evidence = ("--evidence", "evidence")
    yield read(
        "triviaqa",
        checks.json_of_any,
        *evidence,
        kinds=(*FOREIGN, *[value] * 8),
        around=("evidence",),
        named="evidence/",
    )
    yield read("swag", checks.quoted_rows)
    yield read("blimp", checks.one_each, kinds=(*FOREIGN, *[value] * 6))
    conll = read("conll", checks.sentences)
    documents = ["read", "conll", INPUT, "--documents", "--scheme", "BIOES"]
    yield replace(conll, lines=(*conll.lines, documents))
    csv = read("csv", checks.quoted_rows)
    yield replace(csv, lines=(*csv.lines, ["read", "csv", INPUT, "--number", "--label", "stars"]))
    yield read("tsv", checks.rows)
    squad = ["read", "squad", str(CORPUS / "read-squad/v2.json"), "--predictions", INPUT]
    yield Target("answers-squad", (squad,), checks.json_of_any, (*FOREIGN, *[value] * 8))
    glue = ["read", "glue-sst-2", str(CORPUS / "read-glue-sst-2/train.tsv"), "--predictions", INPUT]
    yield Target("answers-glue", (glue,), checks.is_text, FOREIGN)


def _streams() -> Iterator[Target]:
    words = str(CORPUS / "model/vocab.txt")
    quiet = ["--quiet", "--workers", "1"]
    whole = Target("frames", (["read", "text", "--document", "line", INPUT],), checks.text_lines, (*BYTES, *FRAMES))
    yield replace(whole, kinds=FRAMES)
    yield Target("vocab", (["vocab", INPUT, "--size", "60", *quiet],), checks.valid_or_text)
    yield Target("tokenize", (["tokenize", INPUT, "-v", words, *quiet],), checks.added)
    yield Target("pairs", (["pairs", INPUT, "-v", words, "--quiet"],), checks.valid_or_text)
    yield Target("mask", (["mask", INPUT, "-v", words, *quiet],), checks.added)
    for task in SCORES:
        yield Target(f"score-{task}", (["score", task, INPUT],), checks.scored)
    for form in WRITTEN:
        yield Target(f"write-{form}", (["write", form, INPUT],))
    yield Target("write-vectors", (["write", "npy", INPUT], ["write", "safetensors", INPUT]), checks.nothing)
    curve = ["plot", INPUT, "--y", "accuracy"]
    yield Target("plot", (curve, [*curve, "--log-x", "--log-y"], [*curve, "--smooth", "1e-3"]), checks.drawn)
    yield Target("show", (["show", INPUT, "--json"], ["show", INPUT]), checks.valid_or_text)
    model = ["-m", str(CORPUS / "model"), "--quiet", "--device", "cpu"]
    yield Target("predict", (["predict", INPUT, *model],), checks.added, COMPUTED)
    likelihood = (["predict", INPUT, *model, "--pseudo-likelihood"],)
    yield Target("pseudo-likelihood", likelihood, checks.added, COMPUTED)
    yield Target("embed", (["embed", INPUT, *model, "--vectors", "list"],), checks.added, COMPUTED)
    yield Target("pretrain", (["learn", "pretraining", words, INPUT],))
    for task in LEARNED:
        yield Target(f"finetune-{task}", (["learn", task, words, INPUT],), named="there is nothing to")  # in all files


def _files() -> Iterator[Target]:
    text = str(CORPUS / "tokenize/lines.txt")
    show, ids = ["show", "vocab.txt", "--json"], ["tokenize", text, "-v", "vocab.txt", "--workers", "1"]
    yield Target("vocab.txt", (show, ids), checks.vocabulary, FILES, "vocab.txt", seeded_by="model/vocab.txt")
    grow = ["convert", str(CORPUS / "model"), "--extend-vocab", "new.txt", "-o", OUTPUT]
    yield Target("new.txt", (grow,), checks.nothing, FILES, "new.txt", seeded_by="model/vocab.txt")
    uses = (
        ["show", "model"],
        ["predict", text, "-m", "model", "--device", "cpu"],
        ["embed", text, "-m", "model", "--device", "cpu"],
        ["convert", "model", "-o", OUTPUT],
    )
    config = (*FILES, *[value] * 20)
    for name, kinds in (
        ("config.json", config),
        ("tokenizer.json", config),
        ("tokenizer_config.json", config),
        ("bertcli.json", config),
        ("model.safetensors.index.json", config),
        ("model.safetensors", (*BYTES, *[safetensors] * 5)),
    ):
        seed = "" if "index" in name else f"model/{name}"
        yield Target(f"model-{name}", uses, checks.nothing, kinds, f"model/{name}", ("model",), seed)
    for place in ("pickled/pytorch_model.bin", "google/bert_model.ckpt.index", f"google/{NUMBERS}"):
        around = place.partition("/")[0]
        made = (["convert", around, "-o", OUTPUT],)
        yield Target(place.replace("/", "-"), made, checks.nothing, BYTES, place, (around,), place)
