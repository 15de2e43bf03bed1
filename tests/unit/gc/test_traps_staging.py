"""Traps about what is staged: each of these loses data with a collector that trusts one answer.

Numbers are those of the facts about lakeFS; "vendor" names the failures that lakeFS's own collector has.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from dredge.errors import ConfigError, NotFoundError, RefusedError
from dredge.gc.config import GCConfig
from dredge.graveler.catalog import Settings
from dredge.graveler.errors import NoChangesError
from dredge.storage import memory, memory_store
from tests.support.gc import CatalogClient, World, make_world, summary_of
from tests.support.lakes import with_settings


def seen_with(world: World, **changes: object) -> World:
    """The same world behind a server with other settings."""
    world.lake = with_settings(world.lake, **changes)
    world.client = CatalogClient(world.lake.catalog)
    return world


def test_trap_01_what_is_committed_after_staging_was_read_stays() -> None:
    world = make_world()
    staged = world.upload("a", b"1")
    world.age(days=2)
    # Staging is read first, so the object is known as staged before the commit takes it away from there.
    with world.during("prepare_commits", lambda: world.lake.commit()):
        world.collect()
    assert staged in world.data()
    world.assert_readable()


def test_trap_01_a_commit_while_staging_is_read_is_found_among_commits() -> None:
    world = make_world()
    staged = world.upload("a", b"1")
    world.age(days=2)
    with world.during("prepare_uncommitted", lambda: world.lake.commit()):
        world.collect()
    assert staged in world.data()


def test_trap_03_pages_are_united_whatever_the_last_one_says() -> None:
    """Vendor: an empty last page makes it forget everything that is staged."""
    world = seen_with(
        make_world(),
        defects=frozenset({"empty_last_page"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    staged = {world.upload(f"path/{number:02d}", b"%d" % number) for number in range(20)}
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    summary = context.folder.read_summary("staged")
    assert summary is not None
    assert summary.counts["pages"] > 2
    assert summary.counts["empty_pages"] >= 1
    assert world.data() == staged
    assert orphan not in world.data()


def test_trap_04_rows_that_the_server_lost_with_a_branch_are_asked_for_again() -> None:
    """Vendor: live staged objects are deleted when a branch is deleted during the scan."""
    world = seen_with(make_world(), defects=frozenset({"rows_lost_on_branch_delete"}))
    catalog, name = world.lake.catalog, world.lake.repository
    for branch in ("aa", "mm", "zz"):
        catalog.create_branch(name, branch, "main")
    staged = {world.upload(f"path/{number}", b"%d" % number, "aa") for number in range(5)}
    world.age(days=2)
    dropped = False
    scan = catalog._branches.scan

    def scanning(*arguments: object, **more: object) -> object:
        nonlocal dropped
        for branch in scan(*arguments, **more):  # type: ignore[arg-type]
            if branch.name == "mm" and not dropped and pages:
                dropped = True
                catalog.delete_branch(name, "mm")
            yield branch

    pages: list[int] = []
    world.client.before = lambda called, _: pages.append(1) if called == "prepare_uncommitted" else None
    catalog._branches.scan = scanning  # type: ignore[method-assign, assignment]
    context = world.plan()
    world.run(context)
    assert dropped
    summary = context.folder.read_summary("staged")
    assert summary is not None
    assert summary.counts["scans"] == 2
    assert staged <= world.data()


def test_trap_04_branches_that_never_stand_still_stop_the_run() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.orphan("data/orphan")
    world.age(days=2)
    numbers = iter(range(1000))
    before = world.data()

    def another() -> None:
        world.lake.catalog.create_branch(world.lake.repository, f"b{next(numbers)}", "main")

    with (
        world.during("prepare_uncommitted", another, times=1000),
        pytest.raises(RefusedError, match=r"branches .* came or went"),
    ):
        world.collect()
    assert world.data() == before


def test_trap_05_a_minimum_age_below_a_day_needs_an_option_that_says_unsafe() -> None:
    with pytest.raises(ConfigError, match="unsafe_min_age_seconds"):
        GCConfig(repository="lake", min_age_hours=23.9)
    assert GCConfig(repository="lake", unsafe_min_age_seconds=0).min_age_seconds == 0


def test_trap_05_age_is_the_stores_and_the_bound_is_strict() -> None:
    world = make_world()
    world.upload("a", b"1")
    now = world.age(days=2)
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    prefix = world.lake.namespace.removeprefix("memory://").partition("/")[2]
    cutoff = now - timedelta(hours=24)
    store.write(f"{prefix}/data/on-the-cutoff", b"x", cutoff)
    store.write(f"{prefix}/data/just-older", b"x", cutoff - timedelta(microseconds=1))
    world.collect()
    assert "data/on-the-cutoff" in world.data()
    assert "data/just-older" not in world.data()


def test_trap_05_the_entrys_own_time_is_no_evidence_of_age() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.age(days=2)
    fresh = world.orphan("data/slice/fresh")
    world.lake.catalog.stage_object(
        world.lake.repository,
        "main",
        "old",
        physical_address=f"{world.lake.namespace}/data/slice/fresh",
        checksum="c",
        size_bytes=6,
        mtime=world.lake.clock() - timedelta(days=400),
    )
    world.lake.catalog.delete_object(world.lake.repository, "main", "old")
    world.collect()
    assert fresh in world.data()


@pytest.mark.parametrize("after", ["upload", "a failed commit", "a reset of the object"])
def test_trap_06_45_the_same_bytes_uploaded_again_stay(after: str) -> None:
    """Vendor: prepare_uncommitted does not list them, so the object that the branch reads is deleted."""
    world = make_world()
    first = world.upload("a", b"same")
    world.lake.commit()
    second = world.upload("a", b"same")
    if after == "a failed commit":
        with pytest.raises(NoChangesError):
            world.lake.commit()
    if after == "a reset of the object":
        world.lake.catalog.reset_branch(world.lake.repository, "main", kind="object", path="a")
    assert world.served()["a"] == second
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert {first, second} <= world.data()
    world.assert_readable()
    guard = context.folder.read_json("guard.json")
    assert [item["address"] for item in guard["identical_live"]] == [second]


def test_trap_06_an_equal_object_that_no_branch_serves_goes() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    orphan = world.orphan("data/orphan", b"same")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert orphan not in world.data()
    guard = context.folder.read_summary("guard")
    assert guard is not None
    assert (guard.counts["suspects"], guard.counts["suspects_cleared"]) == (1, 1)


@pytest.mark.parametrize("bound", ["identical_suspects_max", "identical_stats_max"])
def test_trap_06_too_many_to_ask_are_held_back(bound: str) -> None:
    world = make_world(safety={bound: 1})
    for number in range(3):
        world.upload(f"a{number}", b"same")
    world.lake.commit()
    twins = {world.upload(f"a{number}", b"same") for number in range(3)}
    other = world.orphan("data/other", b"other")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twins <= world.data()
    assert other not in world.data()
    guard = context.folder.read_summary("guard")
    assert guard is not None
    assert guard.counts["suspects_held"] == 3
    assert any("held back" in text for text in guard.warnings)


def test_trap_06_a_linked_object_of_equal_size_is_looked_into() -> None:
    """The uploader of a linked object names any checksum, so its ETag says nothing."""
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository

    def link(content: bytes) -> str:
        full = catalog.get_physical_address(name, "main", "linked")
        world.lake.objects.put(full.removeprefix(world.lake.namespace + "/"), content)
        catalog.link_physical_address(
            name, "main", "linked", physical_address=full, checksum="claimed", size_bytes=len(content)
        )
        return full.removeprefix(world.lake.namespace + "/")

    first = link(b"12345678")
    world.lake.commit()
    second = link(b"87654321")
    assert world.served()["linked"] == second
    world.age(days=2)
    world.collect()
    assert {first, second} <= world.data()


def test_trap_06_a_linked_object_that_claims_the_committed_checksum_is_looked_into() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    first = world.upload("a", b"12345678")
    world.lake.commit()
    full = catalog.get_physical_address(name, "main", "a")
    second = world.orphan(full.removeprefix(world.lake.namespace + "/"), b"87654321")
    checksum = world.lake.objects.stat(first).etag
    assert checksum is not None
    catalog.link_physical_address(
        name,
        "main",
        "a",
        physical_address=full,
        checksum=checksum,
        size_bytes=8,
        content_type="application/octet-stream",
    )
    assert world.served()["a"] == second
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert {first, second} <= world.data()
    assert [item["address"] for item in context.folder.read_json("guard.json")["identical_live"]] == [second]


def test_trap_06_a_copy_over_itself_of_an_entry_with_another_checksum_stays() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    first = world.orphan("data/slice/staged", b"12345678")
    stage_again(world, first, "a", size_bytes=8)
    world.lake.commit()
    second = world.lake.address(catalog.copy_object(name, "main", "a", "a"))
    assert world.served()["a"] == second
    world.age(days=2)
    world.collect()
    assert {first, second} <= world.data()


def test_trap_06_where_etags_are_no_hashes_of_the_content_the_bytes_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An encrypted bucket: its ETags look like MD5s and are none, and no configuration says so."""
    monkeypatch.setattr(memory, "_etag", lambda data: hashlib.md5(b"salt" + data).hexdigest())
    world = make_world()
    first = world.upload("a", b"same")
    world.lake.commit()
    second = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert summary_of(context, "candidates").details["etags_are_contents"] is False
    assert world.data() == {first, second}
    assert orphan not in world.data()


