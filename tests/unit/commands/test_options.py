"""Options of a command are those of its settings, and its type alone says what fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dredge.commands.options import setting_options
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


def test_each_setting_is_an_option_with_its_words_and_its_default() -> None:
    said, _ = ask("--help")
    assert "--mode auto|clean" in said
    assert "--dry-run / --no-dry-run" in said
    assert "Delete nothing. Default: true." in said
    assert "Default: 25." in said
    assert "--name" not in said


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
