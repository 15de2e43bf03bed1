"""Pins are told of wherever somebody asks why an object stays, and end when somebody says so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dredge.errors import ConfigError
from dredge.gc.explain.answer import KEPT
from dredge.gc.explain.target import Target
from dredge.gc.explain.why import why
from dredge.gc.explain.words import answer_lines
from dredge.gc.undo.pins import active_pins, end_pin
from tests.support.gc import World
from tests.support.undo import WAYS, purge, restore, undo_world


def asked(world: World, address: str) -> tuple[str, str]:
    """The verdict on an object, and all that is said about it."""
    target = Target(world.lake.repository, world.lake.namespace, address)
    answer = why(world.client, target, world.lake.clock())
    return answer.verdict, "\n".join(answer_lines(answer))


@pytest.mark.parametrize("way", WAYS)
def test_why_tells_what_can_be_brought_back_and_what_was(way: str) -> None:
    world, _, gone = undo_world(way)
    run = world.plan()
    world.run(run)
    one, other = sorted(gone)[:2]
    verdict, text = asked(world, one)
    assert verdict == "deleted"
    assert "`dredge gc restore` brings it back" in text
    restore(world, run, address=one, keep_days=50, because="needed by an audit")
    world.age(days=40)
    verdict, text = asked(world, one)
    assert verdict == KEPT
    assert "needed by an audit" in text
    purge(world)
    verdict, text = asked(world, other)
    assert verdict == "deleted"
    assert "brings it back" not in text


def test_a_pin_ends_when_somebody_ends_it() -> None:
    world, kept, gone = undo_world("quarantine")
    run = world.plan()
    world.run(run)
    restore(world, run, all=True)
    now = world.lake.clock()
    (pin,) = active_pins(run.state, now)
    assert pin.until == now + timedelta(days=30)
    with pytest.raises(ConfigError, match="no pin nothing"):
        end_pin(run.state, "nothing", now)
    world.age(days=2)
    world.collect()
    assert world.data() == kept | gone
    end_pin(run.state, pin.pin_id, world.lake.clock())
    assert active_pins(run.state, world.lake.clock()) == []
    world.collect()
    assert world.data() == kept