def test_trap_06_questions_are_counted_over_all_branches() -> None:
    world = make_world(safety={"identical_stats_max": 3})
    world.upload("a", b"same")
    world.lake.commit()
    for number in range(4):
        world.lake.catalog.create_branch(world.lake.repository, f"b{number}", "main")
    twin = world.upload("a", b"same", "b3")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert twin in world.data()
    guard = summary_of(context, "guard")
    assert (guard.counts["suspects_held"], guard.counts["questions"]) == (1, 0)


def test_trap_07_an_object_that_looks_old_at_birth_is_not_seen_by_this_run() -> None:
    world = make_world()
    world.upload("a", b"1")
    now = world.age(days=2)
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    prefix = world.lake.namespace.removeprefix("memory://").partition("/")[2]

    def finish_multipart() -> None:
        store.write(f"{prefix}/data/slice/multipart", b"x", now - timedelta(days=2))

    # Born after the listing was written in full; a lazy listing would find it, old and named by nothing.
    with world.during("prepare_uncommitted", finish_multipart):
        world.collect()
    assert "data/slice/multipart" in world.data()


def test_trap_22_a_hidden_branch_is_as_live_as_any() -> None:
    world = make_world()
    world.rules(1)
    world.lake.catalog.create_branch(world.lake.repository, "hidden", "main", hidden=True)
    committed = world.upload("a", b"1", "hidden")
    world.lake.commit("on hidden", "hidden")
    staged = world.upload("b", b"2", "hidden")
    world.age(days=40)
    world.collect()
    assert {committed, staged} <= world.data()
    world.assert_readable("hidden")


