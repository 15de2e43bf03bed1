"""Options of commands: from dataclasses of settings, and shared ones.

The dataclass of the settings checks their values, so that a command, a DAG and an operator report the same error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from dredge.settings import Setting, settings_of

type Command = Callable[..., Any]

REASON = click.option("--reason", required=True, help="Why, in your words; kept with the state.")
BY = click.option("--by", metavar="NAME", help="Your name.  [default: the login name]")
QUIET = click.option("--quiet", is_flag=True, help="No lines of progress on standard error.")
PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Worker processes; 0 works in this one.",
)
AT_ONCE = click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repositories collected at the same time.",
)
ACKNOWLEDGE_REASON = click.option(
    "--reason", metavar="TEXT", help="Why deleting may go on; kept with the state. Without: list alarms."
)


def json_option(help_text: str = "One JSON object.") -> Callable[[Command], Command]:
    """Make the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


JSON = json_option()


def setting_options(kind: type, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command an option for each setting of a dataclass, except those in `without`.

    The command gets them by the name of the setting; None for an option that was not given.
    """
    options = [_option(found) for found in settings_of(kind) if found.name not in without]

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a value."""
    return {name: value for name, value in settings.items() if value is not None}


def take_settings(settings: dict[str, Any], kind: type) -> dict[str, Any]:
    """Remove the settings of a dataclass from others, and return them."""
    return {found.name: settings.pop(found.name) for found in settings_of(kind) if found.name in settings}


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
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; fails if it is out of bounds or not finite."""
        # NaN compares false with every bound, so the base class lets it through.
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
