"""What a complete run removes of Dredge's own files, and everything that it must leave alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, RefusedError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.index.store import CommittedIndex
from dredge.gc.index.upkeep import verify_index
from dredge.gc.planning import release_lease
from dredge.gc.run import Run, make_lease
from dredge.gc.save_report import lifetimes, old_folders, own_files
from dredge.gc.save_report.output import OwnFilesOutput
from dredge.gc.save_report.own_files import ROOT, OwnFilesDeleter
from dredge.gc.state.base import base_of
from dredge.gc.state.store import POINTER, StateStore
from dredge.gc.steps import bulk_delete, save_report, verify
from dredge.graveler.xid import new_descending_xid
from dredge.storage import DeleteOutcome
from tests.support.gc import World, make_world, summary_of


@contextmanager
def removing(
    before: Callable[[int, Sequence[str]], None] = lambda _number, _keys: None,
    answer: Callable[[str], str | None] = lambda _key: None,
) -> Iterator[list[str]]:
    """Watch what is removed of own files; may raise before each group, or fail single keys."""
    seen: list[str] = []
    honest = OwnFilesDeleter.delete
    groups = 0

    def delete(self: OwnFilesDeleter, keys: Sequence[str]) -> list[DeleteOutcome]:
        nonlocal groups
        groups += 1
        before(groups, keys)
        failed = {key: code for key in keys if (code := answer(key)) is not None}
        rest = [key for key in keys if key not in failed]
        seen.extend(rest)
        done = {outcome.key: outcome for outcome in honest(self, rest)}
        return [done[key] if key in done else DeleteOutcome(key, "failed", failed[key]) for key in keys]

    OwnFilesDeleter.delete = delete  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        OwnFilesDeleter.delete = honest  # type: ignore[method-assign]


def below(world: World, prefix: str) -> set[str]:
    return set(world.lake.keys(f"{ROOT}/{prefix}"))


def folders(world: World) -> set[str]:
    return {key.split("/")[4] for key in below(world, "unified/")}


def grown(world: World, number: int) -> None:
    """A little more of everything."""
    world.upload(f"a{number}", b"%d" % number)
    world.lake.commit()
    world.orphan(f"data/orphan-{number}")
    world.age(hours=30)


def run(world: World, **settings: Any) -> Run:
    context = world.plan(**settings)
    world.run(context)
    return context


def test_superseded_layers_of_counts_go_after_a_week_and_the_newest_stays() -> None:
    world = make_world()
    layers: list[set[str]] = []
    for number in range(6):
        grown(world, number)
        before = below(world, "dredge/counted/")
        run(world, mode="clean")
        layers.append(below(world, "dredge/counted/") - before)
        assert layers[-1]
        world.age(days=4)
    left = below(world, "dredge/counted/")
    # Two runs of the last week, and the one that was the newest when it began; the first three are gone.
    assert left == set().union(*layers[3:])
    assert len(below(world, "dredge/state/versions/")) == 3
    grown(world, 9)
    context = run(world, mode="optimized")
    assert context.plan.mode == "optimized"
    world.assert_readable()


def test_layers_that_an_optimized_run_builds_on_stay_however_old() -> None:
    world = make_world(clean_every_days=10_000)
    grown(world, 0)
    first = run(world)
    layer = below(world, "dredge/counted/")
    for number in range(1, 5):
        world.age(days=60)
        grown(world, number)
        context = run(world, mode="optimized")
        assert context.plan.mode == "optimized"
        assert layer <= below(world, "dredge/counted/")
        assert first.plan.run_id in folders(world), "its contents of branch heads are still looked up"
    assert len(folders(world)) == 5, "all of them hold some of the contents of branch heads"
    world.age(days=91)
    run(world, mode="clean")
    world.age(days=91)
    last = run(world, mode="clean")
    assert len(folders(world)) == 2
    assert last.plan.run_id in folders(world)
    assert not layer & below(world, "dredge/counted/")


def test_run_folders_go_when_they_are_older_than_asked_for() -> None:
    world = make_world(keep_runs_days=30)
    runs = []
    for number in range(5):
        grown(world, number)
        runs.append(run(world, mode="clean").plan.run_id)
        world.age(days=14)
    # The last run was made when the first was 61 days old, the second 46, the third 30.5, the fourth 15.
    assert folders(world) == set(runs[3:])
    facts = summary_of(
        Run.open(f"{world.lake.namespace}/{ROOT}/unified/{runs[-1]}"), OwnFilesOutput.STEP
    ).counts
    assert (facts["own_run_folders"], facts["folders_left"]) == (1, 0)


def test_the_folder_of_a_run_that_tells_what_left_staging_stays_as_long_as_that_is_held() -> None:
    world = make_world(keep_runs_days=7)
    world.collect()
    address = world.upload("a", b"staged")
    world.age(days=2)
    saw = run(world, dry_run=True).plan.run_id
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main")
    world.age(days=9)
    for _ in range(2):
        world.collect()
        assert saw in folders(world)
        assert address in world.data()
        world.age(hours=10)
    world.age(hours=10)
    world.collect()
    assert address not in world.data()
    world.collect()
    assert saw not in folders(world)


def test_nothing_goes_by_a_clock_that_jumped(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the store's clock half a year has passed since the run was planned; this machine's knows better."""
    world = make_world(mode="auto")
    grown(world, 1)
    run(world)
    grown(world, 2)
    context = world.plan()
    before = below(world, "")
    store_now, honest = Run.store_now, lifetimes.find_superseded

    def jumped(context: Run) -> lifetimes.Superseded:
        with monkeypatch.context() as patch:
            patch.setattr(Run, "store_now", lambda self: store_now(self) + timedelta(days=180))
            return honest(context)

    monkeypatch.setattr(lifetimes, "find_superseded", jumped)
    with removing() as removed:
        world.run(context)
    assert removed == []
    assert before <= below(world, "")
    assert "clock" in str(context.folder.read_json("report.json")["warnings"])


