"""What `read` and `write` share: the options of tables."""

from __future__ import annotations

import click

from bertcli.commands.owned import option


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
