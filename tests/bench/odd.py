"""What happens to folders of BERTs as people have them, odd and damaged: those of tests/odd.py, as a table.

python tests/bench/odd.py: makes each, gives it to `bertcli convert`, and to `bertcli embed` beside the sound one. Both
print the vectors of the sound folder, or one line. Seconds: 30.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import odd
import warm
from program import decompressed

TEXT = b"the cat is in the old house\n"
MEAN = ["--device", "cpu", "--pool", "mean", "--vectors", "list", "--dtype", "float32"]
ANSWER = re.compile(rb'"vectors":\[\[(.*?)\]\]')


def vectors(program: warm.Program, room: Path, model: str) -> tuple[str, list[float]]:
    """Returns what `embed` says last on stderr, and the vector of a text, empty where it fails."""
    result = program.run(["embed", "-m", model, *MEAN], room, TEXT)
    found = ANSWER.search(decompressed(result.out))
    said = result.err.strip().splitlines() or [""]
    return said[-1], [float(number) for number in found[1].split(b",")] if found else []


def told(program: warm.Program, case: odd.Odd) -> tuple[str, str]:
    """Returns what `convert` and `embed` make of a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        room = Path(temporary)
        odd.sound(room / "sound")
        case.make(odd.sound(room / "model"))
        _, expected = vectors(program, room, "sound")
        result = program.run(["convert", "model", "-o", "copy"], room, b"")
        lines = result.err.strip().splitlines()
        converted = lines[-1] if result.status else lines[-2]
        said, found = vectors(program, room, "copy" if not result.status else "model")
        distance = max((abs(a - b) for a, b in zip(expected, found, strict=True)), default=None) if found else None
        embedded = said if distance is None else f"vectors within {distance:.0e}" if distance else "equal vectors"
        return converted.removeprefix("bertcli convert: "), embedded.removeprefix("bertcli embed: ")


def main() -> None:
    """Print the table."""
    with warm.program() as program:
        print("| what | convert | embed |\n| --- | --- | --- |")
        for case in [*odd.LOADING, *odd.REFUSED]:
            print(f"| {case.what} | {' | '.join(told(program, case))} |", flush=True)


if __name__ == "__main__":
    main()
