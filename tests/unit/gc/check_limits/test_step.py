"""The limits count what may go, against everything that was listed; what is held counts for neither."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import AwaitingApprovalError
from dredge.gc.check_limits import places
from dredge.gc.check_limits.holds import TOO_MANY
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from tests.support.gc import World, make_world, summary_of
from tests.support.identical import many

pytestmark = pytest.mark.usefixtures("without_canaries")

HELD, FREE = b"else", [b"1" * 100, b"2" * 200]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Twelve committed objects, one orphan that is held for its size, two that may go, and five young objects."""
    monkeypatch.setattr(places, "_PLACES_MAX", 5)
    made = make_world()
    many(made, 12)
    made.orphan("data/slice/held", HELD)
    for number, content in enumerate(FREE):
        made.orphan(f"data/slice/free{number}", content)
    made.age(days=2)
    for number in range(5):
        made.orphan(f"data/slice/young{number}", b"y" * (number + 300))
    return made


def marked(world: World, **settings: Any) -> Run:
    run = world.plan(**settings)
    world.mark(run)
    release_lease(run)
    return run


def verdicts(run: Run) -> dict[str, str]:
    findings = run.folder.read_json("guard.json")["findings"]
    return {item["rule"]: item["verdict"] for item in findings if item["rule"].startswith("max_")}


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


@pytest.mark.parametrize(
    ("rule", "enough", "less"),
    [("max_objects", 2, 1), ("max_bytes", 300, 299), ("max_percent", 10.0, 9.9)],
)
def test_a_limit_is_passed_by_what_may_go_and_not_by_one_more(
    world: World, rule: str, enough: float, less: float
) -> None:
    """Two of twenty listed objects are ten percent: those that are young are listed, too."""
    setting = rule.replace("max_", "max_delete_")
    passed = dict.fromkeys(("max_objects", "max_bytes", "max_percent"), "passed")
    assert verdicts(marked(world, **{setting: enough})) == passed
    before = world.data()
    run = world.plan(**{setting: less})
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    assert verdicts(run) == passed | {rule: "awaiting_approval"}
    assert world.data() == before


def test_what_an_optimized_run_may_delete_is_a_share_of_what_it_did_not_list_too() -> None:
    world = make_world()
    for number in range(12):
        world.upload(f"{number:02d}", b"%d" % number * 10)
    world.lake.commit()
    world.age(days=10)
    world.collect()
    for number in range(3):
        world.upload("staged", b"new %d" % number * 20)
    world.age(days=3)
    run = marked(world, mode="optimized", max_delete_percent=30.0)
    listing = summary_of(run, "slice_listing").counts
    assert listing["old_objects"] + listing["young_objects"] == 3
    assert verdicts(run)["max_percent"] == "passed"
    (finding,) = [
        item for item in run.folder.read_json("guard.json")["findings"] if item["rule"] == "max_percent"
    ]
    assert 15 < finding["figure"] < 18, "two of twelve and some"
