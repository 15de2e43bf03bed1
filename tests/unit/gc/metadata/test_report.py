"""What lies in `_lakefs/` and which commits name it: on a lake in memory, on random histories, and on files that a real
server wrote."""

import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dredge.errors import FormatError, RefusedError
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.metadata.files import MetadataReport, find_named, report_lines, report_metadata, sort_files
from dredge.lakefs import LakeFSClient
from dredge.lakefs.files import messages
from dredge.storage import ObjectReader, ObjectWriter
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeReader, RangeStore
from lakefs_embedded.committed.writing import MetaRangeWriter
from tests.support.captured import FOLDER, captured_lake, truth
from tests.support.depth import depth
from tests.support.gc import World, make_world
from tests.support.histories import History, operation
from tests.support.lakefs_tables import fixtures
from tests.support.memory_rows import MemoryRows

MIN_AGE = timedelta(hours=25)


class Records(KVAccess):
    def __init__(self, kv: Any) -> None:
        super().__init__("memory://")
        object.__setattr__(self, "kv", kv)

    def open(self) -> Any:
        rows: Any = MemoryRows(self.kv)  # type: ignore[attr-defined]
        return contextlib.nullcontext(rows)


def look(world: World, records: bool = True) -> MetadataReport:
    client: LakeFSClient = world.client
    access = Records(world.lake.kv) if records else None
    return report_metadata(client, world.lake.repository, world.lake.clock(), MIN_AGE, access)


def objects(report: MetadataReport) -> dict[str, int]:
    return {kind: amount.objects for kind, amount in report.files.amounts.items() if amount.objects}


def left_behind(objects: ObjectWriter, path: str = "left/behind") -> set[str]:
    writer = MetaRangeWriter(RangeStore(objects))
    writer.add(path.encode(), Entry(address=f"data/{path}", size=1, etag="e").value())
    made = writer.finish()
    return {made.id, *(info.id for info in made.ranges)}


def committed() -> World:
    world = make_world()
    world.commit("a", b"1")
    world.age(days=2)
    return world


def test_nothing_is_called_garbage_that_another_repository_on_the_namespace_may_name() -> None:
    world = committed()
    world.lake.catalog.repositories.create_repository("restored", world.lake.namespace, bare=True)
    with pytest.raises(RefusedError, match="restored"):
        look(world)


def test_young_files_are_nobodys_garbage() -> None:
    world = committed()
    left_behind(world.lake.objects)
    world.age(hours=24)
    assert objects(look(world)) == {"kept": 2, "young": 2, "other": 1}
    world.age(hours=2)
    assert objects(look(world))["garbage_ranges"] == 1


def test_what_is_committed_while_we_look_is_not_garbage() -> None:
    world = committed()
    world.upload("b", b"2")
    world.age(days=3)
    with world.during("branches", lambda: world.lake.commit("meanwhile")):
        found = look(world)
    assert "garbage_ranges" not in objects(found)
    assert found.missing == []
    world.age(days=3)
    assert objects(look(world))["kept"] == 4


def dangling() -> World:
    world = committed()
    world.rules(30)
    world.lake.catalog.branches.create_branch("lake", "side", "main")
    world.commit("side", b"s", "side")
    world.lake.catalog.branches.delete_branch("lake", "side")
    return world


def test_a_commit_that_nothing_leads_to_keeps_its_files_and_is_told_of_once_no_rule_keeps_it() -> None:
    world = dangling()
    world.age(days=20)
    found = look(world)
    assert found.history.unreachable == {}
    assert "garbage_ranges" not in objects(found)
    world.age(days=20)
    found = look(world)
    assert len(found.history.unreachable) == 1
    assert objects(found)["unreachable"] >= 2
    assert "garbage_ranges" not in objects(found)
    assert "1 commits" in "\n".join(report_lines(found))


def test_without_the_records_dangling_commits_are_not_known_and_it_is_said() -> None:
    world = dangling()
    world.age(days=2)
    found = look(world, records=False)
    assert objects(found)["garbage_metaranges"] == 1
    assert not found.history.complete
    assert "DREDGE_KV_URL" in "\n".join(report_lines(found))


def test_without_rules_every_commit_is_kept() -> None:
    world = dangling()
    world.lake.catalog.garbage.delete_gc_rules("lake")
    world.age(days=300)
    assert look(world).history.unreachable == {}


