"""Options of a command are those of its settings, and its type alone says what fits."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dredge import cli
from dredge.cli import dredge
from dredge.commands import FiniteRange
from dredge.commands.printing import setting_options
from dredge.settings import setting
from tests.support.errors_page import exit_codes


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
    yield from ((f"{where} {param.name}", param) for param in command.params)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options_of(found, f"{where} {name}")


def test_no_command_takes_a_number_that_is_none() -> None:
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


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


COMMANDS = {" ".join(path): command for path, command in commands(cli.dredge)}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_the_command_takes(name: str) -> None:
    examples = re.findall(rf"^ +dredge ({name}.*)$", COMMANDS[name].help or "", re.MULTILINE)
    assert examples
    for example in examples:
        words = shlex.split(example)[len(name.split()) :]
        # Names of the help option as the whole command has them: click remembers the first ones it sees.
        COMMANDS[name].make_context(name, words, help_option_names=["-h", "--help"])


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"ui"}))
def test_programs_can_have_json(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[name].params)


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes_of_a_command_are_those_of_the_table(name: str) -> None:
    group = cli.dredge.get_command(click.Context(cli.dredge), name.split()[0])
    helps = [COMMANDS[name].help or "", (group.help if group else "") or ""]
    told = next((text.partition("Exit codes:")[2] for text in helps if "Exit codes:" in text), "")
    found = set(re.findall(r"(?:^|[·,;] |\n) *(\d+) ", told))
    assert found or "those of" in told
    assert found <= dict(exit_codes()).keys()
