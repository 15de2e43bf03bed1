"""Entries of branch heads are searched in bounded memory."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.gc.check_limits.holds import TOO_MANY
from dredge.gc.check_limits.identical import plan_questions
from dredge.gc.check_limits.places import (
    SCHEMA,
    HeadRanges,
    _Costs,
    _Found,
    read_heads,
    weights_of,
)
from dredge.gc.list_committed import ListCommittedOutput
from dredge.sets.hashes import NONE
from dredge.storage import open_deleter
from tests.support.gc import make_world
from tests.support.identical import held, many

pytestmark = pytest.mark.usefixtures("without_canaries")


def test_sizes_that_very_many_objects_have_are_held_and_the_others_looked_into() -> None:
    world = make_world(safety={"identical_places_max": 10})
    many(world, 40)
    world.commit("rare", b"as rare as can be")
    frequent = world.orphan("data/slice/frequent", b"else")
    rare = world.orphan("data/slice/rare", b"AS RARE AS CAN BE")
    world.age(days=2)
    context = world.collected()
    assert frequent in world.data()
    assert rare not in world.data()
    assert held(context) == {TOO_MANY: 1}


def test_a_committed_index_that_is_lost_is_no_reason_to_stop() -> None:
    world = make_world()
    world.commit("a", b"same")
    world.age(days=10)
    world.collect(mode="clean")
    again = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    open_deleter(world.lake.namespace).delete(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    context = world.collected(mode="optimized")
    assert context.plan.mode == "optimized"
    assert again in world.data()
    assert orphan not in world.data()


def test_heads_have_the_same_ranges_in_the_tables_of_the_mark_and_in_their_files() -> None:
    world = make_world()
    many(world, 40)
    world.commit("many/00000", b"changed")  # no head has the range of the first commit
    world.lake.catalog.branches.create_branch(world.lake.repository, "other", source="main")
    world.commit("only there", b"content", branch="other")
    run = world.collected()
    summary = run.folder.read_summary(ListCommittedOutput.STEP)
    assert summary is not None
    committed = ListCommittedOutput.of(summary)
    sources = [read_heads(run, committed), read_heads(run, committed, named_max=0)]
    found = [
        [(head.branches, [head.ids[row] for row in head.rows], *head.starts, head.count) for head in heads]
        for heads in sources
    ]
    assert found[0] == found[1]
    of_tables, of_files = (weights_of(heads).sort_by("range_id").to_pylist() for heads in sources)
    assert of_tables == of_files
    assert sorted(name for names, *_ in found[0] for name in names) == ["main", "other"]


def rows(range_id: str, *sizes: int) -> pa.Table:
    paths = [f"{range_id}{number}".encode() for number in range(len(sizes))]
    columns = [[range_id] * len(sizes), range(len(sizes)), paths, sizes]
    return pa.table([pa.array(column) for column in columns], names=SCHEMA.names).cast(SCHEMA)


def collected(tables: Sequence[pa.Table], rows_max: int, skipped: Sequence[int] = ()) -> _Found:
    found = _Found(rows_max, np.array(skipped, np.uint64) if skipped else NONE)
    for table in tables:
        found.add(table)
    return found


def test_every_entry_of_a_size_is_found_or_the_size_is_given_up() -> None:
    """An entry that is neither would clear an object that a branch serves by it."""
    tables = [rows("a", 1, 2, 1, 3), rows("b", 1, 4, 4, 2), rows("c", 5, 5, 1, 2), rows("d", 6, 1, 3)]
    all_sizes = Counter(size for table in tables for size in table["size"].to_pylist())
    for rows_max in range(1, 17):
        found = collected(tables, rows_max)
        places = found.places()
        skipped = set(found.skipped.tolist())
        kept = Counter(places.sizes.tolist())
        assert kept == Counter({size: n for size, n in all_sizes.items() if size not in skipped})
        assert kept.total() <= rows_max
        assert places.skipped.tolist() == found.skipped.tolist() == sorted(skipped)
        assert not skipped or rows_max < 15


def heads_of(*counts: Sequence[int], branches: int = 1) -> list[HeadRanges]:
    """Heads with ranges of so many entries, all different."""
    found, ids = (
        list[HeadRanges](),
        [f"{head}-{at}" for head, each in enumerate(counts) for at in range(len(each))],
    )
    for each in counts:
        first = sum(len(head.rows) for head in found)
        ends = np.cumsum(each)
        rows_of_head = np.arange(first, first + len(each), dtype=np.int32)
        names = [f"b{number}" for number in range(branches)]
        found.append(HeadRanges(names, ids, rows_of_head, ends - np.array(each), int(ends[-1])))
    return found


@given(st.data())
def test_a_size_is_given_up_only_if_its_questions_cost_more_than_allowed(data: st.DataObject) -> None:
    """One given up without need would be held for ever."""
    lengths = data.draw(st.lists(st.integers(1, 1500), min_size=1, max_size=12))
    contents = heads_of(lengths, branches=data.draw(st.integers(1, 3)))
    (head,) = contents
    wanted = [
        np.array(sorted(data.draw(st.sets(st.integers(0, length - 1), max_size=30))), np.int64)
        for length in lengths
    ]
    planned = plan_questions(
        np.concatenate([start + ranks for start, ranks in zip(head.starts, wanted, strict=True)])
    )
    assert planned is not None
    cost = sum(question.cost for question in planned) * len(head.branches)
    cost_max = data.draw(st.integers(0, 400))
    costs = _Costs(np.array([7], np.uint64), weights_of(contents), cost_max)
    indexed = {head.ids[at]: np.full(1, 7, np.uint64) for at, ranks in enumerate(wanted) if len(ranks)}
    costs.choose(indexed, indexed)
    for range_id, ranks in zip(head.ids, wanted, strict=True):
        entries = np.zeros(int(ranks.max(initial=0)) + 1, np.uint64)
        entries[ranks] = 7
        costs.add(range_id, entries)
    assert cost > cost_max or not len(costs.too_many)


def test_a_size_of_too_many_ranges_is_given_up_before_any_is_read() -> None:
    contents = heads_of([1000] * 50, branches=10)
    costs = _Costs(np.array([7, 8], np.uint64), weights_of(contents), 400)
    both, rare = np.array([7, 8], np.uint64), np.array([8], np.uint64)
    indexed = {item: both if at else rare for at, item in enumerate(contents[0].ids)}
    assert costs.choose(dict.fromkeys(indexed, both[:1]), indexed) == []
    assert costs.left.tolist() == [8]
