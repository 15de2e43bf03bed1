"""Lifetimes of own files, and compaction of the index."""

import os
import time
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection import own_files, steps
from dredge.icechunk.collection.config import Tuning
from dredge.icechunk.collection.index import ManifestIndex, write_snapshot_rows
from dredge.icechunk.collection.outputs import StateOutput
from dredge.icechunk.collection.own_files import (
    clean_up,
    compact_index,
    find_superseded,
    is_own_file,
    own_files_deleter,
)
from dredge.icechunk.collection.run import Run, RunState, StateStore
from dredge.icechunk.collection.save_report import advance_state
from dredge.icechunk.collection.steps import collect, release_lease, run_steps
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.cleanup import OwnFilesOutput, Superseded
from dredge.runs.clock import Coverage, utc_now
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.runs.versions import Current, Version
from dredge.sets.live import CountedSet
from dredge.storage import open_reader
from dredge.undo.pins import Pin, write_pin
from dredge.xid import new_descending_xid
from tests.support.icechunk import contents, objects
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_repo import Repo, change_number
from tests.support.icechunk_tasks import STATE

DAY = 86400
SMALL = {"index_parts_max": 3, "counted_layers_max": 2}


def change(repo: Repo, value: int) -> None:
    session = repo.library.writable_session("main")
    change_number(session, value)
    tip = session.commit(f"number {value}")
    flushed = read_history(open_reader(repo.uri)).snapshots[tip].flushed_at
    expire(repo.uri, instant(flushed), delete_expired_branches=True, delete_expired_tags=True)


def age(repo: Repo, days: float) -> None:
    for path in (repo.folder / "_dredge").rglob("*"):
        if path.is_file() and path.name != "lease.json":
            then = path.stat().st_mtime - days * DAY
            os.utime(path, (then, then))


def own(repo: Repo, place: str) -> set[str]:
    folder = repo.folder / "_dredge" / place
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def run(repo: Repo, mode: str = "auto", **changes: Any) -> dict[str, Any]:
    from dredge.icechunk.collection.config import Tuning

    return collect(repo.config(mode=mode, tuning=Tuning(**SMALL), **changes))


def counts_of_cleaning(repo: Repo, report: dict[str, Any]) -> dict[str, int]:
    folder = Run.open(f"{repo.uri}/_dredge/runs/{report['run_id']}").folder
    found = folder.read_summary(OwnFilesOutput.STEP)
    assert found is not None
    return dict(found.counts)