def test_trap_23_sealed_tokens_are_staging_too() -> None:
    world = make_world()
    staged = world.upload("a", b"1")
    branches = world.lake.catalog._branches
    found = world.lake.catalog._repositories.get(world.lake.repository)
    # A commit that was killed after its first write leaves the data in a sealed token.
    world.lake.catalog._protocol.change(found, "main", lambda branch: branch.sealed("lake-main:fresh"))
    assert len(branches.current(found, "main").branch.tokens) == 2
    world.age(days=2)
    world.collect()
    assert staged in world.data()
    world.assert_readable()


def stage_again(world: World, address: str, path: str = "again", size_bytes: int = 6) -> None:
    """Stage an object that is in the store already (StageObject asks for no age and no permission)."""
    world.lake.catalog.stage_object(
        world.lake.repository,
        "main",
        path,
        physical_address=f"{world.lake.namespace}/{address}",
        checksum="c",
        size_bytes=size_bytes,
    )


def test_trap_24_an_old_object_staged_again_after_the_mark_is_found_by_the_re_check() -> None:
    world = make_world()
    world.upload("a", b"1")
    orphan, other = world.orphan("data/slice/orphan"), world.orphan("data/slice/other")
    world.age(days=2)
    context = world.plan()
    world.mark(context)
    stage_again(world, orphan)
    world.run(context)
    assert orphan in world.data()
    assert other not in world.data()
    world.assert_readable()
    ledger = context.folder.read_summary("ledger")
    assert ledger is not None
    assert ledger.counts["kept_objects"] == 1


