"""What earlier runs and inventories knew of is searched for what nothing names, each source to its end."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing
from dredge.gc.subtract.earlier_runs import SearchConfig, SearchResult, _search
from dredge.hashing import hash64
from dredge.runs.payload import PartInfo
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet
from tests.support.gc import Parallel, make_world, summary_of
from tests.support.inventories import Inventory


class Search:
    """A run's search among what somebody named, what it found, and the step's warnings."""

    def __init__(self, *live: str) -> None:
        self.world = make_world()
        self.world.runner = Parallel()
        self.run = self.world.plan()
        self.folder = self.run.folder
        hashes = np.unique(hash64(pa.array(live, pa.string())))
        part = write_hashes(self.folder, "test/live.u64", hashes)
        self.live = LiveSet((LocatedSet(self.folder.uri, ShardedSet(0, {0: part})),))
        self.warnings: list[str] = []

    def rows(self, *addresses: str) -> PartInfo:
        """Write a file of rows; each object is as long as its address."""
        table = pa.table(
            {"address": pa.array(addresses, pa.string()), "size": [len(name) for name in addresses]}
        )
        self.files = getattr(self, "files", 0) + 1
        return self.folder.write_table("test", self.files, table, "rows")

    def search(
        self, rows: Iterable[PartInfo] = (), ranges: Iterable[str] = (), sized: bool = False
    ) -> list[SearchResult]:
        config = SearchConfig(name="test", run_uri=self.folder.uri, live=self.live, sized=sized)
        record: Any = SimpleNamespace(warn=self.warnings.append)
        return _search(self.run, self.world.runner, record, config, [*rows, *ranges])

    def found(self, results: Iterable[SearchResult]) -> list[str]:
        tables = self.folder.read_parts([part for result in results for part in result.parts])
        return [address for table in tables for address in table["address"].to_pylist()]


def test_of_rows_of_earlier_runs_those_that_nothing_names_are_found() -> None:
    search = Search("data/live", "data/b/live")
    parts = [
        search.rows("data/dead", "data/live", "elsewhere/dead"),
        search.rows("data/b/live"),
        search.rows(),
        search.rows("data/b/dead", "data/dead"),
    ]
    results = search.search(parts)
    assert sorted(search.found(results)) == ["data/b/dead", "data/dead", "data/dead"]
    assert sum(len(result.parts) for result in results) == 2, "no file without rows"
    assert [(result.rows, result.size_bytes) for result in results] == [(0, 0)] * len(results)
    for rows in search.folder.read_parts([part for result in results for part in result.parts]):
        assert rows["hash"].to_pylist() == hash64(rows["address"]).tolist()


def test_what_ranges_name_is_found_and_one_that_cannot_be_read_is_told() -> None:
    search = Search()
    world = search.world
    kept, gone = world.upload("a", b"1"), world.upload("b", b"2")
    world.lake.commit()
    hashes = np.unique(hash64(pa.array([kept])))
    part = write_hashes(search.folder, "test/kept.u64", hashes)
    search.live = LiveSet((LocatedSet(search.folder.uri, ShardedSet(0, {0: part})),))
    world.lake.objects.put("_lakefs/damaged", b"no range")
    results = search.search(ranges=[*ranges_of(search), "not-there", "damaged"])
    assert search.found(results) == [gone]
    for name in ("not-there", "damaged"):
        assert sum(f"range {name} cannot be read" in text for text in search.warnings) == 1
    assert len(search.warnings) == 2


def ranges_of(search: Search) -> list[str]:
    for step in (slice_listing, mark_uncommitted, list_committed):
        step(search.run, search.world.runner)
    committed = ListCommittedOutput.of(summary_of(search.run, "list_committed"))
    found: list[str] = search.folder.read_part(committed.ranges)["range_id"].to_pylist()
    return found


def test_what_an_inventory_names_twice_and_an_earlier_run_too_is_one_object() -> None:
    """Nothing of a listing is looked up again, and nothing of an inventory is taken for listed."""
    world = make_world()
    world.commit("a", b"committed")
    staged = world.upload("b", b"staged")
    orphan = world.orphan("data/slice/orphan")
    world.age(days=3)
    world.collect(dry_run=True)
    world.lake.catalog.branches.reset_branch(world.lake.repository, "main", kind="reset")
    uri = Inventory(world).write()
    world.age(hours=1)
    context = world.collected(inventory=uri)
    counts = summary_of(context, "subtract").counts
    assert (counts["listed_objects"], counts["live_objects"], counts["live_bytes"]) == (
        3,
        1,
        len(b"committed"),
    )
    assert (counts["earlier_objects"], counts["candidates_objects"]) == (2, 2)
    assert not {staged, orphan} & world.data()


def test_what_only_a_range_of_an_expired_commit_named_is_found_though_its_slice_is_not_listed_again() -> None:
    world = make_world(rules=1)
    old = world.commit("a", b"old")
    world.collect_after(days=10)
    world.commit("a", b"new")
    world.age(days=3)
    context = world.collected(mode="optimized")
    assert context.plan.mode == "optimized"
    summary = summary_of(context, "subtract")
    counts = summary.counts
    assert (counts["earlier_objects"], counts["candidates_objects"], counts["young_objects"]) == (1, 1, 0)
    assert not [part.name for part in summary.parts if "young" in part.name]
    assert old not in world.data()
