"""What `read` and `write` share: options that only some of the foreign formats have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


class FormatOption(click.Option):
    """An option of some formats alone, as its help says; `needed` by them or not."""

    def __init__(self, *args: Any, formats: Sequence[str], needed: bool = False, **kwargs: Any) -> None:
        """Name the formats in the help, those of GLUE by what they have in common."""
        families = dict.fromkeys("glue-…" if name.startswith("glue-") else name for name in formats)
        super().__init__(*args, **kwargs)
        self.formats, self.needed = formats, needed
        self.help = f"{', '.join(families)}: {self.help}"


def option(formats: Sequence[str], *names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Returns click's decorator for an option of some formats; where it is not given, its value is None."""
    return click.option(*names, cls=FormatOption, formats=formats, default=None, **attributes)


def own(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that were given; raises click's error where the format lacks one, or needs another."""
    declared = click.get_current_context().command.params
    for parameter in declared:
        if isinstance(parameter, FormatOption):
            is_given, is_own = given[str(parameter.name)] is not None, name in parameter.formats
            if is_given and not is_own:
                formats = " and ".join(parameter.formats)
                raise click.UsageError(f"{parameter.opts[0]} is an option of {formats}, not of {name}")
            if parameter.needed and is_own and not is_given:
                raise click.UsageError(f"{name} needs {parameter.opts[0]}")
    return {option: value for option, value in given.items() if value is not None}


def one_character(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Returns a delimiter; raises click's error for what cannot be one."""
    value = "\t" if value == "\\t" else value
    if value is not None and (len(value) != 1 or value in '"\r\n'):
        raise click.BadParameter(f"{value!r} is not one character other than a quote and a line end")
    return value


def not_empty(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Returns a string; raises click's error for an empty one."""
    if value == "":
        raise click.BadParameter("it is empty")
    return value


TABLES = ("csv", "tsv")
delimiter = option(
    ("csv",), "--delimiter", metavar="CHARACTER", callback=one_character, help="What parts the columns.  [default: ,]"
)
several = option(
    TABLES, "--several", metavar="SEPARATOR", callback=not_empty, help="A cell holds several labels, joined by this."
)
