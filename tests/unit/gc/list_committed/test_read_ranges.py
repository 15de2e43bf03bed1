"""What ranges name is put where their roles want it, whatever the memory it may take."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from dredge.gc.index.decoding import RangeHashes
from dredge.gc.list_committed import read_ranges as reading
from dredge.gc.list_committed import roles
from dredge.gc.list_committed.merge_shards import Merge, MergeConfig, MergeTask, merge_shards
from dredge.gc.list_committed.output import COUNTED, COUNTS, EXPIRED, LIVE, SIZES
from dredge.runs.folder import RunFolder
from dredge.runs.partition import Stores, WorkerRun
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Counted, Hashes, read_counted, read_hashes, write_counted, write_hashes
from tests.support.memory_store import forget_memory_store

TOP = 1 << 63
"""Hashes from here on lie in the second of two shards."""


def hashes(*values: int) -> Hashes:
    return np.array(values, np.uint64)


def named(
    name: str, addresses: Sequence[int] = (), sizes: Sequence[int] = (), outside: int = 0
) -> RangeHashes:
    return RangeHashes(name, 1, outside, hashes(*addresses), hashes(*sizes))


@pytest.fixture
def run() -> Iterator[WorkerRun]:
    name = f"ranges-{uuid.uuid4().hex[:8]}"
    root = f"memory://{name}"
    stores = Stores(
        run_uri=f"{root}/run",
        run_id="run",
        attempt=None,
        store_uri=f"{root}/lake",
        state_uri=f"{root}/state",
        progress="progress",
    )
    yield WorkerRun.open(stores, "t")
    forget_memory_store(name)


def written(run: WorkerRun, sorter: reading._Sorter, bits: int = 1) -> dict[tuple[str, int], dict[int, int]]:
    """What each file has: hashes with their counts, which are 1 where there are none."""
    found = {}
    for item in sorter.write(run.folder, "x", bits):
        if item.kind == COUNTS:
            counted = read_counted(run.folder, item.part)
            values = dict(zip(counted.hashes.tolist(), counted.counts.tolist(), strict=True))
        else:
            values = dict.fromkeys(read_hashes(run.folder, item.part).tolist(), 1)
        found[item.kind, item.shard] = values
    return found


def test_what_a_range_names_goes_where_its_role_wants_it(run: WorkerRun) -> None:
    every = [
        roles.HEAD,
        roles.ACTIVE,
        roles.COUNTED_NEW_HEAD,
        roles.COUNTED,
        roles.DROPPED_EXPIRED,
        roles.DROPPED,
        roles.EXPIRED,
    ]
    sorter = reading._Sorter({role: role for role in every})
    sorter.add([named(role, [at, 100], [at + 10, TOP], 2**at) for at, role in enumerate(every)])
    assert sorter.outside == 1 + 2 - 16 - 32, "of ranges that are counted now, less those that no longer are"
    assert sorter.named == 2 + 2 - 2 - 2, "likewise"
    assert written(run, sorter) == {
        (SIZES, 0): {10: 1, 12: 1},
        (SIZES, 1): {TOP: 1},
        (EXPIRED, 0): {4: 1, 6: 1, 100: 1},
        (COUNTS, 0): {0: 1, 1: 1, 4: -1, 5: -1},
    }, "what is added as often as it is taken away is counted by nobody"


def test_nothing_gives_no_files(run: WorkerRun) -> None:
    assert written(run, reading._Sorter({})) == {}


def test_what_is_made_distinct_or_summed_up_on_the_way_is_the_same(
    run: WorkerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BUFFER_VALUES", 3)
    random = np.random.default_rng(1)
    found = [np.unique(random.integers(0, 12, 4).astype(np.uint64)) for _ in range(40)]
    sets, counts = reading._SetBuffer(), reading._CountBuffer()
    expected: dict[int, int] = {}
    for number, values in enumerate(found):
        sign = -1 if number % 3 == 2 else 1
        sets.add(values)
        counts.add(values, sign)
        for value in values.tolist():
            expected[value] = expected.get(value, 0) + sign
    assert sets.values().tolist() == sorted({value for values in found for value in values.tolist()})
    summed = counts.values()
    assert dict(zip(summed.hashes.tolist(), summed.counts.tolist(), strict=True)) == {
        value: count for value, count in expected.items() if count
    }
    assert summed.hashes.tolist() == sorted(summed.hashes.tolist())


def test_memory_is_bounded_by_what_is_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BUFFER_VALUES", 10)
    sets, counts = reading._SetBuffer(), reading._CountBuffer()
    for _ in range(100):
        sets.add(hashes(1, 2, 3, 4))
        counts.add(hashes(1, 2, 3, 4), 1)
        assert sum(map(len, sets._pieces)) <= 4 + 4 + 10
        assert sum(map(len, counts._pieces[1])) <= 4 + 10
    assert sets.values().tolist() == counts.values().hashes.tolist() == [1, 2, 3, 4]
    assert counts.values().counts.tolist() == [100] * 4


def test_ranges_are_put_together_until_they_are_enough_for_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PART_VALUES", 4)
    ranges = [
        named("a", [1], [1]),
        named("b", [1, 2], []),
        named("c", [1, 2, 3, 4, 5], []),
        named("d", [], [1, 2]),
        named("e", [1], [1]),
        named("f", [1], []),
    ]
    found = [[item.range_id for item in batch] for batch in reading._batches(ranges)]
    assert found == [["a", "b"], ["c"], ["d", "e"], ["f"]]
    assert list(reading._batches([])) == []


def merged(
    run: WorkerRun, config: MergeConfig, merges: list[Merge]
) -> tuple[dict[str, list[list[int]]], list[PartInfo]]:
    result = merge_shards.body(run, config, MergeTask(merges=merges))
    sets = {
        kind: [read_hashes(run.folder, part).tolist() for part in parts]
        for kind, parts in result.sets.items()
    }
    return sets, result.counted


def config(is_difference: bool = False, keep_counts: bool = False, count_here: bool = False) -> MergeConfig:
    return MergeConfig(
        where="step/a", bits=1, is_difference=is_difference, keep_counts=keep_counts, count_here=count_here
    )


@pytest.mark.parametrize("is_difference", [False, True])
def test_what_is_counted_or_staged_is_live_and_a_difference_by_itself_is_not(
    is_difference: bool, run: WorkerRun
) -> None:
    counts = [
        Counted(hashes(1, 2, 3), np.array([1, 1, -1], np.int32)),
        Counted(hashes(2, 3, 4), np.array([-1, -1, 2], np.int32)),
    ]
    parts = [write_counted(run.folder, f"{number}.counts", found) for number, found in enumerate(counts)]
    staged = write_hashes(run.folder, "staged.u64", hashes(4, 9, TOP + 1))
    sets, counted = merged(
        run, config(is_difference=is_difference), [Merge(kind=COUNTS, shard=0, parts=parts, whole=[staged])]
    )
    assert sets == {LIVE: [[4, 9] if is_difference else [1, 4, 9]]}
    assert counted == []
    sets, _ = merged(run, config(), [Merge(kind=COUNTS, shard=1, parts=[], whole=[staged])])
    assert sets == {LIVE: [[TOP + 1]]}


def test_files_of_sets_are_united_shard_by_shard(run: WorkerRun) -> None:
    parts = [write_hashes(run.folder, f"{number}.u64", hashes(number, 7)) for number in range(3)]
    merges = [
        Merge(kind=SIZES, shard=0, parts=parts[:2], whole=[]),
        Merge(kind=SIZES, shard=1, parts=parts[2:], whole=[]),
        Merge(kind=EXPIRED, shard=0, parts=parts, whole=[]),
    ]
    sets, _ = merged(run, config(keep_counts=True), merges)
    assert sets == {SIZES: [[0, 1, 7], [2, 7]], EXPIRED: [[0, 1, 2, 7]]}


def test_counts_are_written_where_they_are_wanted_and_nothing_is_written_of_nothing(run: WorkerRun) -> None:
    total = Counted(hashes(1, 2), np.array([3, -1], np.int32))
    part = write_counted(run.folder, "all.counts", total)
    state = RunFolder(run.open_state(), "run")
    for wanted, folder, name in (
        (config(), None, ""),
        (config(count_here=True), run.folder, f"step/a/{COUNTS}-0000.counts"),
        (config(keep_counts=True, count_here=True), run.folder, f"step/a/{COUNTS}-0000.counts"),
        (config(keep_counts=True), state, f"{COUNTED}/run-step-a-0000.counts"),
    ):
        _, counted = merged(run, wanted, [Merge(kind=COUNTS, shard=0, parts=[part], whole=[])])
        assert [item.name for item in counted] == ([name] if name else [])
        for item in counted:
            assert folder is not None
            found = read_counted(folder, item)
            assert (found.hashes.tolist(), found.counts.tolist()) == ([1, 2], [3, -1])
    _, counted = merged(run, config(keep_counts=True), [Merge(kind=COUNTS, shard=0, parts=[], whole=[])])
    assert counted == []