def test_own_files_stop_growing_and_optimized_runs_go_on(v1: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    ago = count(60, -1)  # ids of runs of one second have no order
    monkeypatch.setattr(
        steps, "new_descending_xid", lambda now: new_descending_xid(now - timedelta(seconds=next(ago)))
    )
    sizes = []
    for number in range(9):
        change(v1, number)
        assert run(v1)["mode"] == ("clean" if number == 0 else "optimized")
        sizes.append({place: len(own(v1, place)) for place in ("counted", "state", "index")})
        age(v1, 4)
    # With nothing removed 25, 10 and 36 files.
    for place, most in {"counted": 7, "state": 4, "index": 18}.items():
        assert max(size[place] for size in sizes[3:]) <= most, place
    change(v1, 99)
    assert run(v1)["mode"] == "optimized"
    assert contents(v1.library, branch="main")[0] == 99
    assert run(v1, mode="clean")["deleted"]["objects"] == 0, "the optimized runs found all"


def test_whatever_a_version_of_the_last_week_names_stays(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    for number in range(5):
        change(v1, number + 2)
        run(v1)
        age(v1, 3)
    store = StateStore(open_state(v1.uri))
    versions = own(v1, "state/versions")
    assert len(versions) == 4, "three of the last week and the one that was the newest when it began"
    for name in versions:
        state = store.read(f"state/versions/{name}", None)
        assert {part.name for part in state.counted.parts} <= {f"counted/{key}" for key in own(v1, "counted")}
        assert Path(state.run_uri.removeprefix("file://")).is_dir()


def test_index_answers_the_same_after_a_compaction_and_what_it_superseded_waits_a_week(v1: Repo) -> None:
    before: set[str] = set()
    for number in range(4):
        change(v1, number)
        before = own(v1, "index")
        age(v1, 8)
        run(v1)
    heads = own(v1, "index/heads")
    compacted = [name for name in heads if "compacted" in name]
    assert compacted
    run(v1)
    assert before <= own(v1, "index"), "a run that loaded the index before may still read it"
    index = ManifestIndex.load(open_state(v1.uri))
    assert index.heads[0].rpartition("/")[2] in compacted  # ids of one second have no order
    state = StateStore(open_state(v1.uri)).current(v1.uri, 1).state
    assert state is not None
    live = {part for ids in index.manifests_of.values() for part in ids}
    assert live == {path.name for path in (v1.folder / "manifests").iterdir()}
    age(v1, 8)
    run(v1)
    left = own(v1, "index")
    assert not before & left
    assert run(v1, mode="clean")["mode"] == "clean"


def test_damaged_head_of_the_index_keeps_every_part(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    state = open_state(v1.uri)
    state.put("index/parts/of-nobody-knows.ids", b"named by the damaged head")
    state.put("index/heads/x-1-0000.json", b"{}")
    age(v1, 30)
    change(v1, 2)
    run(v1)
    assert "parts/of-nobody-knows.ids" in own(v1, "index")


def test_only_old_folders_of_own_runs_go_and_none_with_copies(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(v1, 1)
    first = run(v1, undo="quarantine")
    runs = v1.folder / "_dredge" / "runs"
    old = new_descending_xid(utc_now() - timedelta(days=200))
    strange, copies, plain = (
        new_descending_xid(utc_now() - timedelta(days=days)) for days in (201, 202, 203)
    )
    for name in (old, strange, copies, plain):
        (runs / name).mkdir()
        plan = (runs / first["run_id"] / "plan.json").read_text().replace(first["run_id"], name)
        if name == strange:
            plan = plan.replace(v1.uri, "s3://another/repo")
        (runs / name / "plan.json").write_text(plan)
        (runs / name / "mark").mkdir()
        (runs / name / "mark" / "rows").write_text("rows")
    (runs / copies / "quarantine" / "chunks").mkdir(parents=True)
    (runs / copies / "quarantine" / "chunks" / "A").write_text("a copy")
    (runs / "notes").mkdir()
    (runs / "notes" / "readme").write_text("a person's")
    age(v1, 100)
    now = time.time()
    os.utime(runs / plain / "mark" / "rows", (now, now))
    change(v1, 2)
    second = run(v1)
    left = {path.name for path in runs.iterdir() if any(path.rglob("*"))}
    assert left >= {strange, copies, plain, "notes", first["run_id"], second["run_id"]}
    assert not (runs / old / "plan.json").exists()
    assert counts_of_cleaning(v1, second)["own_run_folders"] == 1


def test_no_own_file_goes_when_they_are_to_be_kept_or_by_a_dry_run(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    for number in range(3):
        change(v1, number + 2)
        before = {key for key in own(v1, "") if not key.startswith(("lease", "state/current"))}
        run(v1, keep_runs_days=None)
        run(v1, dry_run=True)
        assert before <= own(v1, "")
        age(v1, 100)


def test_cleaning_never_touches_the_repository(v1: Repo) -> None:
    change(v1, 1)
    run(v1)
    age(v1, 100)
    before = objects(v1.folder)
    report = run(v1)
    assert report["deleted"]["objects"] == 0
    assert objects(v1.folder) == before
    assert contents(v1.library, branch="main")[0] == 1


@pytest.mark.parametrize(
    "key",
    [
        "lease.json",
        "pending/current.json",
        "state/current.json",
        "counted/../lease.json",
        "../chunks/00000000000000000000",
        "chunks/00000000000000000000",
        "runs/notes/readme",
        "index/parts/a/b",
    ],
)
def test_deleter_of_own_files_knows_no_other_names(v1: Repo, key: str) -> None:
    assert not is_own_file(key)
    with pytest.raises(RefusedError, match="report this"):
        own_files_deleter(v1.uri).delete(["counted/a", key])


@pytest.fixture
def planned_run(v1: Repo) -> Run:
    return v1.plan(keep_runs_days=90)


def aged(planned_run: Run, key: str, days: float, data: bytes | None = None) -> str:
    if data is not None:
        planned_run.state.put(key, data)
    then = planned_run.store_now().timestamp() - days * DAY
    os.utime(f"{planned_run.state.uri.removeprefix('file://')}/{key}", (then, then))
    return key


def left_by(planned_run: Run, days: float, fencing: int, counted: str) -> RunState:
    run_id = new_descending_xid(planned_run.store_now() - timedelta(days=days))
    return replace(
        STATE,
        uri=planned_run.plan.uri,
        run_id=run_id,
        run_uri=f"{planned_run.state.uri}/runs/{run_id}",
        fencing=fencing,
        counted=CountedSet.of([PartInfo(f"counted/{counted}-0000.counts", 1, 12, "4")], 0),
    )


def versions(planned_run: Run, *states: tuple[float, int, str]) -> list[str]:
    store, found = StateStore(planned_run.state), []
    for days, fencing, counted in states:
        version = store.advance(left_by(planned_run, days, fencing, counted), Current(etag=store._etag()))
        found.append(aged(planned_run, version.name, days))
    return found


def pin(planned_run: Run, name: str, ended_days_ago: float, now: datetime) -> str:
    until = now - timedelta(days=ended_days_ago)
    write_pin(
        planned_run.state,
        Pin(
            pin_id=name,
            run_id="r",
            reason="why",
            created_at=until,
            until=until,
            objects=1,
            size_bytes=1,
            sets=(),
            slices=Coverage(),
        ),
    )
    return f"pins/{name}.json"


def test_what_no_version_of_the_last_week_needs_is_found_and_nothing_else(
    planned_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = planned_run.store_now()
    monkeypatch.setattr(Run, "store_now", lambda _: now)
    old, before_the_week, _ = versions(planned_run, (20, 5, "a"), (10, 7, "b"), (3, 9, "c"))
    for name in ("a", "b", "c", "of-nobody"):
        aged(planned_run, f"counted/{name}-0000.counts", 10, b"counts")
    planned_run.state.put("counted/of-a-run-at-work", b"counts")
    distrusted = [
        aged(planned_run, name.replace("versions", "distrusted"), 10, b"{}")
        for name in (old, before_the_week)
    ]
    ended, ends_now, held = (
        aged(planned_run, pin(planned_run, name, days, now), 10)
        for name, days in (("ended", 7.01), ("ends-now", 7), ("held", -1))
    )
    ends = [
        aged(planned_run, f"pins/{name}/hashes-0.u64", 10, b"12345678") for name in ("dead", "ended", "held")
    ]
    planned_run.state.put("pins/young/hashes-0.u64", b"12345678")
    found = find_superseded(planned_run)
    assert found.bookkeeping == [
        old,
        distrusted[0],
        "counted/a-0000.counts",
        "counted/of-nobody-0000.counts",
        *sorted([ended, *ends[:2]]),
    ]
    assert (found.folders, found.keys) == ({}, found.bookkeeping)
    assert found.size_bytes == sum(planned_run.state.stat(key).size for key in found.bookkeeping)
    assert planned_run.state.stat(ends_now).size
    assert planned_run.state.stat(held).size


def test_nothing_is_old_by_a_clock_that_jumped(planned_run: Run) -> None:
    aged(planned_run, "counted/of-nobody", 10, b"counts")
    jumped = planned_run.store_now() + timedelta(hours=1)
    planned_run.clock = lambda: jumped
    with pytest.raises(RefusedError, match="clock"):
        find_superseded(planned_run)


@pytest.mark.parametrize("lost", [True, False])
def test_nothing_is_removed_by_who_lost_the_lease(v1: Repo, lost: bool) -> None:
    run, _ = after_runs(v1, parts_max=64)
    run.state.put("counted/a", b"counts")
    if lost:
        release_lease(run)
        make_lease(run.state, 60).acquire("somebody else")
    clean_up(run, lambda: Superseded(["counted/a"]))
    assert own(v1, "counted").isdisjoint({"a"}) is not lost


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
