"""What is committed is what the program renders, and the shells take it."""

from __future__ import annotations

import shutil

import click
import pytest
from program import ROOT, Result, run

from bertcli import manual
from bertcli.completion import bash, words_of
from bertcli.formats import READERS

COMMANDS = manual.commands()


def needs(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")


def test_what_is_committed_is_what_is_rendered() -> None:
    rendered = manual.rendered()
    committed = {str(path.relative_to(ROOT)) for folder in ("man", "completions") for path in ROOT.glob(f"{folder}/*")}
    assert committed == set(rendered), "run python -m bertcli.manual"
    for path, text in rendered.items():
        assert (ROOT / path).read_text() == text, f"{path}: run python -m bertcli.manual"


def test_the_table_of_the_readme() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("no README yet")
    text = readme.read_text()
    assert all(marker in text for marker in manual.TABLE)
    assert manual.with_table(text) == text, "run python -m bertcli.manual"


def test_the_table_is_put_between_the_markers_alone() -> None:
    start, end = manual.TABLE
    text = f"before\n{start}\nold\n{end}\nafter\n"
    new = manual.with_table(text)
    assert new.startswith(f"before\n{start}\n\n| command | reads | writes |\n")
    assert new.endswith(f" |\n\n{end}\nafter\n")
    assert "| `read FORMAT [FILE]...` | " in new
    assert manual.with_table(new) == new
    assert manual.with_table("no markers\n") == "no markers\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert command.reads.endswith(".")
    assert command.writes.endswith(".")
    assert command.examples
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts[0]} has no help"
        elif isinstance(parameter.type, click.Choice):
            page = command.help + command.reads
            assert all(choice in page for choice in parameter.type.choices), "a choice that the page does not name"


def test_a_long_option_has_one_meaning() -> None:
    """Two commands may tell an option's default apart, but not what kind of value it takes."""
    kinds: dict[str, set[tuple[str, str]]] = {}
    for command in COMMANDS.values():
        for word in words_of(command):
            for name in word.names:
                kinds.setdefault(name, set()).add((word.value, " ".join(sorted({*word.names} - {name}))))
    # pairs has a pool of documents, embed pools vectors; of a table, --text names a column.
    assert {name for name, kind in kinds.items() if len(kind) > 1} <= {"--pool", "--text"}


# -- pages and shells -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bertcli", *(f"bertcli-{name}" for name in COMMANDS)])
def test_a_page_is_clean_roff(name: str) -> None:
    needs("groff")
    result = run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou", str(ROOT / f"man/{name}.1")])
    assert (result.status, result.err) == (0, "")
    page = result.out.decode().replace("‐", "-").replace("−", "-")
    titles = [line for line in page.splitlines() if line.isupper() and line[0].isalpha() and "(" not in line]
    middle = ["COMMANDS", "OPTIONS"] if name == "bertcli" else ["READS", "WRITES", "OPTIONS", "EXAMPLES"]
    assert titles == ["NAME", "SYNOPSIS", "DESCRIPTION", *middle, "EXIT STATUS", "SEE ALSO"]
    assert "--help" in page
    assert ("all work saved" in " ".join(page.split())) == (name in ("bertcli", "bertcli-pretrain", "bertcli-finetune"))


TYPED = [
    ("bertcli sc", ["score"]),
    ("bertcli --ver", ["--version"]),
    ("bertcli read ", sorted(READERS)),
    ("bertcli read --document li", ["line"]),
    ("bertcli read text --on-error ", ["skip", "stop"]),
    ("bertcli score --posi", ["--positive"]),
    ("bertcli pretrain --preset 6x7", ["6x768", "6x768x3"]),
]


def completed(result: Result) -> list[str]:
    assert (result.status, result.err) == (0, "")
    return sorted(line.split("\t")[0].strip() for line in result.out.decode().splitlines())


@pytest.mark.parametrize(("typed", "expected"), [*TYPED, ("bertcli read text ", []), ("bertcli", COMMANDS)])
def test_bash_completes(typed: str, expected: list[str]) -> None:
    words = " ".join(f"'{word}'" for word in (typed + " " * (typed == "bertcli")).split(" "))
    script = f"""source {ROOT}/completions/bertcli.bash
        COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _bertcli; printf '%s\\n' "${{COMPREPLY[@]}}" """
    assert completed(run(["bash", "-c", script])) == (sorted(expected) or [""])


@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_fish_completes(typed: str, expected: list[str]) -> None:
    needs("fish")
    script = f"source {ROOT}/completions/bertcli.fish; complete -C '{typed}'"
    assert completed(run(["fish", "--no-config", "-c", script])) == expected


def test_zsh_takes_its_completion() -> None:
    needs("zsh")
    assert run(["zsh", "-n", str(ROOT / "completions/_bertcli")]) == (0, b"", "")


def test_completion_quotes_what_shells_would_take_apart() -> None:
    command = click.Command("x", params=[click.Option(["--odd"], help="It's [odd]: a\\b. More.")])
    words = {"read": words_of(command)}
    assert "'(--odd)--odd[It'\\''s \\[odd\\]\\: a\\\\b]:value:_files'" in manual.zsh(words)
    assert "-d 'It'\\''s [odd]: a\\b'" in manual.fish(words)
    assert "read:--odd" in bash(words)
