"""Every example that a page shows works, in a folder where the files that it names are."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import ROOT, Result

from bertcli import manual

# The demo's own test runs its example, which takes a minute, and looks at its figures.
EXAMPLES = [line for name, command in manual.commands().items() if name != "demo" for line, _ in command.examples]


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(line: str, house: Path, shell: Callable[..., Result], tmp_path: Path) -> None:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    for folder in re.findall(r"-o (\S+)", line):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)  # the house has what an example makes
    result = shell(line)
    assert "Traceback" not in result.err
    assert result.status == 0 or (result.status == 141 and "| head" in line), result.err


def readme_lines() -> list[list[str]]:
    """Returns the words of every command of ours in the README's blocks of shell."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    text = "".join(blocks).replace("\\\n", " ").replace("glue-$task", "glue-cola")
    return [shlex.split(line) for line in re.findall(r"\bbertcli (.+?)(?:[|&>;]|$)", text, re.MULTILINE)]


def test_the_readme_has_commands() -> None:
    names = {words[0] for words in readme_lines()}
    assert names >= manual.commands().keys() - {"tokenize", "show"}


@pytest.mark.parametrize("words", readme_lines(), ids=" ".join)
def test_a_line_of_the_readme_has_options_that_there_are(words: list[str]) -> None:
    name, *arguments = words
    manual.commands()[name].make_context(name, arguments)
