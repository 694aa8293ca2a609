"""The laws of the design: which way imports flow, what stays light, how large things grow."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from program import ROOT, run

from bertcli import cli

PACKAGE = ROOT / "bertcli"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

# Each part may import those before it, and its own. Parts in one set are siblings and do not know each other.
ORDER: list[set[str]] = [
    {"errors"},
    {"torchrun"},
    {"records"},
    {"randomness"},
    {"vectors"},
    {"frames"},
    {"lines"},
    {"stream"},
    {"marks"},
    {"stages"},
    {"parallel"},
    {"publish"},
    {"folder"},
    {"headers"},
    {"lock"},
    {"target"},
    {"schemes"},
    {"text", "formats", "metrics", "plot", "demo"},
    {"model"},
    {"weights"},
    {"show"},
    {"tasks"},
    {"engine"},
    {"commands"},
    {"cli"},
    {"completion"},
    {"manual"},
    {"__main__"},
]
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
LIGHT = [part for parts in ORDER[: RANK["text"] + 1] for part in parts]
WITH_CLICK = {"commands", "cli", "completion", "manual", "__main__"}


def name_of(path: Path) -> str:
    """Returns a file's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def part_of(name: str) -> str:
    """Returns the part of the package that a module is of: "" for the package itself."""
    return name.split(".")[1] if "." in name else ""


def imports(tree: ast.AST) -> Iterator[str]:
    """Yields the modules that a file imports, anywhere in it; for `from package import name`, both joined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> list[str]:
    return [name for name in imports(TREES[path]) if name.startswith("bertcli.") and part_of(name) in RANK]


def test_every_part_has_its_place() -> None:
    assert {part_of(name_of(path)) for path in FILES} - {""} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_flow_one_way(path: Path) -> None:
    here = part_of(name_of(path))
    for name in ours(path):
        there = part_of(name)
        is_package = here == ""
        assert not is_package, f"the package imports {name}"
        assert there == here or RANK[there] < RANK[here], f"{here} imports {there} ({name})"


def test_the_engine_knows_tasks_by_their_protocol_alone() -> None:
    for path in FILES:
        if part_of(name_of(path)) == "engine":
            tasks = {name for name in ours(path) if part_of(name) == "tasks"}
            assert all(name.startswith("bertcli.tasks.task") for name in tasks), (path, tasks)


def test_the_library_knows_no_click_no_arguments_and_never_prints() -> None:
    for path, tree in TREES.items():
        if part_of(name_of(path)) not in WITH_CLICK:
            assert not {name for name in imports(tree) if name.split(".")[0] == "click"}, path
            for node in ast.walk(tree):
                assert not (isinstance(node, ast.Attribute) and node.attr == "argv"), path
                assert not (isinstance(node, ast.Name) and node.id == "print"), path


def test_a_command_imports_only_what_is_light_at_its_top() -> None:
    light = {*sys.stdlib_module_names, "click", "bertcli"}
    for path, tree in TREES.items():
        if part_of(name_of(path)) == "commands":
            top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            heavy = {name for node in top for name in imports(node) if name.split(".")[0] not in light}
            assert not heavy, path


# -- light ----------------------------------------------------------------------------------------------


def loaded(code: str) -> set[str]:
    """Returns which heavy packages a program has imported at its end."""
    heavy = ("torch", "numpy", "tokenizers", "transformers", "safetensors", "tqdm")
    end = f"\nimport sys; print('\\nloaded', *(name for name in {heavy} if name in sys.modules))"
    result = run([sys.executable, "-c", code + end])
    assert result.status == 0, result.err
    return set(result.out.decode().splitlines()[-1].split()[1:])


def test_everything_before_the_model_runs_without_torch() -> None:
    modules = [name_of(path) for path in FILES if part_of(name_of(path)) in LIGHT]
    assert "bertcli.text" in modules
    assert "torch" not in loaded("import " + ", ".join(modules))


def test_help_is_light() -> None:
    """All helps in one process: what they do not import together, none of them imports alone."""
    lines = [["--help"], ["--version"], *([name, "--help"] for name in cli.COMMANDS)]
    code = f"from bertcli.cli import run\nassert not any([run(line) for line in {lines}])"
    assert loaded(code) & {"torch", "numpy", "tokenizers", "transformers"} == set()


LINES = {
    "vocab": ["--size", "50", "corpus.txt"],
    "read": ["text", "corpus.txt"],
    "tokenize": ["corpus.txt"],
    "pairs": ["docs.jsonl"],
    "mask": ["/dev/null"],
    "score": ["classification", "/dev/null"],
    "write": ["csv", "/dev/null"],
    "show": ["docs.jsonl"],
    "plot": ["steps.jsonl"],
}


@pytest.mark.parametrize("name", LINES)
def test_text_commands_run_without_torch(name: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("a b\n")
    (tmp_path / "docs.jsonl").write_text('{"id": "0", "sentences": ["a b", "b"]}\n')
    (tmp_path / "steps.jsonl").write_text('{"step": 1, "loss": 2}\n')
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]))
    code = (
        f"import os; os.chdir({str(tmp_path)!r})\nfrom bertcli.cli import run\nstatus = run({[name, *LINES[name]]})\n"
    )
    assert "torch" not in loaded(code + "assert status == 0, status")


# -- size and form --------------------------------------------------------------------------------------


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines of a function from `def` to its end, its docstring left out."""
    assert node.end_lineno
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        assert first.end_lineno
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_files_can_be_read_in_one_sitting() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: size for name, size in sizes.items() if size > 350} == {}


def test_functions_are_short() -> None:
    sizes = {f"{name_of(path)}.{f.name}": length(f) for path, tree in TREES.items() for f in functions(tree)}
    assert {name: size for name, size in sizes.items() if size > 60} == {}
    assert statistics.median(sizes.values()) < 12


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_is_thin(name: str) -> None:
    tree = TREES[PACKAGE / "commands" / f"{name}.py"]
    (callback,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "command"]
    statements = callback.body[1:] if ast.get_docstring(callback) else callback.body
    assert statements[-1].end_lineno
    assert statements[-1].end_lineno - statements[0].lineno + 1 < 15


def test_no_names_that_say_nothing() -> None:
    empty = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    found = {path for path in PACKAGE.rglob("*") if empty & set(re.split(r"[_.]", path.name.lower()))}
    assert not found


def public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Yields the functions and classes of a file, and the methods of its public classes, that have no underscore."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for node in [*tree.body, *(inner for one in classes for inner in one.body)]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not re.match(r"_[^_]", node.name):
            yield node


def test_the_public_says_what_it_returns() -> None:
    missing = [name_of(path) for path, tree in TREES.items() if not ast.get_docstring(tree)]
    for path, tree in TREES.items():
        missing += [f"{name_of(path)}.{node.name}" for node in public(tree) if not ast.get_docstring(node)]
    assert missing == []


def test_commands_are_those_that_are_there() -> None:
    context = click.Context(cli.group)
    commands = {name: cli.group.get_command(context, name) for name in cli.COMMANDS}
    assert [command.name for command in commands.values() if command] == list(cli.COMMANDS)
