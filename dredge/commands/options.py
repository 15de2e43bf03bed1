"""Options of a command, made from the fields that describe a setting (`dredge.settings`).

What is given is not looked at here: the dataclass reads and checks it, so that a command, a DAG and an operator say
the same about a value that does not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

import click

from dredge.settings import Setting, settings_of

type Command = Callable[..., Any]


def setting_options(kind: type, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each setting of a dataclass.

    Args:
        kind: the dataclass.
        without: names of settings that the command asks for in another way.

    Returns:
        A decorator; the command gets its options by the name of the setting, None for those that were not given.
    """
    options = [_option(found) for found in settings_of(kind) if found.name not in without]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _option(found: Setting) -> Callable[[Command], Command]:
    flag = found.name.replace("_", "-")
    words = f"{found.title}. {found.description}{_default(found)}"
    help_text = re.sub(r"\*\*(.+?)\*\*", r"\1", words).replace("`", "")  # a single asterisk is a glob
    if found.kind == "boolean":
        return click.option(f"--{flag}/--no-{flag}", found.name, default=None, help=help_text)
    if found.kind == "array":
        return click.option(
            f"--{flag}", found.name, metavar="NAME", multiple=True, help=f"{help_text} Repeatable."
        )
    metavar = "|".join(found.choices) if found.choices else _METAVARS[found.kind]
    return click.option(f"--{flag}", found.name, metavar=metavar, help=help_text)


class FiniteRange(click.FloatRange):
    """A number within bounds that is one: what is not a number compares false with every bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a number; fails for one that is out of bounds, infinite or none."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found


_METAVARS = {"string": "TEXT", "number": "NUMBER", "integer": "NUMBER"}


def _default(found: Setting) -> str:
    if found.default is None:
        return ""
    value = str(found.default).lower() if isinstance(found.default, bool) else f"{found.default}"
    return f" Default: {value.removesuffix('.0')}."
