"""The frame of the `dredge` command."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dredge import cli
from tests.support.commands import server
from tests.support.icechunk_repo import expired_sample

LARGE = {
    "numba",
    "llvmlite",
    "pandas",
    "numpy",
    "pyarrow",
    "google",
    "jinja2",
    "boto3",
    "obstore",
    "lakefs_sdk",
    "icechunk",
}


def test_help_lists_every_command_without_importing_it() -> None:
    result = CliRunner().invoke(cli.dredge, ["--help"])
    assert result.exit_code == 0
    for name, text in cli.COMMANDS.items():
        assert name in result.output
        assert text.split()[0] in result.output


def loaded(*words: str) -> set[str]:
    code = (
        "import json, sys; from dredge import cli; sys.argv[0] = 'dredge'\n"
        "try: cli.main()\n"
        "finally: print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "words", ["--version", "gc --help", "gc run --help", "icechunk --help", "trash --help"]
)
def test_help_loads_no_large_package(words: str) -> None:
    assert not loaded(*words.split()) & LARGE


@pytest.mark.parametrize("spec", [1, 2])
def test_a_small_icechunk_repository_is_planned_and_collected_without_compiler_and_pandas(
    spec: int, tmp_path: Path
) -> None:
    repo = expired_sample(tmp_path / "repo", spec)
    large = LARGE - {"numpy", "pyarrow", "jinja2"}
    assert not loaded("icechunk", "plan", repo.uri) & large
    assert not loaded("icechunk", "collect", repo.uri, "--quiet") & large


def test_a_small_lakefs_repository_is_collected_without_compiler_and_pandas(tmp_path: Path) -> None:
    with server(tmp_path) as lake:
        branch = lake.repository().branch("main")
        branch.object("kept").upload(b"kept")
        branch.commit("kept")
        assert not loaded("gc", "run", "lake", "--quiet") & {
            "numba",
            "llvmlite",
            "pandas",
            "boto3",
            "icechunk",
        }


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
    assert "dredge: the command: KeyError: 'token'. This is a defect of Dredge" in said


def test_an_invalid_setting_is_named_as_the_option_that_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["icechunk", "collect", "file:///none", "--min-age-hours", "1"])
    assert ended.value.code == 2
    assert "--min-age-hours" in capsys.readouterr().err