def test_a_living_object_among_the_candidates_stops_the_run() -> None:
    world = make_world()
    world.upload("a", b"1")
    orphan = world.orphan("data/slice/orphan")
    world.age(days=2)
    # Right before the guards look at what branches show; a wrong mark would look the same.
    with (
        world.during("objects", lambda: stage_again(world, orphan)),
        pytest.raises(RefusedError, match="canaries"),
    ):
        world.collect()
    assert orphan in world.data()


def test_trap_26_an_address_that_two_paths_share_outlives_one_of_them() -> None:
    world = make_world()
    address = world.upload("a", b"1")
    for path in ("b", "c"):
        world.lake.catalog.stage_object(
            world.lake.repository,
            "main",
            path,
            physical_address=f"{world.lake.namespace}/{address}",
            checksum="c",
            size_bytes=1,
        )
    world.lake.catalog.delete_object(world.lake.repository, "main", "a")
    world.age(days=2)
    world.collect()
    assert address in world.data()


def test_trap_43_a_repeated_token_stops_the_run() -> None:
    world = seen_with(
        make_world(),
        defects=frozenset({"repeated_token"}),
        prepare_flush_rows=1,
        prepare_file_bytes_max=16,
    )
    for number in range(20):
        world.upload(f"path/{number:02d}", b"%d" % number)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match="same continuation token twice"):
        world.collect()
    assert orphan in world.data()


def test_trap_43_pages_without_rows_are_normal() -> None:
    world = seen_with(make_world(), prepare_interval=timedelta(0))
    for number in range(5):
        world.lake.catalog.create_branch(world.lake.repository, f"b{number}", "main")
    staged = world.upload("a", b"1")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    summary = context.folder.read_summary("staged")
    assert summary is not None
    assert summary.counts["empty_pages"] > 1
    assert staged in world.data()


def test_trap_46_entries_that_survive_a_hard_reset_stay() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    world.upload("a", b"same")
    first = world.lake.commit("first")
    world.upload("a", b"other")
    world.lake.commit("second")
    staged = world.upload("a", b"same")
    # Against the first commit the staged entry is no change any more, but the branch still reads it.
    catalog.hard_reset(name, "main", first.id)
    assert world.served()["a"] == staged
    world.age(days=2)
    world.collect()
    assert staged in world.data()
    world.assert_readable()


def test_a_page_whose_file_is_missing_stops_the_run() -> None:
    world = seen_with(make_world(), defects=frozenset({"page_missing"}))
    staged = world.upload("a", b"1")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    with pytest.raises(RefusedError, match="staged addresses are missing"):
        world.collect()
    assert {staged, orphan} <= world.data()


def test_nothing_staged_is_fine_when_nothing_was() -> None:
    world = make_world()
    kept = world.upload("a", b"1")
    world.lake.commit()
    world.age(days=2)
    world.collect()
    assert world.data() == {kept}


def test_staging_that_vanished_since_the_last_run_stops_the_run() -> None:
    world = make_world(safety={"staged_rows_plenty": 5})
    staged = {world.upload(f"a{number}", b"%d" % number) for number in range(6)}
    world.age(days=2)
    world.collect()
    world.age(hours=1)
    honest = world.client.prepare_uncommitted

    def empty(repository: str, token: str | None) -> object:
        page = honest(repository, token)
        for batch in world.lake.objects.list(page.location.removeprefix(world.lake.namespace + "/")):
            for key in batch["key"].to_pylist():
                _empty_file(world, key)
        return page

    def nothing(*_: object) -> None:
        raise NotFoundError("so that the canaries see nothing")

    world.client.prepare_uncommitted = empty  # type: ignore[method-assign, assignment]
    world.client.objects = lambda *_, **__: []  # type: ignore[method-assign]
    world.client.stat = nothing  # type: ignore[method-assign, assignment]
    with pytest.raises(RefusedError, match="staging_not_gone"):
        world.collect()
    assert staged <= world.data()


def _empty_file(world: World, key: str) -> None:
    import io

    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(world.lake.objects.get(key)))
    sink = io.BytesIO()
    pq.write_table(table.slice(0, 0), sink)
    world.lake.objects.put(key, sink.getvalue())


def test_settings_of_the_server_are_the_real_ones_by_default() -> None:
    assert not Settings().defects
