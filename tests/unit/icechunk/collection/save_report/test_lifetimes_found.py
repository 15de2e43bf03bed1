"""Which of Dredge's own files a run finds superseded, one kind after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection import own_files
from dredge.icechunk.collection.own_files import Superseded, _clean_up, find_superseded
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import RunState, StateStore
from dredge.icechunk.collection.steps import release_lease
from dredge.icechunk.maintenance import make_lease
from dredge.runs.coverage import Coverage
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tries import StepTry
from dredge.runs.versions import Current
from dredge.sets.live import CountedSet
from dredge.undo.pins import Pin, write_pin
from dredge.xid import new_descending_xid
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.state.test_base import STATE

DAY = 86400


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan(keep_runs_days=90)


def aged(run: Run, key: str, days: float, data: bytes | None = None) -> str:
    if data is not None:
        run.state.put(key, data)
    then = run.store_now().timestamp() - days * DAY
    os.utime(f"{run.state.uri.removeprefix('file://')}/{key}", (then, then))
    return key


def left_by(run: Run, days: float, fencing: int, counted: str) -> RunState:
    run_id = new_descending_xid(run.store_now() - timedelta(days=days))
    return replace(
        STATE,
        uri=run.plan.uri,
        run_id=run_id,
        run_uri=f"{run.state.uri}/runs/{run_id}",
        fencing=fencing,
        counted=CountedSet.of([PartInfo(f"counted/{counted}-0000.counts", 1, 12, "4")], 0),
    )


def versions(run: Run, *states: tuple[float, int, str]) -> list[str]:
    store, found = StateStore(run.state), []
    for days, fencing, counted in states:
        version = store.advance(left_by(run, days, fencing, counted), Current(etag=store._etag()))
        found.append(aged(run, version.name, days))
    return found


def pin(run: Run, name: str, ended_days_ago: float, now: datetime) -> str:
    until = now - timedelta(days=ended_days_ago)
    write_pin(
        run.state,
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
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = run.store_now()
    monkeypatch.setattr(Run, "store_now", lambda _: now)
    old, before_the_week, _ = versions(run, (20, 5, "a"), (10, 7, "b"), (3, 9, "c"))
    for name in ("a", "b", "c", "of-nobody"):
        aged(run, f"counted/{name}-0000.counts", 10, b"counts")
    run.state.put("counted/of-a-run-at-work", b"counts")
    distrusted = [
        aged(run, name.replace("versions", "distrusted"), 10, b"{}") for name in (old, before_the_week)
    ]
    ended, ends_now, held = (
        aged(run, pin(run, name, days, now), 10)
        for name, days in (("ended", 7.01), ("ends-now", 7), ("held", -1))
    )
    ends = [aged(run, f"pins/{name}/hashes-0.u64", 10, b"12345678") for name in ("dead", "ended", "held")]
    run.state.put("pins/young/hashes-0.u64", b"12345678")
    found = find_superseded(run)
    assert found.bookkeeping == [
        old,
        distrusted[0],
        "counted/a-0000.counts",
        "counted/of-nobody-0000.counts",
        *sorted([ended, *ends[:2]]),
    ]
    assert (found.folders, found.keys) == ({}, found.bookkeeping)
    assert found.size_bytes == sum(run.state.stat(key).size for key in found.bookkeeping)
    assert run.state.stat(ends_now).size
    assert run.state.stat(held).size


def test_nothing_is_old_by_a_clock_that_jumped(run: Run) -> None:
    aged(run, "counted/of-nobody", 10, b"counts")
    jumped = run.store_now() + timedelta(hours=1)
    run.clock = lambda: jumped
    with pytest.raises(RefusedError, match="clock"):
        find_superseded(run)


@pytest.fixture
def removing(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StepRecord]:
    def remove(found: Superseded) -> StepRecord:
        monkeypatch.setattr(own_files, "find_superseded", lambda _: found)
        record = StepRecord({}, StepTry(run.folder.writer, "own_files", 1))
        _clean_up(run, record)
        return record

    return remove


def test_nothing_is_removed_by_who_lost_the_lease(run: Run, removing: Callable[..., StepRecord]) -> None:
    run.state.put("counted/a", b"counts")
    release_lease(run)
    make_lease(run.state, 60).acquire("somebody else")
    with pytest.raises(LeaseHeldError):
        removing(Superseded(["counted/a"]))
    assert run.state.get("counted/a") == b"counts"
