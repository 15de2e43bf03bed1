"""Which of Dredge's own files a run finds superseded, one kind after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dredge.errors import LeaseHeldError, RefusedError, UnavailableError
from dredge.icechunk.collection.index import ManifestIndex
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.save_report import lifetimes
from dredge.icechunk.collection.save_report.lifetimes import (
    Superseded,
    _clean_up,
    _find_folders,
    _index,
    clean_up,
    find_superseded,
)
from dredge.icechunk.collection.state.model import RunState
from dredge.icechunk.collection.state.store import StateStore
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
from dredge.storage import DeleteOutcome
from dredge.undo.pins import Pin, write_pin
from dredge.xid import new_descending_xid
from tests.support.icechunk_repo import Repo
from tests.unit.icechunk.collection.state.test_model import STATE

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


def test_heads_go_when_one_that_stands_for_them_is_old_and_parts_that_nobody_may_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    superseded: Mapping[str, dict[str, frozenset[str]]] = {
        head("a"): {head("old"): frozenset({part("a")})},
        head("b"): {head("old"): frozenset({part("b")}), head("young"): frozenset({part("b")})},
        head("c"): {head("young"): frozenset({part("c")})},
        head("gone"): {head("young"): frozenset({part("gone")})},
    }
    index(monkeypatch, superseded=dict(superseded))
    listed = files(
        *(head(name) for name in ("a", "b", "c", "old")),
        *(part(name) for name in ("a", "b", "c", "gone", "read")),
        young=(head("young"), part("young")),
    )
    found = list(_index(ManifestIndex.load(run.state), listed))
    assert found == [head("b"), head("a"), part("a"), part("b"), part("gone")]


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


def test_folders_of_old_runs_go_with_their_plan_last_unless_something_names_them(run: Run) -> None:
    now = run.store_now().replace(microsecond=0)
    old, just, named = (planned(run, "runs", days, now) for days in (91, 90, 92))
    state = replace(STATE, run_uri=f"{run.state.uri}/runs/{named}/")
    run.plan = replace(run.plan, run_id=planned(run, "runs", 95, now))
    assert folders(run, now, [state]) == {f"runs/{old}": [f"runs/{old}/zzz", f"runs/{old}/plan.json"]}
    assert run.state.stat(f"runs/{just}/plan.json").size


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


def test_old_plans_of_expirations_and_purges_need_no_proof(run: Run) -> None:
    now = run.store_now()
    names = [
        f"{place}/{planned(run, place, 200, now, uri='s3://x/y')}" for place in ("expirations", "purges")
    ]
    bare = new_descending_xid(now - timedelta(days=300))
    aged(run, f"purges/{bare}/rows", 100, b"rows")
    found = folders(run, now, [])
    assert {*found} == {*names, f"purges/{bare}"}
    assert found[f"purges/{bare}"] == [f"purges/{bare}/rows"]


def test_one_run_looks_into_so_many_folders(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "_FOLDERS_MAX", 2)
    now = run.store_now()
    names = {f"purges/{planned(run, 'purges', days, now)}" for days in (200, 201, 202)}
    found = folders(run, now, [])
    assert len(found) == 2
    assert found.keys() < names


@pytest.fixture
def removing(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StepRecord]:
    """Removes what it is given; gives the record."""

    def remove(found: Superseded) -> StepRecord:
        monkeypatch.setattr(lifetimes, "find_superseded", lambda _: found)
        record = StepRecord({}, StepTry(run.folder.writer, "own_files", 1))
        _clean_up(run, record)
        return record

    return remove


def test_what_was_found_is_removed_and_counted(run: Run, removing: Callable[..., StepRecord]) -> None:
    for name in ("a", "b"):
        run.state.put(f"counted/{name}", b"counts")
    name = new_descending_xid(run.store_now())
    run.state.put(f"runs/{name}/plan.json", b"plan")
    keys = ["counted/a", "counted/b"]
    record = removing(Superseded(keys, {f"runs/{name}": [f"runs/{name}/plan.json"]}, 16))
    assert record.counts == {"own_files": 3, "own_bytes": 16, "own_folders": 1, "own_files_removed": 3}
    assert record.warnings == []
    assert not run.state.list_level("counted/").objects


def test_what_could_not_be_removed_is_told(
    monkeypatch: pytest.MonkeyPatch, removing: Callable[..., StepRecord]
) -> None:
    outcomes = {"counted/a": "deleted", "counted/b": "missing", "counted/c": "failed"}

    class Deleter:
        def __init__(self, *_: object) -> None:
            pass

        def delete(self, keys: tuple[str, ...]) -> list[DeleteOutcome]:
            return [DeleteOutcome(key, outcomes[key]) for key in keys]

    monkeypatch.setattr(lifetimes, "OwnFilesDeleter", Deleter)
    record = removing(Superseded([*outcomes]))
    assert record.counts["own_files_removed"] == 2
    assert record.warnings[0].startswith("1 of 3 own files")


def test_nothing_is_removed_by_who_lost_the_lease(run: Run, removing: Callable[..., StepRecord]) -> None:
    run.state.put("counted/a", b"counts")
    release_lease(run)
    make_lease(run.state, 60).acquire("somebody else")
    with pytest.raises(LeaseHeldError):
        removing(Superseded(["counted/a"]))
    assert run.state.get("counted/a") == b"counts"


def test_lease_that_has_expired_is_none(run: Run, removing: Callable[..., StepRecord]) -> None:
    run.state.put("counted/a", b"counts")
    lease = json.loads(run.state.get("lease.json"))
    ended = (run.store_now() - timedelta(minutes=1)).isoformat()
    run.state.put("lease.json", json.dumps(lease | {"expires_at": ended}).encode())
    with pytest.raises(LeaseHeldError, match="expired"):
        removing(Superseded(["counted/a"]))


@pytest.mark.parametrize("days", [None, 90])
def test_files_are_looked_for_only_where_they_are_not_kept_for_ever(
    run: Run, monkeypatch: pytest.MonkeyPatch, days: float | None
) -> None:
    asked: list[Any] = []
    run.plan = replace(run.plan, config=replace(run.plan.config, keep_runs_days=days))
    monkeypatch.setattr(Run, "step", lambda _, output, body, inputs: asked.append(output.STEP))
    clean_up(run)
    assert asked == ([] if days is None else ["own_files"])


def test_whatever_goes_wrong_is_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> None:
        raise UnavailableError("the store is away")

    monkeypatch.setattr(Run, "step", away)
    clean_up(run)
    assert "the store is away" in caplog.messages[0]
