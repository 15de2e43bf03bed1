"""Options of a command are those of its settings, and its type alone says what fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dredge.cli import dredge
from dredge.commands.options import FiniteRange, setting_options
from dredge.settings import setting


@dataclass(frozen=True, kw_only=True)
class Config:
    name: str = setting("Name", "What it is called.")
    mode: str = setting("Mode", "How: `auto` or `clean`.", default="auto", choices=("auto", "clean"))
    dry_run: bool = setting("Dry run", "Delete **nothing**.", default=True)
    age: float = setting("Age", "How old.", default=25.0, minimum=25)


def ask(*words: str) -> tuple[str, dict[str, Any]]:
    given: dict[str, Any] = {}

    @click.command()
    @setting_options(Config, without=("name",))
    def command(**options: Any) -> None:
        given.update(options)

    return CliRunner().invoke(command, list(words)).output, given


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {"mode": None, "dry_run": None, "age": None}),
        (("--age", "3", "--no-dry-run"), {"mode": None, "dry_run": False, "age": "3"}),
        (("--mode", "fast"), {"mode": "fast", "dry_run": None, "age": None}),
    ],
)
def test_values_are_handed_on_as_they_were_given(words: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert ask(*words)[1] == expected


def options_of(command: click.Command, where: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """Each option and argument of a command and of all below it."""
    yield from ((f"{where} {param.name}", param) for param in command.params)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options_of(found, f"{where} {name}")


def test_no_command_takes_a_number_that_is_none() -> None:
    """It compares false with every bound, so a limit of that kind would hold nothing."""
    numbers = {
        name: param.type
        for name, param in options_of(dredge)
        if isinstance(param.type, click.types.FloatParamType)
    }
    assert {" gc lost keep_unnamed_days", " gc cost price"} <= numbers.keys()
    for name, kind in numbers.items():
        assert isinstance(kind, FiniteRange), name
        for word in ("nan", "inf", "-inf", "-1"):
            with pytest.raises(click.BadParameter):
                kind.convert(word, None, None)
    assert FiniteRange(min=0).convert("2.5", None, None) == 2.5
