"""Compaction forgets what nothing needs, and keeps every live manifest where it is counted from."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import LeaseHeldError
from dredge.icechunk.collection import own_files
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, write_snapshot_rows
from dredge.icechunk.collection.outputs import StateOutput
from dredge.icechunk.collection.own_files import compact_index
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report import advance_state
from dredge.icechunk.collection.steps import collect, release_lease, run_steps
from dredge.icechunk.maintenance import make_lease
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import Version
from tests.support.icechunk_repo import Repo, change_number


def after_runs(repo: Repo, parts_max: int) -> tuple[Run, Version]:
    collect(repo.config(mode="auto"))
    for number in range(2):
        session = repo.library.writable_session("main")
        change_number(session, number)
        session.commit(f"number {number}")
        if not number:
            collect(repo.config(mode="auto"))
    run = repo.plan(mode="auto", tuning=Tuning(index_parts_max=parts_max))
    run_steps(run, LocalRunner())
    moved = advance_state(run)
    assert moved is not None
    return run, StateOutput.of(moved).version


def test_large_part_stays_as_it_is_and_every_live_manifest_is_in_one_part_afterwards(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, version = after_runs(v1, parts_max=1)
    before = ManifestIndex.load(run.state).manifest_parts
    large, *small = sorted(before, key=lambda name: -before[name].size_bytes)
    monkeypatch.setattr(own_files, "_SMALL_BYTES", before[large].size_bytes)
    assert compact_index(run, version) == len(small) == 2
    index = ManifestIndex.load(run.state)
    assert index.manifest_parts[large] == before[large]
    assert len(index.manifest_parts) == 2
    assert index.manifest_parts.keys().isdisjoint(small)
    named = [manifest for ids in index.manifests_of.values() for manifest in ids]
    assert sorted(named) == sorted(path.name for path in (v1.folder / "manifests").iterdir())


def test_run_that_lost_its_lease_leaves_the_index_to_whoever_has_it(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, version = after_runs(v1, parts_max=1)
    heads = ManifestIndex.load(run.state).heads

    def overtaken(*given: Any) -> PartInfo:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
        return write_snapshot_rows(*given)

    monkeypatch.setattr(own_files, "write_snapshot_rows", overtaken)
    with pytest.raises(LeaseHeldError):
        compact_index(run, version)
    assert ManifestIndex.load(run.state).heads == heads
