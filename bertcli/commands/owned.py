"""Options that only some formats, or some tasks, have: declared with their owners, checked against one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


class OwnedOption(click.Option):
    """An option of some formats or tasks alone, as its help says; `needed` by them or not."""

    def __init__(self, *args: Any, owners: Sequence[str], needed: bool = False, **kwargs: Any) -> None:
        """Name the owners in the help, those of GLUE by what they have in common."""
        families = dict.fromkeys("glue-…" if name.startswith("glue-") else name for name in owners)
        super().__init__(*args, **kwargs)
        self.owners, self.needed = owners, needed
        self.help = f"{', '.join(families)}: {self.help}"


def option(owners: Sequence[str], *names: str, **attributes: Any) -> Callable[[Any], Any]:
    """Returns click's decorator for an option of some formats or tasks; where it is not given, its value is None."""
    return click.option(*names, cls=OwnedOption, owners=owners, default=None, **attributes)


def own(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns what was given; raises click's error where a format or task lacks one of its own, or has another's."""
    declared = click.get_current_context().command.params
    for parameter in declared:
        if isinstance(parameter, OwnedOption):
            is_given, is_own = given[str(parameter.name)] is not None, name in parameter.owners
            if is_given and not is_own:
                owners = " and ".join(parameter.owners)
                raise click.UsageError(f"{parameter.opts[0]} is an option of {owners}, not of {name}")
            if parameter.needed and is_own and not is_given:
                raise click.UsageError(f"{name} needs {parameter.opts[0]}")
    return {option: value for option, value in given.items() if value is not None}
