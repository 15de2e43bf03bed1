"""What ranges name is the same from the index and from the ranges themselves; nothing is left out."""

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.index.ranges import Metaranges, Ranges, read_facts, with_metaranges
from dredge.gc.index.store import addresses_of
from dredge.gc.insight.base_run import BaseRun, open_base
from tests.support.gc import World, make_world


@pytest.fixture
def world() -> World:
    made = make_world(rules=30)
    for number in range(3):
        made.commit(f"a{number}", b"%d" % number)
    made.age(days=2)
    return made


def base_of(world: World) -> tuple[BaseRun, Ranges]:
    context = world.collected(dry_run=True)
    base = open_base(context.plan.run_uri)
    return base, dict(read_facts(base.history().ranges_table))


def named(world: World, base: BaseRun, ranges: Ranges) -> dict[str, list[int]]:
    found = addresses_of(base.reader, base.state, world.lake.namespace, ranges)
    return {item.range_id: sorted(item.addresses.tolist()) for item in found}


def test_a_range_or_metarange_that_is_missing_is_an_error_and_no_smaller_answer(world: World) -> None:
    base, ranges = base_of(world)
    lost = dict.fromkeys(["f" * 64], next(iter(ranges.values())))
    with pytest.raises(RefusedError, match="f" * 64):
        named(world, base, ranges | lost)
    with pytest.raises((RefusedError, FormatError)):
        with_metaranges(base.reader, Metaranges(), ["f" * 64])


def test_metaranges_are_read_where_they_are_not_known(world: World) -> None:
    base, ranges = base_of(world)
    active = set(base.history().active.values())
    known = with_metaranges(base.reader, Metaranges(), active)
    assert known.named.keys() == active - {""}
    assert known.select(active).keys() == ranges.keys()
