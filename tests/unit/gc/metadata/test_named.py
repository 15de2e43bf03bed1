"""What commits, imports and young metaranges name is found whole, and every other file is told for what it is."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.mark_uncommitted import RepositoryRecords
from dredge.gc.metadata.files import NamesReader, find_named, read_history, read_work, sort_files
from dredge.lakefs.files import messages
from dredge.storage import ObjectWriter, open_writer
from tests.support.gc import make_world
from tests.support.memory_store import forget_memory_store
from tests.unit.gc.metadata.test_report import Records, is_metarange, left_behind

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def lake() -> Iterator[ObjectWriter]:
    name = f"named-{uuid.uuid4().hex[:8]}"
    yield open_writer(f"memory://{name}")
    forget_memory_store(name)


def table(lake: ObjectWriter, path: str) -> tuple[str, str]:
    metarange, only = sorted(left_behind(lake, path), key=lambda name: not is_metarange(lake, name))
    return metarange, only


def reader_of(lake: ObjectWriter) -> NamesReader:
    nobody: Any = None
    return NamesReader(nobody, "lake", "", nobody, lake)


MISSING = "f" * 64


def test_a_metarange_that_is_not_there_is_missing_and_looked_for_again(lake: ObjectWriter) -> None:
    one, names = table(lake, "one"), reader_of(lake)
    assert names.closure([MISSING, one[0]]) == ({*one, MISSING}, [MISSING])
    assert names.closure([MISSING]) == ({MISSING}, [MISSING])
    later = table(lake, "later")
    content = lake.get(f"_lakefs/{later[0]}")
    lake.put(f"_lakefs/{MISSING}", content)
    with pytest.raises(FormatError):
        names.closure([MISSING])  # another one's content under that name


def test_young_metaranges_name_ranges_and_other_files_nothing(lake: ObjectWriter) -> None:
    one, other = table(lake, "one"), table(lake, "other")
    lake.put("_lakefs/dummy", b"x")
    names = reader_of(lake)
    assert names.read_tables([one[1], one[0], "dummy"]) == {one[1]}
    assert names.read_tables([one[1], one[0], other[0]]) == {one[1], other[1]}
    assert names.read_tables([]) == set()


def test_files_of_commits_that_matter_are_not_among_those_of_others(lake: ObjectWriter) -> None:
    one, other = table(lake, "one"), table(lake, "other")
    found = find_named(lake, [one[0], "", MISSING], [other[0], one[0], "e" * 64])
    assert found == ({*one, MISSING}, {*other, "e" * 64}, ["e" * 64, MISSING])
    assert find_named(lake, [MISSING], [MISSING])[2] == [MISSING], "told of once"
    lake.put(f"_lakefs/{other[0]}", lake.get(f"_lakefs/{one[0]}"))
    with pytest.raises(FormatError):
        find_named(lake, [], [other[0]])


def test_all_garbage_is_noted_and_a_few_names_are_shown(lake: ObjectWriter) -> None:
    tables = [table(lake, f"{number:02d}") for number in range(12)]
    files = [replace(info, last_modified=NOW) for info in lake.list_level("_lakefs/").objects]
    found = sort_files(lake, files, NOW + timedelta(days=1), set())
    assert {name for names in found.garbage.values() for name in names} == {
        name for pair in tables for name in pair
    }
    assert {len(names) for names in found.examples.values()} == {10}


class Work:
    def __init__(self, imports: dict[str, Any], tasks: dict[str, Any]) -> None:
        self.found = {
            b"imports/": [(name.encode(), messages.encode(item)) for name, item in imports.items()],
            b"tasks/": [(name.encode(), messages.encode(item)) for name, item in tasks.items()],
        }

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return self.found[prefix]


def task(done: bool = False, operation: str = "restore_refs") -> Any:
    return messages.RepositoryRestoreStatus(task=messages.Task(id="t", operation=operation, done=done))


def test_imports_and_tasks_are_at_work_until_they_are_done_or_have_failed() -> None:
    status = messages.ImportStatusData
    work = Work(
        {
            "1": status(id="running"),
            "2": status(id="done", completed=True, metarange_id="m-done"),
            "3": status(id="failed", error="x", metarange_id="m-failed"),
            "4": status(id="both", completed=True, error="x"),
            "5": status(id="committing", metarange_id="m-young"),
        },
        {"DRa": task(), "DRb": task(True), "GCPCc": task(), "GCPCd": task(True), "DRe": task(operation="")},
    )
    named, at_work = read_work(cast("RepositoryRecords", work))
    assert named == {"m-done", "m-failed", "m-young"}
    assert at_work == ["import running", "import committing", "restore_refs t", "task t"]
    assert read_work(cast("RepositoryRecords", Work({}, {}))) == (set(), [])


def test_commits_that_a_ref_leads_to_are_kept_however_old_and_tags_lead_to_some() -> None:
    world = make_world(rules=1)
    for number in range(3):
        world.commit("a", b"%d" % number)
        world.age(days=9)
    catalog = world.lake.catalog
    catalog.branches.create_branch("lake", "side", "main")
    world.upload("b", b"tagged", "side")
    tagged = world.lake.commit("tagged", "side").id
    catalog.tags.create_tag("lake", "v1", tagged)
    catalog.branches.delete_branch("lake", "side")
    world.age(days=9)
    every = {item.id for item in catalog.refs.commits.all(catalog.refs.repositories.get("lake"))}
    assert tagged in every
    for access in (None, Records(world.lake.kv)):
        found = read_history(world.client, "lake", world.lake.namespace, world.lake.clock(), access)
        assert found.kept.keys() == every
        assert (found.unreachable, found.complete) == ({}, access is not None)