def test_refs_dumps_are_no_garbage() -> None:
    world = committed()
    for item in fixtures():
        if item.dump:
            world.lake.objects.put(f"_lakefs/{item.id}", item.path.read_bytes())
    world.age(days=2)
    found = objects(look(world))
    assert found["dumps"] >= 3
    assert "garbage_ranges" not in found


def test_an_import_that_has_not_ended_is_told_of_and_what_imports_made_is_kept() -> None:
    world = committed()
    left_behind(world.lake.objects)
    partition = world.lake.catalog.refs.repositories.get("lake").partition
    names = left_behind(world.lake.objects, "imported")
    imported = next(name for name in names if is_metarange(world.lake.objects, name))
    status = messages.ImportStatusData(id="an-import", metarange_id=imported)
    world.lake.kv.set(partition, b"imports/an-import", messages.encode(status))
    task = messages.Task(id="DRx", operation="dump_refs")
    world.lake.kv.set(partition, b"tasks/DRx", messages.encode(messages.RepositoryDumpStatus(task=task)))
    prepare = messages.Task(id="GCPCx", operation="prepare")
    world.lake.kv.set(
        partition, b"tasks/GCPCx", messages.encode(messages.GarbageCollectionPrepareStatus(task=prepare))
    )
    world.age(days=2)
    found = look(world)
    assert found.history.at_work == ["import an-import", "dump_refs DRx"]
    assert objects(found)["kept"] == 4
    assert objects(found)["garbage_metaranges"] == 1


def is_metarange(reader: ObjectReader, name: str) -> bool:
    try:
        RangeReader(reader).get_metarange(name)
    except FormatError:
        return False
    return True


@settings(
    max_examples=depth(15, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(history=st.lists(operation, min_size=10, max_size=35), days=st.sampled_from([None, 1, 30]))
def test_on_random_histories_no_file_that_any_commit_names_is_garbage_and_what_was_left_is(
    history: list[tuple[object, ...]], days: int | None
) -> None:
    world = make_world()
    if days is not None:
        world.rules(days)
    made = History(world)
    for name, *arguments in history:
        made.do(str(name), *arguments)
    left = left_behind(world.lake.objects)
    world.age(days=2)
    reader, catalog = RangeReader(world.lake.objects), world.lake.catalog
    named = set()
    for commit in catalog.refs.commits.all(catalog.refs.repositories.get("lake")):
        named |= {
            commit.metarange_id,
            *(info.id for info in reader.get_metarange(commit.metarange_id).ranges),
        }
    found = look(world)
    garbage = {*found.files.examples["garbage_ranges"], *found.files.examples["garbage_metaranges"]}
    assert garbage.isdisjoint(named)
    assert garbage >= left - named
    counted = objects(found)
    files = world.lake.objects.list_level("_lakefs/").objects
    assert sum(counted.values()) == len(files)
    assert counted.get("kept", 0) + counted.get("unreachable", 0) == len(named - {""})


def test_on_a_real_servers_files_only_what_no_commit_of_its_names_is_garbage() -> None:
    lake = captured_lake()
    tables = {table["id"]: table for table in json.loads((FOLDER / "tables.json").read_text())}
    commits = truth()["commits"]
    forgotten = commits[0]["id"]  # as if its record had never been written

    def named_by(found: list[Any]) -> set[str]:
        metaranges = [
            tables[commit["meta_range_id"]] for commit in found if commit["meta_range_id"] in tables
        ]
        return {
            name
            for table in metaranges
            for name in (table["id"], *(row["range_id"] for row in table["records"]))
        }

    later = lake.clock() + timedelta(days=2)
    for left_out, garbage in (
        (set(), set()),
        ({forgotten}, named_by(commits) - named_by([item for item in commits if item["id"] != forgotten])),
    ):
        assert bool(garbage) == bool(left_out)
        records = lake.catalog.refs.commits.all(lake.catalog.refs.repositories.get(lake.repository))
        kept = {commit.metarange_id for commit in records if commit.id not in left_out}
        files = lake.objects.list_level("_lakefs/").objects
        found = sort_files(lake.objects, files, later, *find_named(lake.objects, kept, [])[:2])
        counts = {kind: amount.objects for kind, amount in found.amounts.items() if amount.objects}
        assert {*found.examples["garbage_ranges"], *found.examples["garbage_metaranges"]} == garbage
        assert counts["kept"] == len(tables) - len(garbage)
        assert counts.keys() <= {"kept", "other", "garbage_ranges", "garbage_metaranges"}
