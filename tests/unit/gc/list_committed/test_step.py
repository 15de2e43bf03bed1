"""What active commits name is live: damaged, moved and odd files and heads."""

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.steps import bulk_delete, list_committed, mark_uncommitted, slice_listing, subtract
from dredge.lakefs.files.sstable.layout import read_envelope
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_deleter
from tests.support.captured import FOLDER
from tests.support.commits import committed_world
from tests.support.gc import World, candidates, deleting, make_world
from tests.support.looks import driver_looks


def test_trap_08_the_first_commit_has_no_metarange_and_none_is_fetched() -> None:
    world = make_world(rules=30)
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    world.collect()  # nothing but the first commit
    assert orphan not in world.data()


def range_files(world: World) -> list[str]:
    return [key for key in world.lake.keys("_lakefs/") if len(key) == len("_lakefs/") + 64]


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "flipped"])
@pytest.mark.parametrize("rules", [True, False])
def test_trap_09_a_damaged_range_or_metarange_stops_the_run(damage: str, rules: bool) -> None:
    for kind in ("ranges", "metaranges"):
        world, kept, orphan = committed_world()
        if rules:
            world.rules(30)
        (key,) = (key for key in range_files(world) if _kind(world, key) == kind)
        data = world.lake.objects.get(key)
        if damage == "missing":
            open_deleter(world.lake.namespace).delete([key])
        else:
            middle = len(data) // 2
            broken = {
                "empty": b"",
                "truncated": data[:-10],
                "flipped": data[:5] + bytes([data[5] ^ 1]) + data[6:middle] + data[middle:],
            }
            world.lake.objects.put(key, broken[damage])
        with pytest.raises((FormatError, RefusedError)) as raised:
            world.collect()
        assert key.removeprefix("_lakefs/") in str(raised.value)
        assert {kept, orphan} <= world.data()


@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_trap_09_another_tables_file_under_a_tables_name_stops_the_run(kind: str) -> None:
    world = make_world(rules=30)
    world.commit("a", b"1")
    first = set(range_files(world))
    world.commit("z", b"2")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    second = sorted(set(range_files(world)) - first)
    tables = [key for key in [*sorted(first), *second] if _kind(world, key) == kind]
    world.lake.objects.put(tables[-1], world.lake.objects.get(tables[0]))
    world.client.objects = lambda *_, **__: []  # type: ignore[method-assign]  # a server would find it first
    context = world.plan()
    with pytest.raises(FormatError):
        world.run(context)
    assert context.folder.read_failure("list_committed") is not None
    assert orphan in world.data()


def _kind(world: World, key: str) -> str:
    return read_envelope(world.lake.objects.get(key), key, None, None).kind


def test_trap_25_a_branch_made_from_an_expired_commit_before_the_sweep_is_found() -> None:
    """Vendor: sweeping an old mark deletes what the branch reads."""
    world = make_world(rules=1)
    catalog, name = world.lake.catalog, world.lake.repository
    old = world.upload("a", b"first")
    commit = world.lake.commit("first")
    for content in (b"second", b"third"):
        world.age(days=3)
        world.commit("a", content)
    world.age(days=3)
    context = world.marked()
    assert old in candidates(context)
    catalog.branches.create_branch(name, "revived", commit.id)
    world.run(context)
    assert old in world.data()
    world.assert_readable("revived")


def test_the_head_that_a_branch_had_while_staging_was_read_is_active_although_the_branch_is_gone() -> None:
    world = make_world(rules=1)
    world.commit("a", b"1")
    catalog, name = world.lake.catalog, world.lake.repository
    catalog.branches.create_branch(name, "side", "main")
    address = world.commit("b", b"2", "side")
    world.age(days=9)
    run = world.plan()
    slice_listing(run, world.runner)
    mark_uncommitted(run, world.runner)
    catalog.branches.delete_branch(name, "side")
    list_committed(run, world.runner)
    subtract(run, world.runner)
    assert address not in candidates(run)


def test_trap_25_a_head_that_moves_while_deleting_stops_the_sweep_until_it_is_checked() -> None:
    world = make_world(
        safety={"heads_every_seconds": 0.01, "gate_every_seconds": 0}, tuning={"delete_keys": 1}
    )
    world.rules(1)
    catalog, name = world.lake.catalog, world.lake.repository
    old = {f"{number:02d}": world.upload(f"{number:02d}", b"first %d" % number) for number in range(30)}
    commit = world.lake.commit("first")
    for content in (b"second and longer", b"third"):
        world.age(days=3)
        for path in old:
            world.upload(path, content + path.encode())
        world.lake.commit()
    world.age(days=3)
    context = world.plan()

    def revive(request: int, _keys: object) -> None:
        if request == 5:
            catalog.branches.create_branch(name, "revived", commit.id)
            look()

    world.mark(context)
    with driver_looks() as look, deleting(before=revive):
        bulk_delete(context, LocalRunner())
    ledger = context.folder.read_summary("bulk_delete")
    assert ledger is not None
    assert len(ledger.details["rechecks"]) == 2
    # What had gone before the branch was made cannot come back; what was left of it stays.
    lost = [address for address in world.served("revived").values() if address not in world.data()]
    assert len(lost) <= 6
    assert ledger.counts["kept_objects"] == len(old) - len(lost)
    assert ledger.counts["deleted_objects"] == len(old) + len(lost)


def test_trap_27_a_refs_dump_in_the_namespace_is_no_range_of_objects() -> None:
    world, kept, _ = committed_world()
    dumps = list((FOLDER.parent / "tables" / "refs_dump").glob("*.sst"))
    assert dumps
    for number, path in enumerate(dumps):
        world.lake.objects.put(f"_lakefs/{number:064x}", path.read_bytes())
    world.collect()
    assert world.data() == {kept}


def test_trap_28_files_that_are_no_tables_are_told_apart_by_content() -> None:
    world, kept, _ = committed_world()
    world.lake.objects.put("_lakefs/dummy", b"a claim on the namespace, longer than a footer " * 4)
    world.lake.objects.put("_lakefs/refs_manifest.json", b"{}")
    world.lake.objects.put("_lakefs/exported/main/x/part", b"exported")
    world.collect()
    assert world.data() == {kept}
