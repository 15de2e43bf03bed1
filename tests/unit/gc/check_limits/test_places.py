"""Entries of branch heads are searched in bounded memory."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from dredge.gc.check_limits.holds import TOO_MANY
from dredge.gc.check_limits.places import SCHEMA, _Found
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
