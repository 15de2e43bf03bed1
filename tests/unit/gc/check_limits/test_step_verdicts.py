"""What the step makes of verdicts, and what it says and writes down of what it found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.check_limits import CheckLimitsOutput, codes, step
from dredge.gc.check_limits.step import _how_to_free, check_limits
from dredge.gc.check_limits.tally import Held, Tally
from dredge.gc.run import Run
from dredge.gc.steps import list_committed, mark_uncommitted, slice_listing, subtract
from dredge.runs.limits import Finding
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


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("approval", ["never", "over_limits", "always"])
def test_a_guard_that_refuses_stops_a_run_in_any_mode(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool, approval: str
) -> None:
    """No person is asked, also where a limit is exceeded besides; the others are not blamed."""
    guards = [
        lambda _: Finding("fine", "passed", 0, 0, "nothing to say"),
        lambda _: Finding("odd", "refused", 1, 0, "this cannot be"),
    ]
    monkeypatch.setattr(step, "GUARDS", guards)
    _world, run = before_guards(dry_run=dry_run, approval=approval, max_delete_objects=0)
    with pytest.raises(
        RefusedError, match=r": odd: this cannot be\. Nothing was deleted\. Read .*guard\.json\.$"
    ):
        check_limits(run)
    assert run.folder.read_json("guard.json")["verdict"] == "refused"
    incomplete = run.folder.read_incomplete("check_limits")
    assert incomplete is not None
    assert incomplete.status == "refused"


def test_a_run_beyond_a_limit_that_may_ask_nobody_is_refused() -> None:
    _world, run = before_guards(approval="never", max_delete_objects=0)
    with pytest.raises(
        RefusedError, match=r"max_objects: .*Raise the limit, or let a person approve it"
    ) as raised:
        check_limits(run)
    assert "max_bytes" not in str(raised.value)


@pytest.mark.parametrize(("approval", "would"), [("never", "be refused"), ("over_limits", "await approval")])
def test_a_dry_run_beyond_a_limit_says_what_would_come(approval: str, would: str) -> None:
    _world, run = before_guards(approval=approval, max_delete_objects=0, dry_run=True)
    summary = check_limits(run)
    (warning,) = [text for text in summary.warnings if "a run that deletes" in text]
    assert f"would {would}: run {run.plan.run_id}: max_objects" in warning


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


def told(read_kv: bool, problem: str, **held: Held) -> str:
    check: Any = SimpleNamespace(
        tally=Tally(by_code=dict(held)),
        proof=SimpleNamespace(answers=SimpleNamespace(problem=problem)),
        run=SimpleNamespace(plan=SimpleNamespace(config=SimpleNamespace(read_kv=read_kv))),
    )
    return _how_to_free(check)


@pytest.mark.parametrize(
    ("read_kv", "advice"),
    [(False, "Name the connection of lakeFS's key-value store"), (True, "the next run looks again")],
)
def test_people_are_told_what_is_held_back_and_what_would_settle_it(read_kv: bool, advice: str) -> None:
    held = {
        codes.TOO_MANY: Held(3, 9, [{"address": "data/a", "size": 3}]),
        codes.NO_PATH: Held(2, 4, [{"address": "data/b", "size": 2}]),
        codes.SERVED: Held(7, 7, [{"address": "data/c", "size": 1}]),
    }
    text = told(read_kv, "", **held)
    assert text.startswith("5 objects are held back and stay in the store: 3 such as 'data/a' (")
    assert "2 such as 'data/b' (" in text
    assert "data/c" not in text
    assert "went wrong" not in text
    assert advice in text
    assert "What went wrong first: 503." in told(read_kv, "503", **held)