def test_what_a_user_wants_to_keep_for_ever_stays() -> None:
    world = make_world(keep_runs_days=None)
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=200)
    assert len(folders(world)) == 3
    assert len(below(world, "dredge/state/versions/")) == 3


def test_less_than_a_week_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 7"):
        GCConfig(repository="lake", keep_runs_days=6)


def test_folders_that_are_not_proved_to_be_this_repositorys_runs_stay() -> None:
    world = make_world()
    grown(world, 0)
    old = run(world).folder
    plan = old.read_json("plan.json")
    made: dict[str, set[str]] = {}
    for name, change in {
        "vendor": None,
        "other repository": {"repository": "other"},
        "other namespace": {"namespace": "memory://elsewhere/lake"},
        "unknown format": {"format": 99},
        "other place": {"run_uri": "memory://elsewhere/run"},
        "other run": {},
        "damaged": {"created_at": "?"},
        "nothing": {"config": None},
    }.items():
        world.age(seconds=5)
        run_id = new_descending_xid(world.lake.clock())
        mine = {"run_id": run_id, "run_uri": f"{world.lake.namespace}/{ROOT}/unified/{run_id}"}
        if name == "other run":
            mine["run_id"] = plan["run_id"]
        made[name] = {f"{ROOT}/unified/{run_id}/{file}" for file in ("summary.json", "plan.json")}
        world.lake.objects.put(f"{ROOT}/unified/{run_id}/summary.json", b"{}")
        content = b"[1]" if change is None else json.dumps({**plan, **mine, **change}).encode()
        if name == "vendor":
            made[name] = {f"{ROOT}/unified/{run_id}/summary.json"}
        else:
            world.lake.objects.put(f"{ROOT}/unified/{run_id}/plan.json", content)
    world.lake.objects.put(f"{ROOT}/unified/not-a-run/plan.json", json.dumps(plan).encode())
    for number in range(2):
        world.age(days=100)
        grown(world, number + 1)
        run(world, mode="clean")
    assert old.run_id not in folders(world)
    left = below(world, "unified/")
    assert {name: files <= left for name, files in made.items()} == dict.fromkeys(made, True)
    assert f"{ROOT}/unified/not-a-run/plan.json" in left


