"""Only old objects with the name of an id that nothing live names are candidates."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.steps import collect
from tests.support.icechunk import contents, counts_of, objects
from tests.support.icechunk_repo import Repo, change_number


def test_open_writers_chunks_are_kept_by_the_age_guard(repo: Repo) -> None:  # E06
    session = repo.library.writable_session("main")
    change_number(session, 4711)
    report = collect(repo.config(unsafe_min_age_seconds=None, min_age_hours=24))
    assert report["deleted"]["objects"] == 0
    assert report["kinds"]["chunks"]["young_objects"] > 0
    session.commit("late")
    assert contents(repo.library, branch="main")[0] == 4711


def test_live_file_that_goes_missing_after_it_was_indexed_aborts(repo: Repo) -> None:
    collect(repo.config(dry_run=True))
    tip = repo.library.lookup_branch("main")
    (repo.folder / "manifests" / next(iter(repo.library.list_manifest_files(tip))).id).unlink()
    before = objects(repo.folder)
    with pytest.raises(FormatError, match="manifests"):
        collect(repo.config())
    assert objects(repo.folder) == before


def test_foreign_names_are_left_alone(repo: Repo) -> None:  # E11
    for kind in ("chunks", "manifests", "snapshots", "transactions"):
        (repo.folder / kind / "README.txt").write_bytes(b"")
        (repo.folder / kind / ("0" * 19 + "1")).write_bytes(b"")
        (repo.folder / kind / ("o" * 20)).write_bytes(b"")
        (repo.folder / kind / "deeper").mkdir()
        (repo.folder / kind / "deeper" / ("0" * 20)).write_bytes(b"")
    orphan = repo.folder / "chunks" / ("0" * 20)
    orphan.write_bytes(b"")
    report = collect(repo.config())
    assert not orphan.exists()
    assert counts_of(report, "bulk_delete")["kept_objects"] == 0  # they were no candidates in the first place
    for kind in ("chunks", "manifests", "snapshots", "transactions"):
        assert any(f"4 names in {kind} are not ids" in warning for warning in report["warnings"])
        assert report["kinds"][kind]["foreign"] == 4
        for name in ("README.txt", "0" * 19 + "1", "o" * 20, "deeper/" + "0" * 20):
            assert (repo.folder / kind / name).exists()
