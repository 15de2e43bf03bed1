"""Which of Dredge's own files a run finds superseded, one kind after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dredge.errors import LeaseHeldError, RefusedError
from dredge.icechunk.collection import own_files
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.own_files import Superseded, _clean_up, _find_folders, _index, find_superseded
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.state import RunState, StateStore
from dredge.icechunk.collection.steps import release_lease
from dredge.icechunk.maintenance import make_lease
from dredge.runs.coverage import Coverage
from dredge.runs.lifetimes import ListedFiles
from dredge.runs.payload import to_json
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
    """Make a file so old, or write one that is."""
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
    """Move the state on several times; gives the names of the versions."""
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


def index(monkeypatch: pytest.MonkeyPatch, **found: Any) -> None:
    part = PartInfo("index/parts/read", 1, 1, "")
    given = ManifestIndex(manifest_parts={part.name: part}, **found)
    monkeypatch.setattr(ManifestIndex, "load", lambda _: given)


def files(*old: str, young: tuple[str, ...] = ()) -> ListedFiles:
    return ListedFiles(dict.fromkeys((*old, *young), 1), frozenset(old))


def head(name: str) -> str:
    return f"index/heads/{name}"


def part(name: str) -> str:
    return f"index/parts/{name}"


@pytest.mark.parametrize(("is_gone", "found"), [(False, []), (True, [head("x"), part("x")])])
def test_head_that_cannot_be_read_keeps_every_part_until_another_stands_for_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_gone: bool, found: list[str]
) -> None:
    superseded = {head("x"): {head("old"): frozenset[str]()}} if is_gone else {}
    index(monkeypatch, superseded=superseded, unread_heads={head("x")})
    listed = files(head("x"), head("old"), part("x"), part("read"))
    assert list(_index(ManifestIndex.load(run.state), listed)) == found


def planned(run: Run, place: str, days: float, now: datetime, **changes: Any) -> str:
    """Write a folder with a plan and a file, both old."""
    name = new_descending_xid(now - timedelta(days=days))
    own = to_json(replace(run.plan, run_id=name, run_uri=f"{run.state.uri}/{place}/{name}"))
    aged(run, f"{place}/{name}/plan.json", 100, json.dumps(own | changes).encode())
    aged(run, f"{place}/{name}/zzz", 100, b"zzz")
    return name


def folders(run: Run, now: datetime, versions: list[RunState]) -> dict[str, list[str]]:
    found = Superseded()
    _find_folders(run, now, versions, found)
    keys = [key for some in found.folders.values() for key in some]
    assert found.size_bytes == sum(run.state.stat(key).size for key in keys)
    return found.folders


@pytest.mark.parametrize(
    "changes", [{"run_id": "another"}, {"uri": "s3://another/repo"}, {"run_uri": "s3://a/b"}, {"lease": 1}]
)
def test_folder_whose_plan_is_not_of_a_run_of_this_repository_there_stays(
    run: Run, changes: dict[str, Any]
) -> None:
    now = run.store_now()
    planned(run, "runs", 200, now, **changes)
    ours = planned(run, "runs", 201, now, uri=f"{run.plan.uri}/")
    assert [*folders(run, now, [])] == [f"runs/{ours}"]


def test_folder_with_copies_or_in_which_somebody_went_on_stays(run: Run) -> None:
    now = run.store_now()
    copies, at_work, plain = (planned(run, "runs", days, now) for days in (200, 201, 202))
    aged(run, f"runs/{copies}/quarantine/chunks/A", 100, b"copy")
    run.state.put(f"runs/{at_work}/later", b"x")
    assert [*folders(run, now, [])] == [f"runs/{plain}"]


@pytest.fixture
def removing(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StepRecord]:
    """Removes what it is given; gives the record."""

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
