"""Every command says the same kind of things: examples that it would take, exit codes, JSON for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from dredge import cli
from tests.support.errors_page import exit_codes


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that lead to it."""
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
