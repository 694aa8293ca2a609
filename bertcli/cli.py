"""The table of commands in pipeline order, the lazy group, and the one place where an error becomes a status."""

from __future__ import annotations

import gc
import importlib
import os
import re
import signal
import sys
from contextlib import suppress

import click

from bertcli import __version__, torchrun
from bertcli.errors import BertcliError, NoInput, Status, of_system, printable

COMMANDS = {
    "vocab": "Learn a WordPiece vocabulary from text.",
    "read": "Turn other people's files into documents or task records.",
    "tokenize": "Add WordPiece tokens, ids and offsets to text or records.",
    "pairs": "Cut documents into pairs of segments for next-sentence prediction.",
    "mask": "Hide tokens of pairs for the masked language model.",
    "pretrain": "Pre-train a model on pairs.",
    "finetune": "Fine-tune a model on the records of a task.",
    "predict": "Add a model's predictions to records.",
    "embed": "Add a model's vectors to records.",
    "score": "Score predictions beside gold labels.",
    "write": "Write predictions as the official file of a task or as a table, vectors as an array.",
    "convert": "Turn a BERT of any make into a model folder, or into what others read.",
    "show": "Say what is in a model folder, a vocabulary or a stream.",
    "plot": "Draw the curves of training logs, dev scores and tables.",
    "demo": "Run the whole pipe on a small corpus that ships inside.",
}

TRAINING = ["pretrain"], ["finetune"]  # what `torchrun` may start
LACKS_MEMORY = re.compile(  # torch's, of a GPU and of the CPU; C++'s; and the linker's, when torch itself is loaded
    "out of memory|can't allocate memory|bad_alloc|failed to map segment|cannot allocate memory", re.IGNORECASE
)


class LazyGroup(click.Group):
    """A group that imports a command's file when the command runs, so that `--help` stays light."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Returns the names in pipeline order."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns one command, imported now."""
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"bertcli.commands.{name}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing any command."""
        with formatter.section("Commands, in pipeline order"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bertcli")
def group() -> None:
    """BERT, whole, as small filters over zstd-compressed JSON Lines."""


def main() -> None:
    """Run the command line and leave with its status: the entry point, and the one error boundary."""
    gc.set_threshold(50_000)  # records hold no cycles, and looking for some takes a tenth of the time of a stream
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        die_of(signal.SIGINT)
    except BrokenPipeError:
        die_of(signal.SIGPIPE)
    # The streams were flushed where they were written; what is left of them must not fail again on the way out.
    with suppress(OSError):
        if sys.stderr:  # None where the shell has closed it
            sys.stderr.flush()
    os._exit(status)


def run(arguments: list[str]) -> int:
    """Returns the exit status of one command line, its error written to stderr as one line.

    Lets `KeyboardInterrupt` and `BrokenPipeError` pass: the process dies of those signals itself.
    """
    name = f"bertcli {arguments[0]}" if arguments and arguments[0] in COMMANDS else "bertcli"
    try:
        invoke(arguments)
        return Status.DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    except click.FileError as error:
        return say(name, error.format_message(), NoInput.status)
    except click.UsageError as error:
        if not (arguments[:1] in TRAINING and torchrun.place().rank):  # the first rank has been given the same
            error.show()
        return Status.USAGE
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            say(name, str(interrupt), Status.FAILURE)
        raise
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("BERTCLI_TRACEBACK") and not isinstance(error, BertcliError | OSError | MemoryError):
            raise
        return say(name, *explained(error))


def explained(error: Exception) -> tuple[str, int]:
    """Returns what an error says to people, and the exit status that it means."""
    match error:
        case BertcliError():
            return str(error), error.status
        case OSError():
            return of_system(error), Status.IO_FAILED
        case MemoryError():
            return "out of memory", Status.FAILURE
    if LACKS_MEMORY.search(str(error)):
        return "out of memory", Status.FAILURE
    problem = f"internal error: {type(error).__name__}: {error} (BERTCLI_TRACEBACK=1 shows where)"
    return problem, Status.FAILURE


def invoke(arguments: list[str]) -> None:
    """Run one command, and let it have succeeded only when all it said is on stdout.

    Not by `group.main`, which takes a closed pipe for an exit with 1 even where standalone_mode is off.
    """
    try:
        with group.make_context("bertcli", arguments) as context:
            group.invoke(context)
    finally:
        if sys.stdout:
            sys.stdout.flush()


def say(name: str, problem: str, status: int) -> int:
    """Write one line to stderr, if it can be written; returns the status."""
    with suppress(OSError):
        click.echo(f"{name}: {printable(' '.join(problem.split()))}", err=True)
    return status


def die_of(number: signal.Signals) -> None:
    """End the process by the signal itself, so that the shell sees the true cause (a loop stops, a pipe is quiet)."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
