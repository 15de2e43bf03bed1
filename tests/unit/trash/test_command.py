"""`dredge trash` at a terminal."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dredge.commands.trash import command
from dredge.errors import ConfigError, RefusedError, UnavailableError
from tests.support.trash import age_waits, trashed_store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A SQLite store with an orphan, an expired import, and a live repository, written two days ago."""
    trashed_store(tmp_path)
    monkeypatch.setenv("DREDGE_TRASH_STATE", f"file://{tmp_path}/state")
    monkeypatch.setenv("DREDGE_KV_URL", f"sqlite://{tmp_path}/kv.db")
    return tmp_path


def run(*words: str) -> Result:
    result = CliRunner().invoke(command, words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_scan_without_state_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREDGE_TRASH_STATE")
    before = sorted(os.listdir(folder))
    result = run("scan")
    assert "import-expired" in result.output
    assert [name for name in sorted(os.listdir(folder)) if not name.startswith("kv.db-")] == before


def test_the_exit_code_of_a_scan_says_whether_there_is_trash_when_asked(folder: Path) -> None:
    assert run("scan", "--exit-code").exit_code == 0
    age_waits(folder / "state")
    assert run("scan").exit_code == 0
    assert run("scan", "--exit-code").exit_code == 10
    assert run("scan", "--exit-code", "--kinds", "marker").exit_code == 0


def test_clean_removes_and_restore_puts_back(folder: Path) -> None:
    run("scan")
    age_waits(folder / "state")
    assert run("clean").exit_code == 0
    assert len(lines(run("scan", "--json"))) == 2, "a dry run, unless told otherwise"
    done = lines(run("clean", "--apply", "--json"))
    assert [(o["kind"], o["fate"], o["rows_deleted"]) for o in done] == [
        ("staging-orphan", "deleted", 2),
        ("import-expired", "deleted", 1),
    ]
    assert lines(run("scan", "--json")) == []
    name = next(path.parent.name for path in (folder / "state" / "runs").glob("*/undo"))
    run("restore", "--run", name)
    assert lines(run("scan", "--json")) == []
    run("restore", "--run", name, "--apply")
    assert len(lines(run("scan", "--json"))) == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--grace-hours", "1"], ConfigError),
        (["--kinds", "commits"], ConfigError),
        (["--max-rows", "0"], RefusedError),
    ],
)
def test_what_is_unsafe_is_refused_before_anything_is_touched(
    folder: Path, words: list[str], error: type[Exception]
) -> None:
    run("scan")
    age_waits(folder / "state")
    with pytest.raises(error):
        run("clean", "--apply", *words)
    assert len(lines(run("scan", "--json"))) == 2


def test_passwords_are_in_no_file_and_no_output(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        run("scan", "postgresql://me:s3cret@127.0.0.1:1/db", "--state-uri", f"file://{tmp_path}/state")
    assert "s3cret" not in str(caught.value)
    assert not any(b"s3cret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_check_leaves_the_store_and_the_folder_as_they_were(folder: Path) -> None:
    run("scan")
    before = {path: path.read_bytes() for path in (folder / "state").rglob("*") if path.is_file()}
    result = run("check", "--json")
    (report,) = lines(result)
    assert (result.exit_code, report["level"]) == (0, "ok")
    assert {path: path.read_bytes() for path in (folder / "state").rglob("*") if path.is_file()} == before


def test_a_check_tells_a_folder_of_another_store_a_dead_store_and_an_open_alarm(folder: Path) -> None:
    run("scan")
    (folder / "other").mkdir()
    trashed_store(folder / "other")
    assert errors_of(run("check", f"sqlite://{folder}/other/kv.db", "--json")) == ["state"]
    assert errors_of(run("check", f"sqlite://{folder}/nowhere.db", "--json")) == ["kv"]
    (folder / "state" / "alarms").mkdir()
    (folder / "state" / "alarms" / "x.json").write_text("an alarm that cannot be read counts as open")
    assert errors_of(run("check", "--json")) == ["alarms"]


def errors_of(result: Result) -> list[object]:
    """Names of the checks that failed; the command ends with 3."""
    assert result.exit_code == 3
    report = json.loads(result.stdout)
    return [line["check"] for line in report["lines"] if line["level"] == "error"]
