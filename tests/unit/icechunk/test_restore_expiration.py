"""An expiration of spec 2 is undone byte for byte, or refused."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.collection.witness.judging import ask_witnesses
from dredge.icechunk.expiration.plan import Applied
from dredge.icechunk.expiration.restore import restore_expiration
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import Graph, build, local_storage, objects, quiet
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo

LINE = Graph((("1", "0", 1.0), ("2", "1", 2.0), ("3", "2", 3.0)), {"main": "3", "old": "1"}, {"v1": "2"})
BOTH: dict[str, Any] = {"delete_expired_branches": True, "delete_expired_tags": True}


class Expired:
    """A repository after an expiration of everything but the tip of main."""

    def __init__(self, folder: Path, spec: int = 2, **settings: Any) -> None:
        self.repo = Repo(folder / "repo", build(local_storage(folder / "repo"), LINE, spec))
        self.info = self.repo.folder / "repo"
        self.before = self.info.read_bytes() if spec == 2 else b""
        self.done: Applied = expire(self.repo.uri, datetime.now(UTC), **BOTH, **settings)

    def restore(self) -> tuple[int, tuple[str, ...]]:
        found = restore_expiration(self.repo.uri, self.done.expiration_id)
        return found.snapshots, found.refs


@pytest.mark.parametrize("settings", [{}, {"keep_refs": "nothing"}], ids=["by the library", "refs by name"])
def test_the_repo_info_is_the_same_bytes_again_and_the_repository_is_collected_as_before(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    expired = Expired(tmp_path, **settings)
    assert expired.info.read_bytes() != expired.before
    assert expired.restore() == (2, ("branch:old", "tag:v1"))
    assert expired.info.read_bytes() == expired.before
    assert expired.restore() == (0, ())

    files = objects(expired.repo.folder)
    assert expired.repo.collect()["outcome"] == "success"
    assert objects(expired.repo.folder)["chunks"] == files["chunks"]
    assert expired.repo.library.lookup_branch("old") == expired.repo.ids["1"]
    expired.repo.library.writable_session("main").commit("goes on", allow_empty=True)


def test_a_mark_between_expiration_and_restore_stops_no_later_run(tmp_path: Path) -> None:
    expired = Expired(tmp_path)
    expired.repo.collect(dry_run=True)
    expired.restore()
    assert expired.repo.collect()["outcome"] == "success"
    assert expired.repo.ids["1"] in read_history(open_reader(expired.repo.uri)).snapshots


def test_a_commit_after_the_expiration_is_not_lost(tmp_path: Path) -> None:
    expired = Expired(tmp_path)
    expired.repo.library.writable_session("main").commit("later", allow_empty=True)
    now = expired.info.read_bytes()
    with pytest.raises(RefusedError):
        expired.restore()
    assert expired.info.read_bytes() == now


def test_released_objects_that_a_collection_deleted_refuse_a_restore(tmp_path: Path) -> None:
    expired = Expired(tmp_path)
    expired.repo.collect()
    now = expired.info.read_bytes()
    with pytest.raises(RefusedError):
        expired.restore()
    assert expired.info.read_bytes() == now


def test_a_chunk_that_is_missing_refuses_a_restore(tmp_path: Path) -> None:
    expired = Expired(tmp_path)
    next((expired.repo.folder / "chunks").iterdir()).unlink()
    with pytest.raises(RefusedError):
        expired.restore()
    assert expired.info.read_bytes() != expired.before


def test_an_expiration_of_spec_1_or_an_unknown_one_is_bad_input(tmp_path: Path) -> None:
    expired = Expired(tmp_path, spec=1)
    for name in (expired.done.expiration_id, "0" * 20):
        with pytest.raises(ConfigError):
            restore_expiration(expired.repo.uri, name)


def test_a_restore_accepts_nothing_but_its_own_change(tmp_path: Path) -> None:
    """A program that still writes spec 1 beside the repo info: only a person may accept its lost commits."""
    icechunk, folder = quiet(), tmp_path / "repo"
    build(local_storage(folder), LINE, 1)
    shutil.copytree(folder, tmp_path / "old")
    icechunk.upgrade_icechunk_repository(icechunk.Repository.open(local_storage(folder)), dry_run=False)
    old = icechunk.Repository.open(local_storage(tmp_path / "old"))
    old.writable_session("main").commit("by an old program", allow_empty=True)
    shutil.copytree(tmp_path / "old", folder, dirs_exist_ok=True)
    uri = f"file://{folder}"
    (asked,) = ask_witnesses(uri).refusals
    done = expire(uri, datetime.now(UTC), **BOTH)
    restore_expiration(uri, done.expiration_id)
    assert ask_witnesses(uri).refusals == [asked]
