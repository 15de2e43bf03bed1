"""Entries of branch heads are searched in bounded memory."""

from __future__ import annotations

import pytest

from dredge.gc.check_limits import codes, places
from dredge.storage import open_deleter
from tests.support.gc import make_world
from tests.support.identical import held, many

pytestmark = pytest.mark.usefixtures("without_canaries")


def test_sizes_that_very_many_objects_have_are_held_and_the_others_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_PLACES_MAX", 10)
    world = make_world()
    many(world, 40)
    world.upload("rare", b"as rare as can be")
    world.lake.commit()
    frequent = world.orphan("data/slice/frequent", b"else")
    rare = world.orphan("data/slice/rare", b"AS RARE AS CAN BE")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    assert frequent in world.data()
    assert rare not in world.data()
    assert held(context) == {codes.TOO_MANY: 1}


def test_a_committed_index_that_is_lost_is_no_reason_to_stop() -> None:
    world = make_world()
    world.upload("a", b"same")
    world.lake.commit()
    world.age(days=10)
    world.collect(mode="clean")
    again = world.upload("a", b"same")
    orphan = world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    open_deleter(world.lake.namespace).delete(world.lake.keys("_lakefs/retention/gc/dredge/index/"))
    context = world.plan(mode="optimized")
    world.run(context)
    assert context.plan.mode == "optimized"
    assert again in world.data()
    assert orphan not in world.data()
