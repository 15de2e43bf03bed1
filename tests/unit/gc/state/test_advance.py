"""What a complete run leaves for the next one: everything that exists is in it, and nothing is said to be done that is
not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from dredge.errors import ConflictError, FormatError, RefusedError
from dredge.gc.run import Run
from dredge.gc.state import advance
from dredge.gc.state.advance import advance_state
from dredge.gc.state.base import base_of, open_base
from dredge.gc.state.model import RunState
from dredge.gc.state.store import POINTER, StateStore
from dredge.gc.steps import bulk_delete, verify
from dredge.hashing import hash64
from dredge.lakefs.files.prepared import UNCOMMITTED
from dredge.runs.coverage import BEGINNING, END, Coverage
from dredge.runs.payload import from_json, to_json, to_sealed
from dredge.runs.pending.rows import YOUNG
from dredge.runs.versions import Version
from dredge.sets.hashes import read_hashes
from dredge.storage import open_deleter
from tests.support.gc import World, make_world, pending_rows, stage_again, summary_of
from tests.support.kv_views import Snapshots, open_as


def grown(**settings: Any) -> World:
    """A lake with committed and staged objects and garbage, nine days old."""
    world = make_world(mode="auto", **settings)
    world.rules(30)
    world.upload("a", b"1")
    world.lake.commit()
    world.upload("b", b"2")
    for number in range(3):
        world.orphan(f"data/slice/{number}", b"x" * (number + 1))
    world.age(days=9)
    return world


def state_after(run: Run) -> RunState:
    state = StateStore(run.state).current("lake", run.plan.namespace).state
    assert state is not None
    assert state.run_id == run.plan.run_id
    return state


def staged(run: Run, state: RunState) -> list[str]:
    """Addresses that were staged."""
    return sorted(key for part in state.staged for key in run.folder.read_part(part)["address"].to_pylist())


def whole(world: World, **settings: Any) -> tuple[Run, RunState]:
    run = world.plan(**settings)
    world.run(run)
    return run, state_after(run)


def test_a_clean_run_begins_anew_and_an_optimized_one_goes_on() -> None:
    world = grown()
    first, state = whole(world, mode="clean")
    assert (state.previous, state.clean_run_id, state.clean_at) == ("", state.run_id, first.plan.created_at)
    assert (state.optimized_runs, state.mode, state.objects) == (0, "clean", 2)
    world.age(days=2)
    late = world.orphan("data/other/late")
    world.age(days=2)
    second, then = whole(world)
    assert second.plan.mode == "optimized"
    assert late not in world.data()
    assert (then.previous, then.clean_run_id, then.clean_at) == (state.run_id, state.run_id, state.clean_at)
    assert (then.optimized_runs, then.objects) == (1, 2)
    world.age(days=2)
    _, last = whole(world)
    assert (last.previous, last.clean_run_id, last.optimized_runs) == (then.run_id, state.run_id, 2)


def test_every_file_that_a_state_names_is_there_and_none_twice() -> None:
    world = grown()
    run, state = whole(world, mode="clean")
    files = list(StateStore(run.state).files(state))
    for folder, part in files:
        assert len(folder.read_bytes(part)) == part.size_bytes
    named = [(folder.uri, part.name) for folder, part in files]
    assert len(set(named)) == len(named)
    ours = {part.name for folder, part in files if folder.uri == run.folder.uri}
    assert {part.name for part in (state.commits, state.ranges, state.named, *state.staged)} <= ours
    assert [part.name for folder, part in files if folder.uri == run.state.uri] == [
        part.name for part in state.counted.parts
    ]
    assert state.counted.parts
    (sizes,) = state.sizes
    assert {part.name for part in sizes.hashes.shards.values()} <= ours
    assert from_json(RunState, json.loads(json.dumps(to_json(state)))) == state


def test_a_state_is_of_its_repository_and_namespace_however_that_is_written() -> None:
    world = grown()
    run, state = whole(world, mode="clean")
    store, namespace = StateStore(run.state), run.plan.namespace
    assert store.current("lake", f"{namespace}/").state == state
    assert store.current("lake", f"{namespace}x").state is None
    assert store.current("other", namespace).state is None


def test_people_find_the_run_where_the_design_has_it() -> None:
    world = grown()
    world.orphan("data/slice/young")
    run, state = whole(world, mode="clean")
    assert (state.objects, staged(run, state) != []) == (3, True), (
        "those that the listing saw, young ones too, less those that went"
    )
    server_run = summary_of(run, "mark_uncommitted").details["server_runs"][-1]
    saved = json.loads(world.lake.objects.get(f"{UNCOMMITTED}/{server_run}/report.json"))
    assert (saved["run_id"], saved["mode"], saved["last_read_slice"]) == (
        state.run_id,
        "clean",
        state.first_slice,
    )
    assert saved["report"] == f"{run.plan.run_uri}/report.json"
    assert from_json(Coverage, saved["covered_slices"]) == state.covered


def test_people_find_a_run_without_a_scan_by_the_server_under_its_own_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = grown(read_kv=True)
    open_as(Snapshots(world), monkeypatch)
    run, _ = whole(world, mode="clean")
    assert summary_of(run, "mark_uncommitted").details["server_runs"] == []
    saved = json.loads(world.lake.objects.get(f"{UNCOMMITTED}/{run.plan.run_id}/report.json"))
    assert saved["report"] == f"{run.plan.run_uri}/report.json"


def test_what_is_young_in_a_slice_that_is_not_listed_again_is_in_the_pending_list() -> None:
    world = grown(slice_margin_hours=50)
    full = world.lake.catalog.addresses.get_physical_address("lake", "main", "late")
    world.age(hours=40)
    late = world.orphan(full.removeprefix(f"{world.lake.namespace}/"), b"late")
    world.age(hours=12)
    run, _ = whole(world, mode="clean")
    assert pending_rows(run)[late]["status"] == YOUNG


NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("window", "until", "added"),
    [
        ((BEGINNING, END), NOW, (BEGINNING, NOW)),
        ((NOW - 5 * DAY, NOW - 3 * DAY), NOW, (NOW - 5 * DAY, NOW - 3 * DAY)),
        ((NOW - 5 * DAY, NOW + DAY), NOW, (NOW - 5 * DAY, NOW)),
        ((NOW, NOW + DAY), NOW, None),
        ((NOW + DAY, NOW + 2 * DAY), NOW, None),
    ],
)
def test_a_run_covers_what_it_listed_as_far_as_slices_are_closed(
    window: tuple[datetime, datetime], until: datetime, added: tuple[datetime, datetime] | None
) -> None:
    """A slice that is called covered and was not listed is not looked at until the next clean run."""
    world = grown()
    run, state = whole(world, mode="clean")
    record = SimpleNamespace(input=lambda output: output.of(summary_of(run, output.STEP)))
    earlier = Coverage(((NOW - 90 * DAY, NOW - 80 * DAY),))
    plan = SimpleNamespace(
        **{
            name: getattr(run.plan, name)
            for name in ("repository", "namespace", "run_id", "run_uri", "mode", "created_at", "cutoff")
        },
        window=window,
        covered=earlier,
        covers_until=until,
    )
    found = advance._state(cast("Any", plan), None, cast("Any", record), [])
    assert found.covered == (earlier if added is None else earlier.add(*added))
    assert replace(found, covered=state.covered, gone=state.gone) == state


def test_a_run_builds_on_the_state_that_its_plan_names_or_not_at_all() -> None:
    world = grown()
    run, state = whole(world, mode="clean")
    assert base_of(run) is None
    world.age(days=2)
    later = world.plan()
    base = base_of(later)
    assert base is not None
    assert base.state == state
    assert base.folder.uri == run.folder.uri
    assert base.looked_at() == set()
    assert base.ranges().keys() == base.metaranges().ranges.keys()
    as_clean = SimpleNamespace(plan=SimpleNamespace(mode="clean", state=later.plan.state))
    assert base_of(cast("Any", as_clean)) is None
    without = SimpleNamespace(plan=SimpleNamespace(mode="optimized", state=None))
    assert base_of(cast("Any", without)) is None
    assert later.plan.state is not None
    for damaged in (Version("state/versions/none.json", "0"), Version(later.plan.state.name, "0")):
        with pytest.raises(FormatError):
            open_base(later, damaged)


def test_a_state_is_made_only_of_what_the_chain_vouches_for() -> None:
    world = grown()
    run = world.plan(mode="clean")
    world.mark(run)
    bulk_delete(run, world.runner)
    verify(run)
    listing = summary_of(run, "slice_listing")
    run.folder.write_json(
        "slice_listing/_SUCCESS.json", to_sealed(replace(listing, counts={**listing.counts, "x": 1}))
    )
    with pytest.raises(RefusedError):
        advance_state(run)
    assert StateStore(run.state).current("lake", run.plan.namespace).state is None


def test_what_was_deleted_or_gone_is_named_and_what_was_kept_is_not() -> None:
    world = grown()
    run = world.plan(mode="clean")
    world.mark(run)
    open_deleter(world.lake.namespace).delete(["data/slice/0"])
    stage_again(world, "data/slice/1", size_bytes=2)
    bulk_delete(run, world.runner)
    verify(run)
    summary = advance_state(run)
    state = state_after(run)
    assert {key for key in world.data() if key.startswith("data/slice/")} == {"data/slice/1"}
    gone = hash64(pa.array(["data/slice/0", "data/slice/2"]))
    assert [read_hashes(run.folder, part).tolist() for part in state.gone] == [sorted(gone.tolist())]
    assert summary.counts["gone_objects"] == 2
    assert {part.name for part in state.gone} == {part.name for part in summary.parts}
    assert len(staged(run, state)) == 1


def test_a_state_that_others_moved_on_is_told_nobody() -> None:
    world = grown()
    run = world.plan(mode="clean")
    world.mark(run)
    bulk_delete(run, world.runner)
    verify(run)
    run.state.put(POINTER, b'{"name": "x", "sha256": "y"}')
    with pytest.raises(ConflictError):
        advance_state(run)
    server_run = summary_of(run, "mark_uncommitted").details["server_runs"][-1]
    assert f"{UNCOMMITTED}/{server_run}/report.json" not in world.lake.keys(UNCOMMITTED)
