"""Only an inventory that is whole, recent and of the right bucket is read."""

from datetime import timedelta
from typing import Any

import pytest

from dredge.errors import DredgeError, FormatError, RefusedError
from dredge.inventory.manifest import Contents, find_inventory
from tests.support.gc import World, make_world
from tests.support.inventories import Inventory, table_of

AGE_MAX = timedelta(days=14)


def world_with_objects() -> World:
    world = make_world()
    world.upload("a", b"1")
    world.age(days=3)
    return world


def found(world: World, uri: str) -> Contents:
    return find_inventory(uri, world.lake.namespace, world.lake.clock(), AGE_MAX)


def test_a_whole_inventory_is_found_by_its_manifest_and_by_its_folder() -> None:
    world = world_with_objects()
    old = Inventory(world, place="2026-01-03T01-00Z").write()
    new = Inventory(world).write()
    folder = new.rpartition("/2026")[0]
    assert found(world, new).source.uri == new
    assert found(world, folder).source == found(world, f"{folder}/").source == found(world, new).source
    assert found(world, old).source != found(world, new).source
    assert found(world, new).source.created_at == world.lake.clock()
    assert [file.uri for file in found(world, new).files] == [
        f"{folder}/data/0.csv.gz",
        f"{folder}/data/1.csv.gz",
    ]


def test_the_newest_one_is_not_taken_while_it_is_being_written() -> None:
    world = world_with_objects()
    whole = Inventory(world).write()
    inventory = Inventory(world, place="2026-01-05T01-00Z")
    inventory.writer.put("2026-01-05T01-00Z/manifest.json", b"{}")
    assert found(world, inventory.folder).source.uri == whole
    with pytest.raises(RefusedError):
        found(world, f"{inventory.folder}/2026-01-05T01-00Z/manifest.json")


def test_a_manifest_that_was_changed_is_not_believed() -> None:
    world = world_with_objects()
    inventory = Inventory(world)
    uri = inventory.write()
    data = inventory.writer.get(f"{inventory.place}/manifest.json")
    inventory.writer.put(f"{inventory.place}/manifest.json", data.replace(b"data/1", b"data/0"))
    with pytest.raises(FormatError):
        found(world, uri)


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        ({"sourceBucket": "another"}, RefusedError),
        ({"sourceBucket": "arn:aws:s3:::another"}, RefusedError),
        ({"creationTimestamp": "4102444800000"}, RefusedError),
        ({"creationTimestamp": "1577836800000"}, RefusedError),
        ({"creationTimestamp": "soon"}, FormatError),
        ({"version": "2099-01-01"}, FormatError),
        ({"fileFormat": "AVRO"}, FormatError),
        ({"files": []}, RefusedError),
        ({"files": [{"key": "a", "size": 1}]}, FormatError),
        ({"files": [{"key": "a", "size": 1, "MD5checksum": ""}]}, FormatError),
        ({"files": None}, FormatError),
    ],
)
def test_a_stale_foreign_or_broken_inventory_is_refused(
    manifest: dict[str, Any], kind: type[DredgeError]
) -> None:
    world = world_with_objects()
    uri = Inventory(world, manifest=manifest).write()
    with pytest.raises(
        kind,
    ):
        found(world, uri)


def test_tables_of_anybodys_are_found_and_have_no_time() -> None:
    import io

    import pyarrow.parquet as pq

    world = world_with_objects()
    inventory = Inventory(world)
    sink = io.BytesIO()
    pq.write_table(table_of(inventory.rows), sink)
    inventory.writer.put("tables/one.parquet", sink.getvalue())
    one = found(world, f"{inventory.folder}/tables/one.parquet")
    assert (one.source.created_at, one.layout.kind, len(one.files)) == (None, "parquet", 1)
    inventory.writer.put("tables/two.parquet", sink.getvalue())
    both = found(world, f"{inventory.folder}/tables/")
    assert len(both.files) == 2
    inventory.writer.put("tables/two.parquet", sink.getvalue() + b"more")
    assert found(world, f"{inventory.folder}/tables").source.digest != both.source.digest
