"""A disk that is full, or may only be read, at each moment of a run: one line, and what there was stays whole."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from signal import SIGTERM
from typing import NamedTuple

import crashes
import desk as table
import models
import pytest
import toys
import warm
from desk import Desk

from bertcli.weights.folder import open_folder

STEPS, EVERY = 160, 40
LEARN = [
    "--batch-size",
    "8",
    "--lr",
    "1e-3",
    "--dropout",
    "0.1",
    "--max-length",
    "64",
    "--device",
    "cpu",
    "--seed",
    "1",
]
PRETRAIN = ["pretrain", "train.jsonl", *crashes.SIZE, *LEARN, "--steps", f"{STEPS}"]
FINETUNE = ["finetune", "classification", "train.jsonl", "-m", "start", *LEARN, "--epochs", "3"]
FULL, FORBIDDEN = "No space left on device", "Read-only file system"


class Moment(NamedTuple):
    """When a disk gets full: what the run is told, how much there is room for, and what is named."""

    options: list[str]
    spools: int
    checkpoints: int
    others: int  # bytes
    place: str


SEVERAL, ALL = 1 << 14, 1 << 16  # bytes: room for some rows of a log, and for all of them, but not for a model as well
NEVER, OFTEN = ["--save-every", "0"], ["--save-every", f"{EVERY}"]
MOMENTS = {
    "the spool": Moment(NEVER, 0, 0, SEVERAL, ""),
    "the first checkpoint": Moment(OFTEN, 1, 0, SEVERAL, "/checkpoint"),
    "a later checkpoint": Moment(OFTEN, 1, 1, ALL, "/checkpoint"),
    "the log": Moment(NEVER, 1, 0, SEVERAL, "/log.jsonl"),
    "a model on the way": Moment([*NEVER, "--save-at", "130"], 1, 0, ALL, "/steps/130"),
    "the model at the end": Moment(NEVER, 1, 0, ALL, ""),
}


class Place:
    """A folder with what there is to learn from, for the runs of one command, of which one is whole."""

    def __init__(self, folder: Path, program: warm.Program, command: str) -> None:
        self.folder, self.program, self.command = folder, program, command
        count = STEPS * 8 // 3
        made = models.pairs if command == "pretrain" else models.coloured
        (folder / "train.jsonl").write_bytes(models.lines(made(count)))
        (folder / "dev.jsonl").write_bytes(models.lines(made(20, seed=1)))
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
        toys.start(folder / "start")
        done = self.run(folder / "whole")
        assert done == (0, ""), done
        begun = self.start(folder / "begun", *OFTEN)
        assert went_past(folder / "begun", EVERY, begun), self.ended(begun)
        begun.send_signal(SIGTERM)  # after which there is another checkpoint, and nothing half-written
        assert begun.wait() != 0

    def line(self, out: Path, *options: str) -> list[str]:
        return [*(PRETRAIN if self.command == "pretrain" else FINETUNE), "--quiet", "-o", str(out), *options]

    def start(self, out: Path, *options: str) -> warm.Process:
        with open("/dev/null", "r+b") as nothing, (self.folder / "err").open("wb") as err:
            return self.program.start(self.line(out, *options), self.folder, [nothing, nothing, err])

    def ended(self, process: warm.Process) -> tuple[int, str]:
        return process.wait(), (self.folder / "err").read_text()

    def run(self, out: Path, *options: str) -> tuple[int, str]:
        return self.ended(self.start(out, *options))

    def room(self, moment: Moment) -> int:
        """Returns the bytes of a disk that gets full at a moment, by the sizes of what a run keeps."""
        spool, checkpoint = (crashes.size(self.folder / "begun" / part) for part in ("spool", "checkpoint"))
        return moment.spools * spool + moment.checkpoints * checkpoint + moment.others

    def assert_whole(self, out: Path) -> None:
        """Asserts that a run which has come to its end is the one that nothing has disturbed."""
        ours, theirs = (crashes.essence(path) for path in (out, self.folder / "whole"))
        assert ours[:2] == theirs[:2]
        assert [name for name in ours[2] if not name.startswith("steps")] == theirs[2]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, program: warm.Program) -> Callable[[str], Place]:
    return cache(lambda command: Place(tmp_path_factory.mktemp(command), program, command))


@pytest.fixture(params=["pretrain", "finetune"])
def place(request: pytest.FixtureRequest, places: Callable[[str], Place]) -> Place:
    return places(request.param)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with crashes.small_disk(tmp_path / "disk", "3m") as disk:
        yield disk


def assert_told(place: Place, ended: tuple[int, str], status: int, named: Path, problem: str) -> None:
    assert ended[0] == status, ended
    assert re.fullmatch(f"bertcli {place.command}: {named}.*: .*{problem}.*\n", ended[1]), ended[1]


def went_past(out: Path, step: int, process: warm.Process) -> bool:
    """Returns whether a run could be waited for that has a checkpoint of a step, or else has logged it."""

    def is_there() -> bool:
        steps = crashes.checkpoints(out) if step >= EVERY else [row["step"] for row in crashes.logged(out)]
        return bool(steps) and steps[-1] >= step

    return crashes.wait_until(lambda: is_there() or not process.is_alive(), 30, 1e-3) and is_there()


SOME = ("the model at the end",)


@pytest.mark.parametrize(
    ("place", "name"),
    [*(("pretrain", name) for name in MOMENTS), *(("finetune", name) for name in SOME)],
    indirect=["place"],
)
def test_a_disk_gets_full(place: Place, disk: Path, name: str) -> None:
    """And then there is room again, and the run goes on to the same end.

    The room is taken before the run begins, so that what it lacks does not depend on how fast either of the two is.
    """
    moment, out = MOMENTS[name], disk / "out"
    crashes.fill(disk, place.room(moment))
    assert_told(place, place.run(out, *moment.options), 74, Path(f"{out}{moment.place}"), FULL)
    crashes.assert_alone(place.folder)
    assert (crashes.assert_newest_loads(out) > 0) == (name == "a later checkpoint")
    (disk / "filler").unlink()
    again = place.run(out, *moment.options, "--resume")
    assert again == (0, "")
    place.assert_whole(out)


@pytest.mark.parametrize("place", ["pretrain"], indirect=True)
def test_the_disk_of_the_scores_is_full(place: Place, tmp_path: Path, disk: Path) -> None:
    """They are on one of their own, as the log and the checkpoints are written more often."""
    out, options = tmp_path / "out", [*OFTEN, "--dev", "dev.jsonl", "--eval-every", "150"]
    process = place.start(out, *options)
    assert went_past(out, EVERY, process), place.ended(process)
    (out / "scores.jsonl").symlink_to(disk / "scores.jsonl")
    crashes.fill(disk)
    assert_told(place, place.ended(process), 74, out / "scores.jsonl", FULL)
    assert crashes.assert_newest_loads(out) >= EVERY
    (out / "scores.jsonl").unlink()
    assert place.run(out, *options, "--resume") == (0, "")
    assert crashes.essence(out)[:2] == crashes.essence(place.folder / "whole")[:2]


def test_an_old_model_outlives_a_disk_without_room_to_begin(place: Place, disk: Path) -> None:
    out = disk / "out"
    shutil.copytree(place.folder / "whole", out)
    crashes.fill(disk, SEVERAL)
    assert_told(place, place.run(out, "--force"), 74, out, FULL)
    assert open_folder(out)
    place.assert_whole(out)


# -- read-only --------------------------------------------------------------------------------------------------------


def test_a_disk_that_may_only_be_read(place: Place, disk: Path) -> None:
    """Told before the first step, of a folder that is there and of one that is not."""
    shutil.copytree(place.folder / "whole", disk / "old")
    (disk / "empty").mkdir()
    assert crashes.remount(disk, "ro")
    for name, options in (("new", []), ("empty", []), ("old", ["--force"])):
        assert_told(place, place.run(disk / name, *options), 73, disk / name, FORBIDDEN)
    place.assert_whole(disk / "old")
    assert not list((disk / "empty").iterdir())


@pytest.mark.parametrize("place", ["pretrain"], indirect=True)
@pytest.mark.parametrize("part", ["checkpoint", ""])
def test_a_disk_may_only_be_read_all_at_once(place: Place, tmp_path: Path, part: str) -> None:
    """In the middle of a run, which has files open for writing: what is opened from then on is refused."""
    out = tmp_path / "out"
    process = place.start(out, *OFTEN)
    assert went_past(out, EVERY, process), place.ended(process)
    with crashes.forbidden(out / part):
        assert_told(place, place.ended(process), 74, out, FORBIDDEN)
        newest = crashes.assert_newest_loads(out)
        assert newest >= EVERY
    assert place.run(out, *OFTEN, "--resume") == (0, "")
    assert crashes.essence(out)[:2] == crashes.essence(place.folder / "whole")[:2]


# -- stdout and stderr ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in table.FILTERS if name != "vocab"])
def test_the_disk_of_stdout_gets_full(
    name: str, house: Path, program: warm.Program, tmp_path: Path, disk: Path
) -> None:
    """After some of the output, which is no whole stream then."""
    shutil.copytree(house, tmp_path / "house")
    desk = Desk(name, tmp_path / "house", program)
    desk.write("much", desk.content * 30)
    crashes.fill(disk, 4096)
    with (disk / "out").open("wb") as out:
        done = desk.run("much", *desk.quiet, "--plain", stdout=out)
    assert done.status == 74
    assert re.fullmatch(f"bertcli {name}: .*{FULL}\n", done.err)
    assert (disk / "out").stat().st_size <= 4096


@pytest.mark.parametrize("name", ["read", "tokenize", "pretrain", "finetune", "predict"])
def test_nothing_can_be_said(name: str, house: Path, program: warm.Program, tmp_path: Path) -> None:
    """On a full disk for stderr: what comes out is what it is nevertheless."""
    shutil.copytree(house, tmp_path / "house")
    desk = Desk(name, tmp_path / "house", program)
    out = tmp_path / "out"
    with open("/dev/null", "rb") as nothing, open("/dev/full", "wb") as full, out.open("wb") as stdout:
        process = program.start(desk.line(*desk.example.files), desk.folder, [nothing, stdout, full])
        status = process.wait()
    assert desk.outcome(status, out.read_bytes(), "").essence == desk.usual().essence
