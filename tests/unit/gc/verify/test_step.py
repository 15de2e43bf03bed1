"""Verify finds what is still there and what should be, with a bounded number of looks."""

import json
import random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError
from dredge.gc import verify
from dredge.gc.bulk_delete import sweep
from dredge.gc.verify import choose, find_there, looks_at
from dredge.storage import DeleteOutcome, open_writer
from tests.support.gc import World, busy_world, deleting, make_world, summary_of
from tests.support.undo import store_of


def world_with_garbage(count: int) -> tuple[World, set[str]]:
    """A lake whose garbage fills many parts of the ledger."""
    world = make_world(tuning={"candidate_rows": 10})
    world.commit("a", b"lives")
    gone = {world.orphan(f"data/slice/{number:04d}") for number in range(count)}
    world.age(days=2)
    return world, gone


def claimed(key: str, message: str | None = None) -> DeleteOutcome:
    return DeleteOutcome(key, "deleted", message=message)


@pytest.mark.parametrize("looks", [None, 1000])
def test_what_was_reported_deleted_and_is_still_there_is_an_error(looks: int | None) -> None:
    world, gone = world_with_garbage(30)
    kept = min(gone)
    context = world.plan(verify_sample_size=looks)
    with (
        deleting(answer=lambda key: claimed(key) if key == kept else None),
        pytest.raises(FormatError, match=kept),
    ):
        world.run(context)
    assert kept in world.data()


def test_an_object_whose_first_answer_was_not_clear_is_always_looked_for() -> None:
    world, gone = world_with_garbage(30)
    kept = min(gone)
    with (
        deleting(answer=lambda key: claimed(key, "asked again") if key == kept else None),
        pytest.raises(FormatError, match=kept),
    ):
        world.collect(verify_sample_size=0)


def test_a_living_object_in_the_ledger_is_noticed_however_few_looks_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All sampled living objects are compared with the ledger, which costs no request."""
    monkeypatch.setattr("dredge.gc.check_limits.canaries.sample", lambda *_, **__: [])
    monkeypatch.setattr(verify, "_LOOKS", 0)
    world, _, _ = busy_world()
    context = world.plan(verify_sample_size=0)
    monkeypatch.setattr("dredge.sets.live.LiveSet.find", lambda _, wanted: [hashes == 0 for hashes in wanted])
    monkeypatch.setattr(sweep, "_codes_of_kept", lambda *asked: pa.nulls(len(asked[-1]), pa.string()))
    with pytest.raises(FormatError):
        world.run(context)
    said = json.loads(context.folder.writer.get("verify.json"))
    assert said["living_objects_deleted"] == len(said["living_deleted"]) > 0


def test_a_living_object_that_is_gone_without_our_doing_is_a_warning() -> None:
    world, _, _ = busy_world()
    context = world.plan()
    lost = world.served()["a1"]

    def lose(_number: int, _keys: object) -> None:
        store_of(world).objects.pop(f"lake/{lost}", None)

    with deleting(before=lose):
        world.run(context)
    found = summary_of(context, "verify")
    assert (found.counts["living_objects_missing"], found.counts["living_objects_deleted"]) == (1, 0)
    assert lost in found.warnings[0]


def test_a_clean_run_without_garbage_finds_what_others_deleted() -> None:
    world = make_world()
    lost, _ = world.commit("a"), world.commit("b")
    world.age(days=30)
    context = world.plan()
    store_of(world).objects.pop(f"lake/{lost}")
    world.run(context)
    assert summary_of(context, "bulk_delete").parts == ()
    assert summary_of(context, "verify").counts["living_objects_missing"] == 1


# Looks are bounded, spread, and take one request for many names where names lie close.


@pytest.mark.parametrize("length", [1, 7])
def test_a_sample_has_at_least_the_looks_asked_for_and_comes_from_all_over(length: int) -> None:
    names = [f"data/s/{number:05d}" for number in range(10_000)]
    runs = choose(names, 500, random.Random(1), length)
    looked = [name for run in runs for name in run]
    assert 500 <= len(looked) == len(set(looked)) < 500 + 2 * length
    assert {int(name[-5:]) // 1000 for name in looked} == set(range(10))
    everything = choose(names, 20_000, random.Random(1), length)
    assert sorted(name for run in everything for name in run) == names
    assert not choose(names, 0, random.Random(1), length)


def test_of_few_deleted_names_a_share_is_looked_for_and_never_less_than_some() -> None:
    assert [looks_at(deleted, 1000) for deleted in (10, 1_000, 2_300, 5_000, 25_000)] == [
        200,
        200,
        230,
        500,
        1_000,
    ]
    assert looks_at(1_000_000, 0) == 0


def test_an_object_that_the_store_will_not_describe_is_looked_for_in_a_listing() -> None:
    writer = open_writer("memory://denied/lake")
    writer.put("data/a", b"x")

    def denied(_key: str) -> Any:
        raise ConfigError("AccessDenied")

    reader: Any = SimpleNamespace(is_remote=True, list=writer.list, stat=denied)
    assert find_there(reader, [["data/a"], ["data/b"]], 2) == ["data/a"]
