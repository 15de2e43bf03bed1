"""Whatever comes from the index, from range files or from both, every address that a range names is counted once."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import RefusedError
from dredge.gc.index.ranges import Ranges, read_metaranges
from dredge.gc.index.store import CommittedIndex
from dredge.gc.list_committed import SIZES, Roles, collect_ranges
from dredge.gc.list_committed.collect import Collected
from dredge.gc.list_committed.tables import EXPIRED, LIVE
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import LocalRunner
from dredge.sets.hashes import read_counted, read_hashes, write_hashes
from dredge.storage import open_deleter
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeStore
from lakefs_embedded.committed.writing import MetaRangeWriter
from tests.support.gc import Parallel, World, make_world, summary_of

NAMED = {
    "one": {"data/a": 1, "data/shared": 9},
    "two": {"data/b": 2, "data/shared": 9},
    "three": {"data/c": 3, "data/shared": 9},
    "four": {"data/d": 4},
}
"""Addresses that ranges name, with their sizes."""


def hashes(*addresses: str) -> set[int]:
    return set(hash64(pa.array(addresses, pa.string())).tolist())


class Lake:
    def __init__(self, **settings: Any) -> None:
        self.world: World = make_world(**settings)
        self.ids: dict[str, str] = {}
        metaranges = {}
        for name, entries in NAMED.items():
            writer = MetaRangeWriter(RangeStore(self.world.lake.objects))
            for address, size in entries.items():
                writer.add(f"{name}/{address}".encode(), Entry(address=address, size=size, etag="e").value())
            made = writer.finish()
            (self.ids[name],) = (info.id for info in made.ranges)
            metaranges[name] = made.id
        self.run = self.world.plan()
        self._read = read_metaranges(self.run, LocalRunner(), "read", metaranges.values())
        self._metaranges = metaranges
        self.calls = 10
        self.runner: LocalRunner = Parallel()

    def of(self, *names: str, heads: Sequence[str] = ()) -> Ranges:
        ids = [self._metaranges[name] for name in names]
        return self._read.select(ids, [self._metaranges[name] for name in heads])

    def collect(self, roles: Roles, staged: Sequence[PartInfo] = (), **more: Any) -> Collected:
        self.calls -= 1  # as with the names of runs, what is newer sorts first
        return collect_ranges(self.run, self.runner, f"step{self.calls}", roles, staged, **more)

    def staged(self, *addresses: str) -> PartInfo:
        found = hash64(pa.array(sorted(addresses), pa.string()))
        found.sort()
        return write_hashes(self.run.folder, "staged.u64", found)

    def set_of(self, found: Collected, kind: str) -> set[int]:
        return {
            value
            for part in found.sets.get(kind, ())
            for value in read_hashes(self.run.folder, part).tolist()
        }

    def counts_of(self, found: Collected, folder: RunFolder | None = None) -> dict[int, int]:
        where = folder or RunFolder(self.run.state, self.run.plan.run_id)
        counts: dict[int, int] = {}
        for part in found.counted:
            read = read_counted(where, part)
            counts |= dict(zip(read.hashes.tolist(), read.counts.tolist(), strict=True))
        return counts

    def lose(self, name: str) -> None:
        open_deleter(self.world.lake.namespace).delete([f"_lakefs/{self.ids[name]}"])


def counted(**addresses: int) -> dict[int, int]:
    return {next(iter(hashes(f"data/{name}"))): count for name, count in addresses.items()}


@pytest.mark.parametrize("shard_values", [1, 2, 1 << 20])
def test_active_ranges_are_live_however_the_set_is_cut_and_wherever_they_are_read(shard_values: int) -> None:
    lake = Lake(tuning={"shard_values": shard_values})
    roles = Roles(lake.of("one", "two", heads=["two"]))
    staged = lake.staged("data/staged", "data/a")
    live = hashes("data/a", "data/b", "data/shared", "data/staged")
    for decoded, known in ((2, 0), (0, 2)):
        found = lake.collect(roles, [staged], keep_counts=True)
        assert found.bits == {1: 2, 2: 1}.get(shard_values, 0)
        assert lake.set_of(found, LIVE) == live
        assert lake.set_of(found, SIZES) == {2, 9}
        assert lake.counts_of(found) == counted(a=1, b=1, shared=2)
        assert (found.counts["ranges_decoded"], found.counts["index_parts_read"] > 0) == (decoded, known > 0)
        assert (found.counts["ranges"], found.counts["range_rows"], found.counts["live_addresses"]) == (
            2,
            4,
            4,
        )
        assert found.counts["index_parts_rebuilt"] == 0
        assert {part.name for part in found.parts} == {
            part.name for parts in found.sets.values() for part in parts
        }
        for parts in (found.parts, found.counted):
            assert [part.name for part in parts] == sorted(part.name for part in parts), "as with one task"


def test_a_part_of_the_index_that_is_damaged_is_made_again_from_the_ranges() -> None:
    lake = Lake()
    lake.collect(Roles(lake.of("one", "two")))
    index = CommittedIndex.load(lake.run.state, lake.run.plan.namespace)
    for part in index.parts.values():
        lake.run.state.put(part.addresses.name, b"x" * part.addresses.size_bytes)
    found = lake.collect(Roles(lake.of("one", "two"), expired=lake.of("three")))
    assert lake.set_of(found, LIVE) == hashes("data/a", "data/b", "data/shared")
    assert found.counts["index_parts_rebuilt"] == len(index.parts) > 0
    assert found.counts["ranges_decoded"] == 3
    again = lake.collect(Roles(lake.of("one"), expired=lake.of("two", "three")))
    assert again.counts["index_parts_rebuilt"] == again.counts["ranges_decoded"] == 0
    assert lake.set_of(again, EXPIRED) == hashes("data/b", "data/c", "data/shared")


def test_an_active_range_that_is_missing_stops_the_run() -> None:
    lake = Lake()
    lake.lose("two")
    with pytest.raises(RefusedError):
        lake.collect(Roles(lake.of("one", "two")))
    lake = Lake()
    lake.collect(Roles(lake.of("two")))
    lake.lose("two")
    assert lake.set_of(lake.collect(Roles(lake.of("two"))), LIVE) == hashes("data/b", "data/shared"), (
        "it is known"
    )


def test_a_number_of_records_that_the_index_does_not_have_is_decoded_again() -> None:
    lake = Lake()
    lake.collect(Roles(lake.of("four")))
    odd = {item: replace(facts, count=7) for item, facts in lake.of("four").items()}
    with pytest.raises(Exception, match=lake.ids["four"]):
        lake.collect(Roles(odd))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_difference_adds_what_is_new_and_takes_away_what_is_dropped(is_known: bool) -> None:
    lake = Lake()
    if is_known:
        lake.collect(Roles(lake.of("one", "two", "three", "four")))
    roles = Roles.since(lake.of("one", "two", "four"), lake.of("one", "three", "four", heads=["four"]))
    roles.dropped_expired = {lake.ids["two"]}
    found = lake.collect(roles, [lake.staged("data/staged")], counted_bits=1, keep_counts=True)
    assert found.bits == 1
    assert lake.counts_of(found) == counted(b=-1, c=1)
    assert lake.set_of(found, LIVE) == hashes("data/staged"), "the rest is the earlier run's counts and these"
    assert lake.set_of(found, SIZES) == {4}
    assert lake.set_of(found, EXPIRED) == hashes("data/b", "data/shared")
    assert found.undropped == set()
    assert found.counts["ranges"] == 3


def test_a_dropped_range_that_cannot_be_read_is_not_taken_away() -> None:
    lake = Lake()
    lake.collect(Roles(lake.of("two", "four")))
    lake.lose("two")
    roles = Roles.since(lake.of("two", "four"), {})
    found = lake.collect(roles, counted_bits=0, keep_counts=True)
    assert found.undropped == {lake.ids["two"]}
    assert lake.counts_of(found) == counted(d=-1)


def candidates(run: Run) -> set[str]:
    parts = SubtractOutput.of(summary_of(run, "subtract")).candidates
    return {key for part in parts for key in run.folder.read_part(part)["address"].to_pylist()}
