"""Renders man pages, shell completions and the README's table from the commands themselves.

`python -m bertcli.manual` rewrites them under the project's root; a test compares what is committed with what
this renders.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click

from bertcli import __version__, cli
from bertcli.commands.options import Command
from bertcli.completion import bash, context_of, fish, words_of, zsh
from bertcli.errors import Status

ROOT = Path(__file__).parent.parent
TABLE = ("<!-- commands: rendered by python -m bertcli.manual -->", "<!-- end of commands -->")

STATUSES = {
    Status.DONE: "Done.",
    Status.FAILURE: "Failure.",
    Status.USAGE: "Wrong usage.",
    Status.BAD_DATA: "Bad input; the message names file, line and field, what was found, what was expected.",
    Status.NO_INPUT: "No such input, vocabulary or model.",
    Status.CANNOT_CREATE: "An output cannot be made, or would overwrite something.",
    Status.IO_FAILED: "Reading or writing failed, as on a full disk.",
    Status.STOPPED: "Stopped by SIGTERM or SIGUSR1, with all work saved.",
}
SIGNALS = "A filter whose reader has gone dies of SIGPIPE (141 in a shell); SIGINT ends a command by that signal."


def commands() -> dict[str, Command]:
    """Returns the commands that are there, in pipeline order."""
    context = click.Context(cli.group, info_name="bertcli")
    found = {}
    for name in cli.COMMANDS:
        if importlib.util.find_spec(f"bertcli.commands.{name}"):
            found[name] = cli.group.get_command(context, name)
    return {name: command for name, command in found.items() if isinstance(command, Command)}


def rendered() -> dict[str, str]:
    """Returns every file that is rendered: its path under the project's root, and its text."""
    everything = commands()
    files = {"man/bertcli.1": group_page(everything)}
    files |= {f"man/bertcli-{name}.1": command_page(command) for name, command in everything.items()}
    words = {name: words_of(command) for name, command in everything.items()}
    completions = {"bertcli.bash": bash(words), "_bertcli": zsh(words), "bertcli.fish": fish(words)}
    return files | {f"completions/{name}": text for name, text in completions.items()}


def with_table(readme: str) -> str:
    """Returns a README whose table of commands, between the two markers, is today's; without markers, as it is."""
    rows = ["| command | reads | writes |", "| --- | --- | --- |"]
    for name, command in commands().items():
        cells = (f"`{' '.join([name, *usage(command)[1:]])}`", command.reads, command.writes)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    start, end = map(re.escape, TABLE)
    table = "\n\n".join([TABLE[0], "\n".join(rows), TABLE[1]])
    return re.sub(f"{start}.*?{end}", lambda _: table, readme, flags=re.DOTALL)


# -- man pages ------------------------------------------------------------------------------------------


def group_page(everything: dict[str, Command]) -> str:
    """Returns bertcli(1): what the whole is, and its commands in pipeline order."""
    sections = [
        ("NAME", rf"bertcli \- {roff((cli.group.help or '').rstrip('.'))}"),
        ("SYNOPSIS", r".B bertcli" + "\n" + r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIFILE\fR]..."),
        ("DESCRIPTION", prose(cli.group.help or "")),
        ("COMMANDS", "\n".join(term(rf"\fBbertcli\-{name}\fR(1)", cli.COMMANDS[name]) for name in everything)),
        ("OPTIONS", options_section(cli.group)),
        ("EXIT STATUS", exit_status(cli.group)),
        ("SEE ALSO", ",\n".join(rf"\fBbertcli\-{name}\fR(1)" for name in everything)),
    ]
    return page("bertcli", sections)


def command_page(command: Command) -> str:
    """Returns bertcli-COMMAND(1)."""
    name = str(command.name)
    synopsis = re.sub(r"[A-Z]+", r"\\fI\g<0>\\fR", roff(" ".join(usage(command))))
    examples = "\n.PP\n".join(
        f"{prose(what)}\n.PP\n.RS 4\n.nf\n{roff(line)}\n.fi\n.RE" for line, what in command.examples
    )
    sections = [
        ("NAME", rf"bertcli\-{name} \- {roff(cli.COMMANDS[name].rstrip('.'))}"),
        ("SYNOPSIS", rf"\fBbertcli {name}\fR {synopsis}"),
        ("DESCRIPTION", prose(command.help or "")),
        ("READS", prose(command.reads)),
        ("WRITES", prose(f"{command.writes}\n\n{command.kind.value}")),
        ("OPTIONS", options_section(command)),
        ("EXAMPLES", examples),
        ("EXIT STATUS", exit_status(command)),
        ("SEE ALSO", r"\fBbertcli\fR(1)"),
    ]
    return page(f"bertcli-{name}", sections)


def page(name: str, sections: list[tuple[str, str]]) -> str:
    """Returns a page without a date, which would change it on a day on which nothing changed."""
    head = rf'.TH "{roff(name.upper())}" 1 "" "bertcli {__version__}" "bertcli manual"'
    parts = [r".\" Rendered by python -m bertcli.manual", head, ".nh", ".ad l"]
    return "\n".join([*parts, *(f".SH {title}\n{body}" for title, body in sections)]) + "\n"


def roff(text: str) -> str:
    """Returns text in which roff sees nothing of its own."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def prose(text: str) -> str:
    """Returns paragraphs, their `names` in bold."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n.PP\n".join(re.sub(r"`([^`]+)`", r"\\fB\1\\fR", roff(part)) for part in paragraphs)


def term(head: str, text: str) -> str:
    """Returns one item of a list."""
    return f".TP\n{head}\n{prose(text)}"


def exit_status(command: click.Command) -> str:
    """Returns the list of exit statuses; of those with work to save only the commands that can resume speak."""
    resumes = isinstance(command, click.Group) or any(parameter.name == "resume" for parameter in command.params)
    statuses = [status for status in STATUSES if resumes or status != Status.STOPPED]
    return "\n".join([*(term(rf"\fB{int(each)}\fR", STATUSES[each]) for each in statuses), ".PP", SIGNALS])


def options_section(command: click.Command) -> str:
    """Returns the options as click itself describes them."""
    context = context_of(command)
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    records = [option.get_help_record(context) for option in options]
    return "\n".join(term(rf"\fB{roff(head)}\fR", text) for head, text in filter(None, records))


def usage(command: click.Command) -> list[str]:
    """Returns `[OPTIONS]` and the arguments."""
    return command.collect_usage_pieces(context_of(command))


def main() -> None:
    """Rewrite everything that is rendered; pages of commands that are gone are removed."""
    if not (ROOT / "pyproject.toml").exists():
        raise SystemExit("python -m bertcli.manual runs in a checkout only")
    files = rendered()
    for stale in set(ROOT.glob("man/*.1")) - {ROOT / path for path in files}:
        stale.unlink()
    for path, text in files.items():
        (ROOT / path).write_text(text, encoding="utf-8")
    readme = ROOT / "README.md"
    if readme.exists():
        readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
