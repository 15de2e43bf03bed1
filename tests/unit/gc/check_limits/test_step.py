"""The limits count what may go, against everything that was listed; what is held counts for neither."""

from typing import Any

import pytest

from dredge.gc.check_limits.holds import TOO_MANY
from dredge.gc.run import Run
from dredge.runs.run import release_lease
from tests.support.gc import World, make_world, summary_of
from tests.support.identical import many

pytestmark = pytest.mark.usefixtures("without_canaries")

HELD, FREE = b"else", [b"1" * 100, b"2" * 200]


@pytest.fixture
def world() -> World:
    """Twelve committed objects, one orphan that is held for its size, two that may go, and five young objects."""
    made = make_world(safety={"identical_places_max": 5})
    many(made, 12)
    made.orphan("data/slice/held", HELD)
    for number, content in enumerate(FREE):
        made.orphan(f"data/slice/free{number}", content)
    made.age(days=2)
    for number in range(5):
        made.orphan(f"data/slice/young{number}", b"y" * (number + 300))
    return made


def marked(world: World, **settings: Any) -> Run:
    run = world.marked(**settings)
    release_lease(run)
    return run


def test_what_is_held_is_not_counted_among_what_may_go(world: World) -> None:
    run = marked(world)
    counts = summary_of(run, "check_limits").counts
    assert (counts["deletable_objects"], counts["deletable_bytes"]) == (2, 300)
    assert (counts["held_objects"], counts["held_bytes"], counts[f"{TOO_MANY}_objects"]) == (1, 4, 1)
    (would,) = run.folder.read_json("guard.json")["would_delete"]
    assert (would["objects"], would["bytes"]) == (2, 300)
    assert sorted(item["address"] for item in would["examples"]) == ["data/slice/free0", "data/slice/free1"]
    world.run(world.plan())
    assert "data/slice/held" in world.data()
    assert not {"data/slice/free0", "data/slice/free1"} & world.data()
