"""What the entries of a range mean as keys of the namespace."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.index.ranges import (
    RangeFacts,
    Ranges,
    decode,
    decode_entries,
    find_range_files,
    read_files,
    read_leniently,
    unite_ranges,
)
from dredge.gc.namespaces import Keys
from dredge.gc.run import Run
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import RangeInfo
from dredge.lakefs.files.sstable import RANGES
from dredge.lakefs.files.sstable.layout import FOOTER_SIZE, MAGIC
from dredge.storage import open_reader
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.tables import WrittenTable, put_range, put_value, write_table
from lakefs_embedded.committed.writing import write_metarange
from tests.support.gc import World, make_world, stage_entry
from tests.support.memory_store import forget_memory_store, memory_store


def stage_full(world: World, uri: str, path: str) -> None:
    world.lake.catalog.objects.stage_object(
        world.lake.repository, "main", path, physical_address=uri, checksum="c", size_bytes=1
    )


def test_trap_12_a_full_address_inside_the_namespace_is_the_same_as_a_relative_one() -> None:
    world = make_world()
    # Outside data/ of the namespace as staging words it, so that the server stores the whole URI.
    scheme_twin = world.lake.namespace.replace("memory://", "mem://")
    committed, staged = world.orphan("data/slice/full-1"), world.orphan("data/slice/full-2")
    stage_entry(world, "committed", Entry(f"{scheme_twin}/{committed}", AddressType.FULL, 1, "c"))
    world.lake.commit()
    stage_entry(world, "staged", Entry(f"{world.lake.namespace}/{staged}", AddressType.FULL, 1, "c"))
    orphan = world.orphan("data/slice/orphan")
    world.collect_after(days=2)
    assert {committed, staged} <= world.data()
    assert orphan not in world.data()


@pytest.mark.parametrize("inside", [True, False])
def test_trap_12_type_0_addresses_of_old_repositories_are_live(inside: bool) -> None:
    world = make_world()
    key = world.orphan("data/slice/old")
    address = f"{world.lake.namespace}/{key}" if inside else key
    stage_entry(world, "old", Entry(address, AddressType.BY_PREFIX_DEPRECATED, 6, "c"))
    world.lake.commit()
    orphan = world.orphan("data/slice/orphan")
    world.collect_after(days=2)
    assert world.data() == {key}
    assert orphan not in world.data()


def test_trap_12_a_sibling_namespace_with_the_same_beginning_is_another_place() -> None:
    world = make_world()
    twin = world.orphan("data/slice/x")
    stage_full(world, f"{world.lake.namespace}2/data/slice/x", "elsewhere")
    world.lake.commit()
    world.collect_after(days=2)
    assert twin not in world.data()


def test_trap_13_signed_addresses_keep_their_comma() -> None:
    world = make_world()
    catalog, name = world.lake.catalog, world.lake.repository
    full = catalog.addresses.get_physical_address(name, "main", "linked")
    key = world.orphan(full.removeprefix(world.lake.namespace + "/"))
    assert "," in key
    catalog.addresses.link_physical_address(
        name, "main", "linked", physical_address=full, checksum="c", size_bytes=6
    )
    bare = world.orphan(key.partition(",")[0])
    world.collect_after(days=2)
    assert world.data() == {key}
    assert bare not in world.data()
    world.lake.commit()
    world.collect_after(hours=1)
    assert world.data() == {key}


ODD_NAMES = [
    "a//b",
    "a/../b",
    "a/./b",
    "pct%20x",
    "pct%2Fx",
    "plus+x",
    "quote'\"x",
    "amp&<>x",
    "back\\slash",
    "hash#x",
    "question?x",
    "comma,x",
    "trailing/",
    " space ",
    unicodedata.normalize("NFD", "nfd-é"),
    unicodedata.normalize("NFC", "nfd-é"),
    "emoji-🪣",
    "UPPER",
    "upper",
    "new\nline",
    "control\x01x",
    "%zz",
]


def test_trap_38_44_odd_names_are_told_apart_and_deleted_by_exactly_their_name() -> None:
    for live in (0, 1):
        world = make_world()
        kept, gone = set(), set()
        for number, name in enumerate(ODD_NAMES):
            key = world.orphan(f"data/slice/{name}")
            if number % 2 == live:
                stage_entry(world, f"path{number}", Entry(key, AddressType.RELATIVE, 6, "c"))
                kept.add(key)
            else:
                gone.add(key)
        if live:
            world.lake.commit()
        world.collect_after(days=2)
        assert world.data() == kept
        assert gone.isdisjoint(world.data())


NAMESPACE = "s3://bucket/lake"
RELATIVE = Entry("data/a", AddressType.RELATIVE, 3, "c")
INSIDE = Entry(f"{NAMESPACE}/data/b", AddressType.FULL, 3, "c")
OUTSIDE = Entry("s3://other/data/c", AddressType.FULL, 4, "c")


def written(*entries: Entry) -> WrittenTable:
    return write_table((b"p%d" % at, put_value(entry.value())) for at, entry in enumerate(entries))


@pytest.mark.parametrize("promised", [RangeFacts(3, b"", b"p1"), RangeFacts(2, b"", b"p2")])
def test_a_range_that_is_not_what_its_metarange_promised_stops_the_run(promised: RangeFacts) -> None:
    files = [("_lakefs/x", written(RELATIVE, INSIDE).data)]
    assert len(list(decode(files, {"x": RangeFacts(2, b"", b"p1")}, Keys(namespace=NAMESPACE)))) == 1
    with pytest.raises(FormatError):
        list(decode(files, {"x": promised}, Keys(namespace=NAMESPACE)))


def test_paths_and_sizes_come_in_the_order_of_the_keys_and_all_that_were_promised() -> None:
    files = [("_lakefs/x", written(RELATIVE, OUTSIDE).data)]
    ((_, found),) = decode_entries(files, {"x": 2})
    assert found.paths.to_pylist() == [b"p0", b"p1"]
    assert np.array_equal(found.sizes, [3, 4])
    with pytest.raises(FormatError, match=r"\bx\b"):
        list(decode_entries(files, {"x": 3}))


def info(letter: str, count: int = 1) -> RangeInfo:
    key = letter.encode()
    return RangeInfo(letter * 64, key, key + b"z", 100, count)


def put(world: World, data: bytes, name: str) -> str:
    world.lake.objects.put(f"_lakefs/{name}", data)
    return name


def metarange_of(world: World, ranges: Iterable[RangeInfo]) -> str:
    made = write_metarange([*ranges])
    return put(world, made.data, made.id)


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def run(world: World) -> Run:
    return world.plan()


@pytest.fixture
def ids(world: World) -> dict[str, str]:
    return {name: metarange_of(world, map(info, name)) for name in ("ab", "bc", "cd", "de", "a", "b", "e")}


def test_a_metarange_that_is_missing_stops_the_run(run: Run, ids: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="f" * 64):
        read_files(run.reader, [ids["ab"], "f" * 64])


def test_metaranges_of_which_some_cannot_be_read_are_read_one_by_one(run: Run, ids: dict[str, str]) -> None:
    missing = "f" * 64
    found, errors = read_leniently(run.reader, [ids["ab"], missing])
    assert (found.named.keys(), errors.keys()) == ({ids["ab"]}, {missing})


def test_a_file_that_is_another_metarange_or_none_stops_the_run(world: World, run: Run) -> None:
    other = put(world, write_metarange([info("a")]).data, "f" * 64)
    made = write_table([(b"az", put_range(info("a")))])
    for name in (other, put(world, made.data, made.id)):
        with pytest.raises(FormatError):
            read_files(run.reader, [name])


FACTS = RangeFacts(3, b"a", b"c")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("other", [RangeFacts(4, b"a", b"c"), RangeFacts(3, b"a", b"d")])
def test_metaranges_that_disagree_about_a_range_stop_the_run(other: RangeFacts) -> None:
    with pytest.raises(FormatError, match="range r"):
        unite_ranges({"r": FACTS}, [("r", other)])


@dataclass
class Files:
    bucket: str = "range-files"

    def put(self, data: bytes, name: str = "", hours_ago: float = 0) -> None:
        memory_store(self.bucket).write(f"lake/_lakefs/{name}", data, NOW - timedelta(hours=hours_ago))

    def find(self, read_before: tuple[str, ...] = ()) -> tuple[Ranges, set[str]]:
        ranges, names = find_range_files(open_reader(f"memory://{self.bucket}/lake"), read_before)
        assert len(names) == len(set(names))
        return ranges, set(names)


@pytest.fixture
def files() -> Iterator[Files]:
    yield Files()
    forget_memory_store("range-files")


def table(*keys: bytes, kind: str = RANGES, entity: str = "") -> bytes:
    return write_table([(key, b"") for key in keys], kind, {"entity": entity} if entity else None).data


A, B, C, D = (letter * 64 for letter in "abcd")


@pytest.mark.parametrize(
    ("name", "data"),
    [(A, b"no table"), (A, b""), ("renamed", b"x" * (FOOTER_SIZE - len(MAGIC)) + MAGIC)],
    ids=["name of a table", "empty", "end of a table"],
)
def test_what_should_be_a_table_and_is_none_stops_the_run(files: Files, name: str, data: bytes) -> None:
    files.put(data, name)
    with pytest.raises(FormatError):
        files.find()
