"""`dredge icechunk all`: each repository is expired and collected by a run of its own, and one page tells of all."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dredge import cli
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo, expired_sample

SETTINGS = ("--unsafe-min-age-seconds", "0", "--unsafe-grace-seconds", "0", "--quiet", "--json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return expired_sample(tmp_path_factory.mktemp("made") / "repo", 1)


@pytest.fixture
def lake(made: Repo, tmp_path: Path) -> dict[str, Repo]:
    found = {}
    for name in ("a", "b", "c"):
        shutil.copytree(made.folder, tmp_path / "lake" / name)
        found[name] = Repo(tmp_path / "lake" / name, made.ids)
    (found["c"].folder / "refs" / "branch.main" / "ref.json").unlink()
    return found


def everything(lake: dict[str, Repo], *words: str) -> tuple[int, dict[str, Any]]:
    folder = lake["a"].folder.parent
    result = ice("--storages", f"file://{folder}/*", *SETTINGS, *words)
    return result.exit_code, json.loads(result.stdout)


def ice(*words: str) -> Result:
    return CliRunner().invoke(cli.dredge, ["icechunk", "all", *words])


def digests(lake: dict[str, Repo]) -> list[str]:
    return [read_history(open_reader(lake[name].uri)).digest for name in ("a", "b")]


def test_each_loses_its_garbage_and_one_that_cannot_be_read_stops_none(
    lake: dict[str, Repo], tmp_path: Path
) -> None:
    due, before = lake["a"].collected(tmp_path / "other"), objects(lake["c"].folder)
    read = [contents(lake["a"].library, branch=name) for name in lake["a"].library.list_branches()]
    code, summary = everything(
        lake, "--apply", "--older-than", "2000-01-01", "--at-once", "2", "--max-delete-percent", "100"
    )
    assert (code, summary["counts"]["collected_repositories"]) == (9, 2)
    for name in ("a", "b"):
        assert objects(lake[name].folder) == due
        assert [
            contents(lake[name].library, branch=ref) for ref in lake[name].library.list_branches()
        ] == read
    assert objects(lake["c"].folder) == before
    assert Path(summary["report_uri"].removeprefix("file://")).read_text().startswith("<!DOCTYPE")


def test_an_expiration_comes_first_and_one_that_waits_needs_a_look(lake: dict[str, Repo]) -> None:
    shutil.rmtree(lake["c"].folder)
    before, histories = objects(lake["a"].folder), digests(lake)
    code, summary = everything(lake, "--apply", "--older-than", "0s", "--approval", "always")
    assert code == 9
    assert {row["outcome"] for row in summary["repositories"]} == {"awaiting_approval"}
    assert "dredge icechunk approve" in summary["repositories"][0]["why"]
    assert objects(lake["a"].folder) == before, "an expiration deletes no object"
    assert digests(lake) != histories
