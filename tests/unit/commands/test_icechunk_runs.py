"""`dredge icechunk approve`, `reject`, `resume`, `runs` and `report`: the same habits as `dredge gc`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dredge import cli
from dredge.errors import AwaitingApprovalError, DredgeError
from tests.support.icechunk import objects
from tests.support.icechunk_repo import Repo, expired_sample

SETTINGS = (
    "--unsafe-min-age-seconds",
    "0",
    "--unsafe-grace-seconds",
    "0",
    "--quiet",
    "--apply",
    "--max-delete-objects",
    "3",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return expired_sample(tmp_path_factory.mktemp("made") / "repo", 1)


@pytest.fixture
def repo(made: Repo, tmp_path: Path) -> Repo:
    shutil.copytree(made.folder, tmp_path / "repo")
    return Repo(tmp_path / "repo", made.ids)


def ice(*words: str) -> Result:
    return CliRunner().invoke(cli.dredge, ["icechunk", *words])


def error_of(result: Result) -> DredgeError:
    assert isinstance(result.exception, DredgeError), result.output
    return result.exception


def waiting(repo: Repo, *more: str) -> str:
    result = ice("collect", repo.uri, *SETTINGS, *more, "--json")
    error = error_of(result)
    assert isinstance(error, AwaitingApprovalError)
    report: dict[str, Any] = json.loads(result.stdout)
    assert report["outcome"] == "awaiting_approval"
    folder = f"{repo.uri}/_dredge/runs/{report['run_id']}"
    assert f"dredge icechunk approve {folder}" in str(error)
    return folder


def test_a_run_waits_is_approved_and_goes_on(repo: Repo, tmp_path: Path) -> None:
    before, due = objects(repo.folder), repo.collected(tmp_path / "other")
    run = waiting(repo)
    assert objects(repo.folder) == before
    said = ice("approve", run, "--by", "ada").output
    assert f"of {repo.uri} was approved by ada" in said
    assert f"dredge icechunk resume {run}" in said
    assert objects(repo.folder) == before
    result = ice("resume", run, "--quiet")
    assert result.exit_code == 0, result.output
    assert "approved by ada (dredge icechunk)" in result.output
    assert objects(repo.folder) == due
    assert ice("report", run).exit_code == 0
    (row,) = json.loads(ice("runs", repo.uri, "--json").output)["runs"]
    assert (row["folder"], row["outcome"], row["deleted_objects"]) == (run, "success", 20)
    assert "success" in ice("runs", f"{repo.uri}/_dredge/runs").output
