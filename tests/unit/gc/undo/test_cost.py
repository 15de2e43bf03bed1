"""What it costs that deletions can be taken back is said before anything is deleted."""

from __future__ import annotations

import pytest

from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.undo.cost import cost_of_undo
from tests.support.gc import summary_of
from tests.support.undo import undo_world


@pytest.mark.parametrize(
    ("way", "objects", "size_bytes", "requests", "kept_bytes"),
    [
        ("off", 10, 1000, 0, 0),
        ("versions", 10, 1000, 0, 1000),
        ("quarantine", 10, 1000, 30, 1000),
        ("quarantine", 1, 8 << 30, 11, 8 << 30),
    ],
)
def test_cost(way: str, objects: int, size_bytes: int, requests: int, kept_bytes: int) -> None:
    found = cost_of_undo(way, objects, size_bytes)
    assert (found.requests, found.size_bytes) == (requests, kept_bytes)
    assert (found.seconds > 0) == (way == "quarantine")


def test_guards_report_and_the_next_plan_say_what_undo_costs() -> None:
    world, _, gone = undo_world("quarantine")
    dry = world.plan(dry_run=True)
    world.run(dry)
    assert CheckLimitsOutput.of(summary_of(dry, "check_limits")).undo["requests"] == 3 * len(gone)
    facts = dict(map(tuple, dry.folder.read_json("report.json")["facts"]))
    assert f"{3 * len(gone)} requests" in facts["Undo"]
    world.age(minutes=1)
    again = world.plan(dry_run=True)
    assert again.folder.read_json("forecast.json")["undo"]["requests"] == 3 * len(gone)