def test_a_dry_run_tells_what_would_go_and_removes_nothing() -> None:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    before = set(world.lake.keys(""))
    with removing() as removed:
        context = run(world, mode="clean", dry_run=True)
        assert removed == []
    assert before <= set(world.lake.keys(""))
    told = summary_of(context, OwnFilesOutput.STEP).counts
    assert told["own_files"] > 0
    assert told["own_run_folders"] == 1
    facts = dict(context.folder.read_json("report.json")["facts"])
    assert "1 run folders older than 90 days" in facts["Own files to be removed"]
    with removing() as removed:
        context = run(world, mode="clean")
    # The run that deletes has moved the state on, so it may remove no less.
    assert len(removed) >= told["own_files"]
    assert "Own files removed" in dict(context.folder.read_json("report.json")["facts"])


def test_a_run_that_is_held_removes_nothing() -> None:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    before = set(world.lake.keys(""))
    grown(world, 9)
    with removing() as removed, pytest.raises(RefusedError):
        run(world, mode="clean", max_delete_objects=0)
    assert removed == []
    assert before <= set(world.lake.keys(""))


def test_what_the_run_that_waits_was_planned_on_stays_for_a_week() -> None:
    """It is marked and waits for an approval; its lease is taken over, and others go on."""
    world = make_world(safety={"mark_age_hours_max": 1000}, clean_every_days=10_000)
    grown(world, 0)
    run(world, mode="clean")
    grown(world, 1)
    waiting = world.plan(mode="optimized")
    world.mark(waiting)
    release_lease(waiting)
    for number in range(2, 5):
        world.age(hours=20)
        grown(world, number)
        run(world, mode="clean")
    again = Run.open(waiting.plan.run_uri, None, world.client, world.lake.clock)
    base = base_of(again)
    assert base is not None
    for part in base.state.parts:
        base.folder.read_bytes(part)
    for part in base.state.counted.parts:
        assert again.state.get(part.name)


@pytest.mark.parametrize("group", [1, 2])
def test_a_run_that_lost_its_lease_removes_nothing_more_and_is_a_success_all_the_same(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetimes, "_KEYS", 3)
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    grown(world, 9)
    context = world.plan(mode="clean")
    world.mark(context)
    bulk_delete(context, world.runner)
    verify(context, world.runner)

    def overtaken(number: int, _keys: Sequence[str]) -> None:
        if number == group:
            lease = make_lease(context.state, 3600)
            lease.release(context.plan.lease)
            lease.acquire("another run")

    with removing(overtaken) as removed:
        save_report(context)
    # The group that was looked at before is the last one.
    assert len(removed) == 3 * group
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert any("own files were not cleaned up" in text for text in report["warnings"])


def test_a_file_that_cannot_be_removed_is_a_warning_and_the_next_run_tries_again() -> None:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    grown(world, 9)
    with removing(answer=lambda key: "AccessDenied" if "counted" in key else None):
        context = run(world, mode="clean")
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert any("could not be removed" in text for text in report["warnings"])
    left = below(world, "dredge/counted/")
    grown(world, 10)
    run(world, mode="clean")
    assert left - below(world, "dredge/counted/")


def test_a_store_that_fails_while_cleaning_up_costs_a_warning_only() -> None:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    grown(world, 9)

    def fail(_number: int, _keys: Sequence[str]) -> None:
        raise UnavailableError("SlowDown")

    with removing(fail) as removed:
        context = run(world, mode="clean")
    assert removed == []
    report = context.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert any("SlowDown" in text for text in report["warnings"])


