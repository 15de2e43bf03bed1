"""The frame of the `dredge` command."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from dredge import cli


def test_help_lists_every_command_without_importing_it() -> None:
    result = CliRunner().invoke(cli.dredge, ["--help"])
    assert result.exit_code == 0
    for name, text in cli.COMMANDS.items():
        assert name in result.output
        assert text.split()[0] in result.output


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_exists_and_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli.dredge, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5


def test_a_command_that_falls_over_says_that_it_is_a_defect_and_what_to_send(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise KeyError("token")

    monkeypatch.setattr(cli, "dredge", failing)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 8
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "dredge: the command: KeyError: 'token'. Dredge did not foresee this" in said


def test_an_invalid_setting_is_named_as_the_option_that_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["icechunk", "collect", "file:///none", "--min-age-hours", "1"])
    assert ended.value.code == 2
    assert "--min-age-hours" in capsys.readouterr().err
