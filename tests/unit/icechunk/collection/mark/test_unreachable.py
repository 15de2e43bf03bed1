"""Released snapshots of spec 1 have their grace."""

from __future__ import annotations

import time

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import contents, objects
from tests.support.icechunk_repo import Repo


def live_manifests(repo: Repo) -> set[str]:
    names = [f"snapshots/{snapshot}" for snapshot in read_history(open_reader(repo.uri)).snapshots]
    parsed = [parse_snapshot((repo.folder / name).read_bytes(), name) for name in names]
    return {info.id for snapshot in parsed for info in snapshot.manifests}


def test_first_mark_of_released_snapshots_only_remembers_them(v1: Repo) -> None:
    before = objects(v1.folder)
    first = collect(v1.config(grace_hours=0.0002))
    assert first["deleted"]["objects"] == 0
    assert "0.72 s" in first["warnings"][0]
    assert objects(v1.folder) == before
    time.sleep(0.8)
    assert collect(v1.config(grace_hours=0.0002))["deleted"]["objects"] == 20


def test_a_released_snapshot_whose_manifest_is_gone_stops_no_run(v1: Repo) -> None:
    """What the library's own collection leaves when it is killed."""
    key = f"snapshots/{v1.ids['7']}"
    used = {info.id for info in parse_snapshot((v1.folder / key).read_bytes(), key).manifests}
    (v1.folder / f"manifests/{min(used - live_manifests(v1))}").unlink()
    report = collect(v1.config(grace_hours=24))
    assert report["outcome"] == "success"
    assert (v1.folder / key).exists()
    assert report["kinds"]["snapshots"]["candidates_objects"] == 0


def test_a_released_snapshot_that_cannot_be_read_stops_no_run_after_its_grace(v1: Repo) -> None:
    key = f"snapshots/{v1.ids['7']}"
    (v1.folder / key).unlink()
    (v1.folder / key).write_bytes(b"torn")
    with pytest.raises(FormatError, match=key):
        collect(v1.config(grace_hours=0.0002))
    time.sleep(0.8)
    report = collect(v1.config(grace_hours=0.0002))
    assert report["outcome"] == "success"
    assert not (v1.folder / "snapshots" / v1.ids["7"]).exists()
    assert contents(v1.library, branch="main")


def test_grace_starts_anew_for_a_snapshot_that_was_in_use_again(v1: Repo) -> None:
    collect(v1.config(grace_hours=0.0002))
    v1.library.create_branch("back", v1.ids["7"])
    time.sleep(0.8)
    collect(v1.config(grace_hours=0.0002, dry_run=True))
    v1.library.delete_branch("back")
    report = collect(v1.config(grace_hours=0.0002))
    assert (v1.folder / "snapshots" / v1.ids["7"]).exists()
    assert report["kinds"]["snapshots"]["candidates_objects"] == 3  # 1, 2 and 4; 6 and 7 wait again
