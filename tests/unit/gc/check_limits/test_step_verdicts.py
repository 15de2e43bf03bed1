"""What the step makes of verdicts, and what it says and writes down of what it found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.gc.check_limits import CheckLimitsOutput, codes
from dredge.gc.check_limits.step import _how_to_free, check_limits
from dredge.gc.check_limits.tally import Held, Tally
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing, subtract
from tests.support.gc import World, busy_world, summary_of

pytestmark = pytest.mark.usefixtures("without_canaries")


def before_guards(**settings: Any) -> tuple[World, Run]:
    """A run about whose candidates branches have to be asked, too: one is as long as committed objects."""
    world, _kept, _gone = busy_world(**settings)
    world.orphan("data/slice0/same-size", b"9")
    world.age(days=2)
    run = world.plan()
    for made in (slice_listing, mark_uncommitted, list_committed, subtract):
        made(run, world.runner)
    return world, run


@pytest.mark.parametrize("approval", ["never", "over_limits"])
def test_a_dry_run_beyond_a_limit_says_what_would_come(approval: str) -> None:
    _world, run = before_guards(approval=approval, max_delete_objects=0, dry_run=True)
    summary = check_limits(run)
    assert summary.details["verdict"] == "awaiting_approval"
    assert any("max_objects" in text for text in summary.warnings)


def test_a_run_within_its_limits_has_nothing_to_say() -> None:
    _world, run = before_guards(max_delete_objects=1000)
    summary = check_limits(run)
    assert (summary.status, summary.warnings) == ("success", ())


def test_what_the_sweep_reads_is_written_down() -> None:
    """Every code has a figure, also where it holds nothing, and each file that the step wrote is told."""
    _world, run = before_guards()
    check_limits(run)
    summary = summary_of(run, "check_limits")
    assert summary.counts["cleared_objects"] == 1
    assert {f"{code}_objects" for code in codes.WHY} <= summary.counts.keys()
    written = {key for batch in run.folder.writer.list("check_limits/") for key in batch["key"].to_pylist()}
    told = {part.key for part in summary.parts}
    assert {key for key in written if key.endswith(("cleared.u64", "served.u64")) or "verdict" in key} <= told
    assert any(key.endswith("cleared.u64") for key in told)
    output = CheckLimitsOutput.of(summary)
    assert output.hold_files is not None
    guard = run.folder.read_json("guard.json")
    assert guard["verdict"] == "passed"
    assert guard["candidates_digest"]
    assert guard["would_delete"]


def told(problem: str, **held: Held) -> str:
    check: Any = SimpleNamespace(
        tally=Tally(by_code=dict(held)),
        proof=SimpleNamespace(answers=SimpleNamespace(problem=problem)),
        run=SimpleNamespace(plan=SimpleNamespace(config=SimpleNamespace(read_kv=False))),
    )
    return _how_to_free(check)


def test_people_are_told_what_is_held_back() -> None:
    held = {
        codes.TOO_MANY: Held(3, 9, [{"address": "data/a", "size": 3}]),
        codes.NO_PATH: Held(2, 4, [{"address": "data/b", "size": 2}]),
        codes.SERVED: Held(7, 7, [{"address": "data/c", "size": 1}]),
    }
    text = told("", **held)
    assert all(shown in text for shown in ("5 objects", "data/a", "data/b"))
    assert "data/c" not in text
    assert "503" in told("503", **held)
