"""What is staged stays, whatever happens while it is read."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, NotFoundError, RefusedError
from dredge.gc.config import GCConfig
from dredge.gc.mark_uncommitted import scan_staging
from dredge.gc.mark_uncommitted.staging import Staging
from dredge.gc.run import Run
from dredge.lakefs import Change
from lakefs_embedded.refs.records import sealed
from tests.support.gc import World, make_world, seen_with, stage_again
from tests.support.kv_views import WithoutSnapshots, copy_of, open_as
from tests.support.memory_store import memory_store
from tests.support.storms import old_version, recovery


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


def test_trap_04_rows_that_the_server_lost_with_a_branch_are_asked_for_again() -> None:
    """Vendor: live staged objects are deleted when a branch is deleted during the scan."""
    world = seen_with(make_world(), defects=frozenset({"rows_lost_on_branch_delete"}))
    catalog, name = world.lake.catalog, world.lake.repository
    for branch in ("aa", "mm", "zz"):
        catalog.branches.create_branch(name, branch, "main")
    staged = {world.upload(f"path/{number}", b"%d" % number, "aa") for number in range(5)}
    world.age(days=2)
    dropped = False
    scan = catalog.refs.branches.scan

    def scanning(*arguments: object, **more: object) -> object:
        nonlocal dropped
        for branch in scan(*arguments, **more):  # type: ignore[arg-type]
            if branch.name == "mm" and not dropped and pages:
                dropped = True
                catalog.branches.delete_branch(name, "mm")
            yield branch

    pages: list[int] = []
    world.client.before = lambda called, _: pages.append(1) if called == "prepare_uncommitted" else None
    catalog.refs.branches.scan = scanning  # type: ignore[method-assign, assignment]
    context = world.collected()
    assert dropped
    summary = context.folder.read_summary("mark_uncommitted")
    assert summary is not None
    assert summary.counts["scans"] == 2
    assert staged <= world.data()


def test_trap_04_branches_that_never_stand_still_stop_a_run_that_may_not_ask_them() -> None:
    world = make_world(safety={"staged_questions_max": 0})
    world.upload("a", b"1")
    world.orphan("data/orphan")
    world.age(days=2)
    numbers = iter(range(1000))
    before = world.data()

    def another() -> None:
        world.lake.catalog.branches.create_branch(world.lake.repository, f"b{next(numbers)}", "main")

    with (
        world.during("prepare_uncommitted", another, times=1000),
        pytest.raises(RefusedError, match=r"\bb\d"),
    ):
        world.collect()
    assert world.data() == before


def test_trap_05_a_minimum_age_below_a_day_and_an_hour_needs_an_option_that_says_unsafe() -> None:
    with pytest.raises(ConfigError, match="unsafe_min_age_seconds"):
        GCConfig(repository="lake", min_age_hours=24.9)
    assert GCConfig(repository="lake", unsafe_min_age_seconds=0).min_age_seconds == 0


def test_trap_05_age_is_the_stores_and_the_bound_is_strict() -> None:
    world = make_world()
    world.upload("a", b"1")
    now = world.age(days=2)
    store = memory_store(world.lake.namespace.removeprefix("memory://").partition("/")[0])
    prefix = world.lake.namespace.removeprefix("memory://").partition("/")[2]
    cutoff = now - timedelta(hours=25)
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
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        "main",
        "old",
        physical_address=f"{world.lake.namespace}/data/slice/fresh",
        checksum="c",
        size_bytes=6,
        mtime=world.lake.clock() - timedelta(days=400),
    )
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "old")
    world.collect()
    assert fresh in world.data()


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
    world = make_world(rules=1)
    world.lake.catalog.branches.create_branch(world.lake.repository, "hidden", "main", hidden=True)
    committed = world.commit("a", b"1", "hidden")
    staged = world.upload("b", b"2", "hidden")
    world.collect_after(days=40)
    assert {committed, staged} <= world.data()
    world.assert_readable("hidden")


def test_trap_23_sealed_tokens_are_staging_too() -> None:
    world = make_world()
    staged = world.upload("a", b"1")
    branches = world.lake.catalog.refs.branches
    found = world.lake.catalog.refs.repositories.get(world.lake.repository)
    # A commit that was killed after its first write leaves the data in a sealed token.
    world.lake.catalog.staging.protocol.change(
        found, "main", lambda branch: sealed(branch, "lake-main:fresh")
    )
    assert len(branches.current(found, "main").branch.tokens) == 2
    world.collect_after(days=2)
    assert staged in world.data()
    world.assert_readable()


def test_trap_24_an_old_object_staged_again_after_the_mark_is_found_by_the_re_check() -> None:
    world = make_world()
    world.upload("a", b"1")
    orphan, other = world.orphan("data/slice/orphan"), world.orphan("data/slice/other")
    world.age(days=2)
    context = world.marked()
    stage_again(world, orphan)
    world.run(context)
    assert orphan in world.data()
    assert other not in world.data()
    world.assert_readable()
    ledger = context.folder.read_summary("bulk_delete")
    assert ledger is not None
    assert ledger.counts["kept_objects"] == 1


def test_what_moves_from_a_head_back_into_staging_while_the_re_check_reads_stays() -> None:
    world = make_world()
    old, orphan = old_version(world, "a"), world.orphan("data/slice/orphan")
    world.age(days=2)
    context = world.marked()
    with recovery(world, "a"):
        world.run(context)
    assert world.served()["a"] == old
    assert old in world.data()
    assert orphan not in world.data()


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
        stage_again(world, address, path, 1)
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "a")
    world.collect_after(days=2)
    assert address in world.data()


def test_staging_that_vanished_since_the_last_run_stops_the_run() -> None:
    world = make_world(safety={"staged_rows_plenty": 5})
    staged = {world.upload(f"a{number}", b"%d" % number) for number in range(6)}
    world.age(days=2)
    world.collected()
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

    asked: list[str] = []
    shown = world.client.changes

    def changes(*arguments: Any, **more: Any) -> list[Change]:
        # Nothing while the scan is proved, which would stop the run as well.
        return shown(*arguments, **more) if "prepare_commits" in asked else []

    world.client.before = lambda name, _: asked.append(name)
    world.client.changes = changes  # type: ignore[method-assign]
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


@pytest.mark.parametrize("drop", [True, False])
def test_records_that_prove_nothing_are_compared_with_what_the_server_showed(
    monkeypatch: pytest.MonkeyPatch, drop: bool
) -> None:
    world = make_world(read_kv=True)
    world.upload("a", b"1")
    world.upload("b", b"2")
    copied = copy_of(world)
    if drop:
        (token,) = world.lake.tokens()
        copied.delete(token.encode(), b"b")
    open_as(WithoutSnapshots(world, kv=copied), monkeypatch)
    world.client.usage = lambda: None  # type: ignore[method-assign]
    found = scan_staging(world.plan(), "scan")
    assert found.records is not None
    assert (found.records.missing, found.records.unseen) == (int(drop), 0)
    assert found.records.exact is not drop
    assert len(found.scanned) == 2


def addresses(run: Run, found: Staging) -> set[str]:
    return {
        address
        for rows in run.folder.read_parts(found.files.addresses)
        for address in rows["address"].to_pylist()
    }


def before_scans(world: World, action: Callable[[int], None]) -> list[int]:
    numbers: list[int] = []

    def before(name: str, _arguments: object) -> None:
        if name == "prepare_uncommitted":
            numbers.append(len(numbers) + 1)
            action(numbers[-1])

    world.client.before = before
    return numbers


def test_everything_that_any_scan_gave_counts() -> None:
    world = make_world(safety={"scan_rounds_max": 3})
    catalog, name = world.lake.catalog, world.lake.repository
    staged = world.upload("a", b"1")
    catalog.branches.create_branch(name, "side", "main")
    run = world.plan()

    def move(number: int) -> None:
        catalog.branches.create_branch(name, f"b{number}", "main")
        world.upload(f"during/{number}", b"%d" % number)
        if number == 2:  # only the first scan shows it
            catalog.objects.delete_object(name, "main", "a")

    scans = before_scans(world, move)
    found = scan_staging(run, "scan")
    assert scans == [1, 2, 3]
    assert len({scan.server_run for scan in found.scans}) == 3
    assert [(scan.pages, scan.empty_pages, len(scan.files)) for scan in found.scans] == [(1, 0, 1)] * 3
    assert found.rows == 2 + 2 + 3, "with repetitions"
    assert len(found.scanned) == 4
    assert staged in addresses(run, found)
    assert found.proof is not None
    assert found.proof.asked_for_all == 1, "the last round asks each branch with changes for everything"
    assert {branch for branch, _ in found.heads} == {"main", "side", "b1", "b2", "b3"}
    assert found.branches.keys() == {"main", "side", "b1", "b2", "b3"}


def test_heads_of_before_between_and_after_scans_are_all_remembered() -> None:
    world = make_world()
    run = world.plan()
    (main,) = world.client.branches(world.lake.repository)
    commits = [main.commit_id]

    def move(number: int) -> None:
        if number == 1:  # a branch comes, so that there is a second scan
            world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
        world.upload("a", b"%d" % number)
        commits.append(world.lake.commit(f"{number}").id)

    scans = before_scans(world, move)
    found = scan_staging(run, "scan")
    assert scans == [1, 2]
    assert {commit for branch, commit in found.heads if branch == "main"} == set(commits)
    assert found.branches["main"] == commits[-1]


def test_a_server_that_lists_no_branches_is_not_believed() -> None:
    world = make_world()
    world.upload("a", b"1")
    run = world.plan()
    world.client.branches = lambda *_: []  # type: ignore[method-assign]
    with pytest.raises(RefusedError):
        scan_staging(run, "scan")
