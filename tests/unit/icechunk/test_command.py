"""The command line."""

import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dredge import cli
from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.expiration.config import parse_duration, parse_older_than
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import build, graph_of, local_storage, objects, scenarios

SAMPLE = scenarios()[0]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("made") / "repo"
    return folder, build(local_storage(folder), graph_of(SAMPLE), request.param)


@pytest.fixture
def repo(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture
def when(made: tuple[Path, dict[str, str]]) -> str:
    snapshots = read_history(open_reader(f"file://{made[0]}")).snapshots
    ids = made[1]
    return instant((snapshots[ids["7"]].flushed_at + snapshots[ids["8"]].flushed_at) // 2).isoformat()


def run(*words: Any) -> Result:
    return CliRunner().invoke(cli.dredge, ["icechunk", *map(str, words)], catch_exceptions=True)


def test_plan_draws_the_history_and_changes_nothing(repo: Path, when: str) -> None:
    before = {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    result = run("plan", repo, "--older-than", when, "--estimate")
    assert result.exit_code == 0, result.output
    assert "before\n● 1CECHNKREP0F1RSTCMT0" in result.output
    assert "5 snapshots, 5 manifests, 5 chunks" in result.output
    assert {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()} == before


def test_plan_as_json_says_what_goes_with_parents_and_ancestry(repo: Path, when: str, made: Any) -> None:
    found = json.loads(
        run("plan", repo, "--older-than", when, "--json", "--rule", "document", "--estimate").output
    )
    ids = made[1]
    assert set(found["released"]) == {ids["6"], ids["7"]}
    assert found["ancestry_after"]["branch:main"][-1] == ids["0"]
    assert {edit["new_parent"] for edit in found["edited"]} == {ids["0"]}
    assert found["refs_deleted"] == []
    assert found["collection_would_free"]["snapshots"] == 2


def test_expire_shows_first_and_applies_the_approved_plan(repo: Path, when: str) -> None:
    before = read_history(open_reader(f"file://{repo}")).digest
    shown = run("expire", repo, "--older-than", when)
    assert read_history(open_reader(f"file://{repo}")).digest == before
    digest = shown.output.split("digest ")[1].split()[0]
    wrong = run("expire", repo, "--older-than", when, "--apply", "--approved", "0" * 64)
    assert isinstance(wrong.exception, RefusedError)
    assert read_history(open_reader(f"file://{repo}")).digest == before
    done = run("expire", repo, "--older-than", when, "--apply", "--approved", digest, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["applied"]["edited"]
    assert read_history(open_reader(f"file://{repo}")).digest != before


def test_collect_deletes_only_when_told_to(repo: Path, when: str) -> None:
    run("expire", repo, "--older-than", when, "--apply")
    before = objects(repo)
    settings = [
        "--unsafe-min-age-seconds",
        "0",
        "--unsafe-grace-seconds",
        "0",
        "--quiet",
    ]
    settings += ["--max-delete-percent", "100"]
    shown = run("collect", repo, *settings)
    assert shown.exit_code == 0, shown.output
    assert objects(repo) == before
    time.sleep(0.01)
    done = run("collect", repo, *settings, "--apply", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["outcome"] == "success"
    assert len(objects(repo)["snapshots"]) == 10
    held = run("collect", repo, *settings, "--apply", "--max-delete-objects", "0")
    assert held.exit_code == 0, "nothing is left to delete"


def test_age_below_a_day_needs_the_option_that_says_so(repo: Path) -> None:
    assert isinstance(run("collect", repo, "--min-age-hours", "1").exception, ConfigError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", NOW - timedelta(days=30)),
        ("1w2d", NOW - timedelta(days=9)),
        ("1.5h", NOW - timedelta(minutes=90)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-03-01T12:00:00Z", NOW),
    ],
)
def test_older_than_takes_durations_and_instants(text: str, expected: datetime) -> None:
    assert parse_older_than(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "30", "d", "-1d", "yesterday", "2026-01-31T12:00:00", "2026-13-01", "2026-03-02", "99999999999d"],
)
def test_older_than_refuses_what_it_does_not_understand(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_older_than(text, NOW)
    with pytest.raises(ConfigError):
        parse_duration(text)


def test_a_check_leaves_a_repository_as_it_was_and_tells_what_is_wrong(repo: Path) -> None:
    before = {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()}
    result = run("check", repo, "--undo", "quarantine", "--json")
    assert (result.exit_code, json.loads(result.output)["level"]) == (0, "ok")
    assert {path: path.read_bytes() for path in repo.rglob("*") if path.is_file()} == before
    (repo / "_dredge" / "alarms").mkdir(parents=True)
    (repo / "_dredge" / "alarms" / "x.json").write_text("an alarm that cannot be read counts as open")
    assert checks_that_failed(run("check", repo, "--json")) == ["alarms"]
    assert checks_that_failed(run("check", repo / "nowhere", "--json")) == ["repository"]


def checks_that_failed(result: Result) -> list[str]:
    assert result.exit_code == 3
    return [line["check"] for line in json.loads(result.output)["lines"] if line["level"] == "error"]