def test_a_removal_that_was_interrupted_is_ended_by_a_later_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "_KEYS", 1)
    world = make_world()
    grown(world, 0)
    old = run(world, mode="clean").plan.run_id
    for number in range(1, 3):
        world.age(days=100)
        grown(world, number)

        def die(_number: int, keys: Sequence[str]) -> None:
            if any(key.endswith("plan.json") for key in keys):
                raise UnavailableError("died")

        with removing(die) as removed:
            run(world, mode="clean")
    assert any(old in key for key in removed)
    assert below(world, f"unified/{old}/") == {f"{ROOT}/unified/{old}/plan.json"}
    grown(world, 9)
    run(world, mode="clean")
    assert old not in folders(world)


def test_an_unreadable_pointer_to_the_state_stops_the_removal() -> None:
    world = make_world()
    for number in range(3):
        grown(world, number)
        run(world, mode="clean")
        world.age(days=100)
    grown(world, 9)
    context = world.plan(mode="clean", dry_run=True)
    context.state.put(POINTER, b"[]")
    world.run(context)
    report = context.folder.read_json("report.json")
    assert any("own files were not cleaned up" in text for text in report["warnings"])


def test_only_the_older_folders_of_many_are_left_to_the_next_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_folders, "_FOLDERS_MAX", 2)
    world = make_world(keep_runs_days=7, safety={"commit_hours_max": 0})
    for number in range(6):
        grown(world, number)
        run(world, mode="clean", dry_run=True)
    world.age(days=30)
    for number, left in ((6, 4), (7, 2), (8, 0)):
        grown(world, number)
        assert summary_of(run(world, mode="clean"), OwnFilesOutput.STEP).counts["folders_left"] == left


def test_parts_of_the_index_that_were_united_go_and_the_index_stays_good() -> None:
    world = make_world(mode="auto", clean_every_days=10_000)
    world.rules(400)
    for number in range(6):
        grown(world, number)
        run(world, tuning={"index_parts_max": 1000})
    united = run(world, tuning={"index_parts_max": 1})
    many = below(world, "dredge/index/parts/")
    world.age(days=8)
    grown(world, 9)
    context = run(world, tuning={"index_parts_max": 1000})
    left = below(world, "dredge/index/parts/")
    assert len(left) < len(many)
    namespace, state = world.lake.namespace, context.state
    index = CommittedIndex.load(state, namespace)
    named = {item.name for part in index.parts.values() for item in (part.addresses, part.sizes)}
    assert left == {f"{ROOT}/dredge/{name}" for name in named}
    assert not [name for name in index.superseded if f"{ROOT}/dredge/{name}" in below(world, "dredge/index/")]
    assert verify_index(context.reader, state, namespace, against_ranges=True).is_good
    grown(world, 10)
    assert summary_of(run(world), "list_committed").counts["ranges_decoded"] == 1
    assert united.plan.run_id in folders(world)


def test_an_index_with_a_manifest_that_is_not_believed_loses_no_file_that_it_might_name() -> None:
    world = make_world()
    grown(world, 0)
    context = run(world)
    (info,) = context.state.list_level("index/manifests/").objects
    context.state.put(info.key, context.state.get(info.key)[:-1] + b"?")
    parts = below(world, "dredge/index/parts/")
    world.age(days=30)
    grown(world, 1)
    run(world, mode="clean")
    assert parts <= below(world, "dredge/index/parts/")


def test_nothing_but_own_files_is_ever_removed_by_it() -> None:
    world = make_world()
    kept = set()
    for number in range(4):
        grown(world, number)
        foreign = f"{ROOT}/uncommitted/{number}/pages"
        world.lake.objects.put(foreign, b"x")
        kept.add(foreign)
        with removing() as removed:
            run(world, mode="clean")
        assert all(own_files.is_own_file(key) for key in removed)
        world.age(days=100)
    store = StateStore(world.plan().state)
    assert store.current("lake", world.lake.namespace).state is not None
    assert kept <= set(world.lake.keys(""))
    world.assert_readable()
