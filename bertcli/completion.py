"""Renders shell completions: lists of commands, options, choices and files, so that a TAB starts no Python."""

from __future__ import annotations

import re
from typing import NamedTuple

import click

from bertcli import cli
from bertcli.commands.options import Several


class Word(NamedTuple):
    """An option, or without names an argument, as a shell completes it."""

    names: list[str]
    value: str  # "": takes none; else "choices", "file" or "number"
    choices: list[str]
    help: str


def context_of(command: click.Command) -> click.Context:
    """Returns the context in which a command says how it is used."""
    return click.Context(command, info_name=command.name, **command.context_settings)


def words_of(command: click.Command) -> list[Word]:
    """Returns the options and then the arguments of a command."""
    found = []
    for parameter in command.get_params(context_of(command)):
        kind = parameter.type.each if isinstance(parameter.type, Several) else parameter.type
        choices = list(getattr(kind, "choices", ()))
        is_number = isinstance(kind, type(click.INT) | type(click.FLOAT))
        value = "choices" if choices else "number" if is_number else "file"
        if isinstance(parameter, click.Option):
            names = [*parameter.opts, *parameter.secondary_opts]
            first_sentence = re.split(r"\.(?:\s|$)", parameter.help or "")[0]
            found.append(Word(names, "" if parameter.is_flag else value, choices, first_sentence))
        else:
            found.append(Word([], value, choices, ""))
    return sorted(found, key=lambda word: not word.names)


BASH = """\
# bash completion for bertcli; rendered by python -m bertcli.manual
_bertcli() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
    local before=("${COMP_WORDS[@]:1:COMP_CWORD - 1}") command= options= words= argument= word
    for word in "${before[@]}"; do
        [[ $word == -* ]] || { command=$word; break; }
    done
    case "$command:$previous" in
CASES
    esac
    for word in "${before[@]:1}"; do
        # Once the argument is there, what follows are files.
        [[ " $argument " == *" $word "* ]] && argument=
    done
    [[ $current == -* ]] && words=$options argument=
    COMPREPLY=($(compgen -W "$words $argument" -- "$current"))
}
complete -o default -F _bertcli bertcli
"""


def bash(everything: dict[str, list[Word]]) -> str:
    """Returns bash's completion; where nothing that it knows fits, bash completes files."""
    cases = []
    for command, words in everything.items():
        for word in words:
            if word.value and word.names:
                pattern = " | ".join(f"{command}:{name}" for name in word.names)
                act = "compopt +o default" if word.value == "number" else f'words="{" ".join(word.choices)}"'
                cases.append(f"{pattern}) {act} ;;")
        options = " ".join(name for word in words for name in word.names)
        choices = " ".join(choice for word in words if not word.names for choice in word.choices)
        cases.append(f'{command}:*) options="{options}" argument="{choices}" ;;')
    options = " ".join(name for word in words_of(cli.group) for name in word.names)
    cases.append(f'*) options="{options}" words="{" ".join(everything)}" ;;')
    return BASH.replace("CASES", "\n".join(f"        {case}" for case in cases))


ZSH = """\
#compdef bertcli
# Rendered by python -m bertcli.manual

_bertcli() {
    local -a commands
    commands=(
COMMANDS
    )
    if (( CURRENT == 2 )); then
        if [[ $words[2] == -* ]]; then
            _arguments OPTIONS
        else
            _describe command commands
        fi
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
CASES
    esac
}

_bertcli "$@"
"""


def zsh(everything: dict[str, list[Word]]) -> str:
    """Returns zsh's completion, with what each option means."""
    cases = []
    for command, words in everything.items():
        cases.append(f"        {command})\n            _arguments {zsh_specs(words)}\n            ;;")
    listed = "\n".join(f"        {quoted(f'{name}:{cli.COMMANDS[name]}')}" for name in everything)
    options = zsh_specs(words_of(cli.group))
    return ZSH.replace("COMMANDS", listed).replace("OPTIONS", options).replace("CASES", "\n".join(cases))


def zsh_specs(words: list[Word]) -> str:
    """Returns the specifications that `_arguments` takes, a line each."""
    return " \\\n                ".join(quoted(spec) for word in words for spec in _zsh_specs(word))


def _zsh_specs(word: Word) -> list[str]:
    values = {"choices": f"({' '.join(word.choices)})", "file": "_files", "number": " ", "": ""}[word.value]
    if not word.names:
        return [f"1:argument:{values}" if word.choices else f"*:file:{values}"]
    text = re.sub(r"([\[\]:\\])", r"\\\1", word.help)
    rest = f":value:{values}" if values else ""
    return [f"({' '.join(word.names)}){name}[{text}]{rest}" for name in word.names]


def fish(everything: dict[str, list[Word]]) -> str:
    """Returns fish's completion, with what each option means."""
    lines = ["# fish completion for bertcli; rendered by python -m bertcli.manual"]
    for word in words_of(cli.group):
        lines.append(" ".join(["complete -c bertcli -n __fish_use_subcommand", *_fish_names(word)]))
    for name in everything:
        lines.append(f"complete -c bertcli -f -n __fish_use_subcommand -a {name} -d {quoted(cli.COMMANDS[name])}")
    for command, words in everything.items():
        for word in words:
            condition, choices = f"__fish_seen_subcommand_from {command}", " ".join(word.choices)
            if not word.names and choices:
                condition += f"; and not __fish_seen_subcommand_from {choices}"
            what = _fish_names(word)
            if choices:
                what.append(f"-x -a {quoted(choices)}")
            elif word.names:
                what.append({"file": "-r", "number": "-x", "": ""}[word.value])
            if what:
                lines.append(" ".join(filter(None, ["complete -c bertcli -n", quoted(condition), *what])))
    return "\n".join(lines) + "\n"


def _fish_names(word: Word) -> list[str]:
    names = [f"-l {name[2:]}" if name[:2] == "--" else f"-s {name[1:]}" for name in word.names]
    return names + [f"-d {quoted(word.help)}"] * bool(names)


def quoted(text: str) -> str:
    """Returns one word of a shell, in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"
