"""What kills do to a run: nothing. It is killed again and again, resumed each time, and compared to one that was not.

python tests/bench/kills.py [--kills 100] [--endings 0] [--ranks 1] [--task pretrain] [--seed 0] [--input file]
                            [--signals] [--cold]

Three epochs with dropout and several passes a step, two readers (`--workers 2`) and a checkpoint every few steps; pairs
are masked afresh in each epoch. Where the kills fall is drawn: evenly over the run, in turn inside a save and between
saves; `.N` that lies in `checkpoint/` afterwards says that it was inside. Half of the kills are of all processes, half
of the main one alone, whose others have to end by themselves; of two ranks one at random, or both. The last ones may
be told to fall while the model is written. After each kill the newest checkpoint has to load. At the end weights and
log have to be the undisturbed run's to the bit, with no other files in the folder. With `--signals` every second kill
is a SIGTERM, SIGUSR1 or SIGINT, once or twice. `--input stdin`: the same stream comes again by a pipe, at each start
from its beginning.

Ends with 1, and says why, where anything differs, or where less than a third fell inside saves, or between them.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS)]  # models.py and others

import crashes  # noqa: E402
import models  # noqa: E402
import toys  # noqa: E402
import warm  # noqa: E402
from trials import BETWEEN, ENDING, INSIDE, Fell, Trial, cold  # noqa: E402

EPOCHS, BATCH, SAVE_EVERY = 3, 8, 5  # of these a save takes about as long as the steps to the next one
MARGIN = 2 * SAVE_EVERY  # steps at the end of the run in which no kill begins


# -- a trial --------------------------------------------------------------------------------------------------------


def steps(records: int) -> int:
    """Returns the steps that the epochs of so many records take."""
    return -(-EPOCHS * records // BATCH)


def prepared(folder: Path, task: str, records: int) -> list[str]:
    """Returns a line without input and output, having made what it works on in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    common = ["--batch-size", f"{BATCH}", "--lr", "1e-3", "--max-tokens", "60", "--workers", "2", "--device", "cpu"]
    common += ["--save-every", f"{SAVE_EVERY}", "--max-length", "64", "--dropout", "0.1"]
    if task == "pretrain":
        (folder / "input.jsonl").write_bytes(models.lines(models.pairs(records)))
        return [task, "--preset", "tiny", "--steps", f"{steps(records)}", *common]
    (folder / "input.jsonl").write_bytes(models.lines(toys.records(task, records)))
    models.save(models.theirs("BertForPreTraining", layers=2, width=128), folder / "start")
    return ["finetune", task, "-m", "start", "--epochs", f"{EPOCHS}", *common]


def tried(trial: Trial, kills: int, endings: int = 0, signals: bool = False) -> Iterator[Fell]:
    """Yields what becomes of each kill; afterwards the run is finished, and is as the one that nothing has ended."""
    trial.whole("whole")
    last = trial.steps - MARGIN
    numbers = itertools.cycle([signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
    for number in range(kills - endings):
        found = Counter(fell.place for fell in trial.fell)
        wanted = INSIDE if found[INSIDE] <= found[BETWEEN] else BETWEEN
        step = trial.rng.randint(number * last // kills + 1, (number + 1) * last // kills)
        yield trial.kill_at(step, wanted, next(numbers) if signals and number % 2 else signal.SIGKILL)
    while len(trial.fell) < kills and not trial.is_over:
        yield trial.kill_at(0, ENDING)
    trial.whole("killed", "--resume")
    ours, theirs = (crashes.essence(trial.folder / out) for out in ("killed", "whole"))
    assert ours[2] == theirs[2], f"left in the folder: {set(ours[2]) ^ set(theirs[2])}"
    assert ours[1] == theirs[1], "the logs differ"
    assert ours[0] == theirs[0], "the weights differ"


def main() -> None:
    """Kill a run as often as told, print a line for each time, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, choices=[1, 2], default=1)
    parser.add_argument("--task", choices=["pretrain", *toys.TASKS], default="pretrain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", choices=["file", "stdin"], default="file")
    parser.add_argument("--signals", action="store_true")
    parser.add_argument("--endings", type=int, default=0, help="of the kills: those when the model is being written")
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    records = 40 * max(10, given.kills)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        line = prepared(folder, given.task, records)
        start = cold if given.cold else stack.enter_context(warm.program()).start
        rng, by_pipe = random.Random(given.seed), given.input == "stdin"
        trial = Trial(folder, start, line, steps(records), given.ranks, by_pipe, rng)
        print(f"bertcli {' '.join(line)}: {trial.steps} steps")
        print(" kill  how               place            step  newest  resumed in")
        try:
            for number, fell in enumerate(tried(trial, given.kills, given.endings, given.signals), 1):
                how, place, step, newest, seconds = fell
                print(f"{number:5}  {how:16}  {place:15}  {step:4}  {newest:6}  {seconds:6.2f} s", flush=True)
        except AssertionError as error:
            sys.exit(f"after {len(trial.fell)} kills: {error}\n{trial.err()}")
        summed_up(trial)


def summed_up(trial: Trial) -> None:
    """Print where kills fell, and how long resuming took; ends with 1 where they were not spread as they should be."""
    places = Counter(fell.place for fell in trial.fell)
    slowest = max(fell.seconds for fell in trial.fell)
    print(f"{dict(places)}; a save takes {1e3 * trial.saving:.0f} ms; resumed within {slowest:.2f} s")
    print("weights, log and files are the undisturbed run's to the bit")
    drawn = len(trial.fell) - places[ENDING]
    if min(places[INSIDE], places[BETWEEN]) < drawn // 3 or min(fell.step for fell in trial.fell) < 1:
        sys.exit("the kills were not spread as they should be")


if __name__ == "__main__":
    main()
