"""Identical content uploaded again, with lakeFS's staging records read from each kind of store.

The server's answer does not have what a branch reads after such an upload (L6 and L45). Without the
records it is asked for, object by object; with them it is simply live.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, RefusedError
from dredge.gc.mark_uncommitted.kv_store import URL
from dredge.gc.steps import (
    Run,
    bulk_delete,
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
)
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.errors import NoChangesError
from lakefs_embedded.kv import open_store
from tests.support.gc import CatalogClient, World, stage_again, summary_of
from tests.support.kv_drivers import DRIVERS
from tests.support.lakes import make_lake

STORES = [name for name in sorted(DRIVERS) if name != "memory"]
ON_EVERY_STORE = "test_trap_06_45_the_records_keep_the_same_bytes_uploaded_again"
"""A driver's part is to be opened by the steps and read. That drivers read and write alike is the conformance suite's
matter, so that the other stories are told on one store, and on all of them in `./run test long`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "url" in metafunc.fixturenames:
        everywhere = metafunc.function.__name__ == ON_EVERY_STORE
        others = () if everywhere else (pytest.mark.long,)
        stores = [pytest.param(name, marks=() if name == "sqlite" else others) for name in STORES]
        metafunc.parametrize("url", stores, indirect=True)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with DRIVERS[request.param].fresh_url(tmp_path, request) as found:
        monkeypatch.setenv(URL, found)
        yield found


@pytest.fixture
def world(url: str) -> Iterator[World]:
    """A lake whose metadata is in that store, and runs that read it and may ask nothing."""
    with open_store(url) as kv:
        yield world_on(kv)


def world_on(kv: Any, **settings: Any) -> World:
    lake = make_lake(kv=kv)
    # No question may be asked: what stays does so by the records alone.
    settings = {"read_kv": True, "safety": {"identical_suspects_max": 0}} | settings
    return World(lake, CatalogClient(lake.catalog), settings=settings)


def twins(world: World, after: str = "upload") -> tuple[str, str, str]:
    """A committed object, the same bytes uploaded over it, and an orphan with the same bytes."""
    first = world.upload("a", b"same")
    world.lake.commit()
    second = world.upload("a", b"same")
    if after == "a failed commit":
        with pytest.raises(NoChangesError):
            world.lake.commit()
    if after == "a reset of the object":
        world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="object", path="a")
    assert world.served()["a"] == second
    orphan = world.orphan("data/orphan", b"same")
    world.age(days=2)
    return first, second, orphan


def test_trap_06_45_the_records_keep_the_same_bytes_uploaded_again(world: World) -> None:
    context = assert_twins_are_kept(world, "upload")
    # Nor is anything of the store written down.
    for key in world.lake.keys("_lakefs/retention/"):
        data = world.lake.objects.get(key)
        assert URL.encode() not in data
        assert b"postgres:" not in data  # user and password
    assert world.lake.keys(context.folder.uri.removeprefix(f"{world.lake.namespace}/"))


@pytest.mark.parametrize("after", ["a failed commit", "a reset of the object"])
def test_trap_06_45_the_records_keep_them_also_after(world: World, after: str) -> None:
    assert_twins_are_kept(world, after)


def assert_twins_are_kept(world: World, after: str) -> Run:
    first, second, orphan = twins(world, after)
    context = world.plan()
    world.run(context)
    assert world.data() == {first, second}
    assert orphan not in world.data()
    world.assert_readable()
    summary = summary_of(context, "mark_uncommitted")
    assert summary.counts["kv_unseen_addresses"] == 1
    assert summary.details["kv"]["exact"] is True
    guard = summary_of(context, "check_limits")
    assert (guard.counts["same_size_objects"], guard.counts["questions"]) == (0, 0)
    return context


def test_trap_14_an_entry_of_the_oldest_kind_is_in_the_records(world: World) -> None:
    old = world.orphan("data/old", b"old")
    entry = Entry(old, size=3, etag="e")
    message = messages.decode(messages.Entry, entry.encode(), "entry")
    message.address_type = 0
    record = messages.StagedEntryData(key=b"old", identity=b"i" * 32, data=messages.encode(message))
    (token, *_) = world.lake.tokens()
    world.lake.kv.set(token.encode(), b"old", messages.encode(record))
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert old in world.data()
    assert summary_of(context, "mark_uncommitted").counts["kv_unseen_addresses"] == 1


def test_trap_22_hidden_branches_have_records_too(world: World) -> None:
    world.upload("a", b"same")
    world.lake.commit()
    world.lake.catalog.branches.create_branch(world.lake.repository, "secret", "main", hidden=True)
    second = world.upload("a", b"same", "secret")
    world.age(days=2)
    world.collect()
    assert second in world.data()


def test_an_old_object_staged_with_committed_content_after_the_mark_is_found_by_the_re_check(
    world: World,
) -> None:
    first = world.upload("a", b"same")
    world.lake.commit()
    checksum = world.lake.objects.stat(first).etag
    old = world.orphan("data/slice/old", b"same")
    world.age(days=2)
    context = world.plan()
    for step in (slice_listing, mark_uncommitted, list_committed, subtract, check_limits):
        step(context, world.runner)
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "main",
        "a",
        physical_address=f"{world.lake.namespace}/{old}",
        checksum=checksum or "",
        size_bytes=4,
        content_type="application/octet-stream",
    )
    assert world.served()["a"] == old
    bulk_delete(context, world.runner)
    assert old in world.data()


def test_what_is_overwritten_in_an_older_token_waits_for_the_next_commit(world: World) -> None:
    world.upload("a", b"same")
    world.lake.commit()
    hidden = world.upload("a", b"same")
    with pytest.raises(NoChangesError):
        world.lake.commit()  # leaves a sealed token behind
    world.upload("a", b"other")
    world.age(days=2)
    world.collect()
    assert hidden in world.data()
    world.lake.commit()
    world.collect()
    assert hidden not in world.data()


def test_a_store_of_another_installation_stops_the_run(
    world: World, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, orphan = twins(world)
    with open_store(f"sqlite://{tmp_path}/other.db") as other:
        make_lake(kv=other, repository="something-else")
    monkeypatch.setenv(URL, f"sqlite://{tmp_path}/other.db")
    with pytest.raises(RefusedError, match="another installation"):
        world.collect()
    assert {second, orphan} <= world.data()


def test_a_store_with_the_same_name_elsewhere_stops_the_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, orphan = twins(world)
    with open_store(f"sqlite://{tmp_path}/other.db") as other:
        make_lake(kv=other)
    monkeypatch.setenv(URL, f"sqlite://{tmp_path}/other.db")
    with pytest.raises(RefusedError, match="server's own database"):
        world.collect()
    assert {second, orphan} <= world.data()


def copy_store(world: World, path: Path) -> str:
    kv = world.lake.kv
    record = Repository.decode(kv.get(REPOSITORIES_PARTITION, repository_key(world.lake.repository)))
    tokens = [token.encode() for token in world.lake.tokens()]
    with open_store(f"sqlite://{path}") as copy:
        for partition in [REPOSITORIES_PARTITION, record.partition, *tokens]:
            for entry in kv.scan(partition):
                copy.set(partition, entry.key, entry.value)
    return f"sqlite://{path}"


def test_an_old_copy_of_the_store_stops_the_run_when_a_branch_has_moved(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.upload("a", b"before")
    monkeypatch.setenv(URL, copy_store(world, tmp_path / "copy.db"))
    world.lake.commit()
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match="old copy"):
        world.collect()
    assert orphan in world.data()


def test_an_old_copy_of_the_store_that_lacks_what_the_server_shows_is_not_believed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.upload("a", b"same")
    world.lake.commit()
    monkeypatch.setenv(URL, copy_store(world, tmp_path / "copy.db"))
    second = world.upload("a", b"same")
    world.upload("b", b"shown")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert {first, second} <= world.data()
    summary = summary_of(context, "mark_uncommitted")
    assert summary.details["kv"]["exact"] is False
    assert summary.counts["kv_missing_addresses"]
    assert summary.warnings
    assert summary_of(context, "check_limits").counts["identical_too_many_objects"] == 1


def test_a_run_that_was_planned_with_the_store_does_not_go_on_without(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, orphan = twins(world)
    context = world.plan()
    world.mark(context)
    monkeypatch.delenv(URL)
    with pytest.raises(ConfigError, match="kv_conn_id"):
        bulk_delete(context, world.runner)
    assert {second, orphan} <= world.data()


def test_staged_garbage_of_other_repositories_of_the_store_does_not_matter(world: World) -> None:
    orphan = world.orphan("data/orphan")
    other = make_lake(kv=world.lake.kv, repository="other")
    other.upload("x", b"x")
    stage_again(world, world.orphan("data/slice/staged"), "staged")
    world.age(days=2)
    world.collect()
    assert orphan not in world.data()
    assert "data/slice/staged" in world.data()


def test_optimized_runs_read_the_records_too(world: World) -> None:
    first, second, _ = twins(world)
    world.collect(mode="clean")
    world.age(days=2)
    world.upload("b", b"another")
    context = world.plan(mode="optimized")
    assert context.plan.mode == "optimized"
    world.run(context)
    assert {first, second} <= world.data()
    # What only the records had shown is looked at again once it is gone from them.
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    world.collect(mode="optimized")
    assert second not in world.data()
    assert first in world.data()


def test_an_optimized_run_without_the_records_still_keeps_what_they_had_shown(world: World) -> None:
    first, second, _ = twins(world)
    world.collect(mode="clean")
    world.age(days=2)
    world.collect(mode="optimized", read_kv=False, safety={})
    assert {first, second} <= world.data()
    world.assert_readable()
