"""The last step: the state moves on before the report is written, and no run builds again on what could not be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dredge.errors import DredgeError, FormatError, OvertakenError, UnavailableError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.gc.save_report import step
from dredge.gc.save_report.output import SaveReportOutput
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.steps import save_report
from dredge.gc.subtract import SubtractOutput
from dredge.runs.clock import utc_now
from dredge.runs.tries import StepTry
from dredge.runs.versions import Version
from tests.support.gc import busy_world, make_world
from tests.support.tries import come_to, driver

KNOWN: Any = {ListCommittedOutput.STEP: "what was done"}


@pytest.fixture
def run() -> Run:
    return make_world().plan()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the step has done, with what the report was told."""
    found: list[Any] = []
    for name in ("advance_state", "_compact_index", "clean_up", "_distrust", "write_analysis"):
        monkeypatch.setattr(step, name, lambda *_, name=name: found.append(name))
    monkeypatch.setattr(step, "write_report", lambda _, known, __: found.append(known))
    return found


@pytest.mark.parametrize(
    ("known", "dry_run", "does"),
    [
        (KNOWN, False, ["advance_state", "_compact_index", "clean_up", KNOWN]),
        (KNOWN, True, ["clean_up", KNOWN]),
        ({}, False, ["_distrust", {}]),
    ],
    ids=["complete", "dry run", "not complete"],
)
def test_state_moves_on_and_old_files_go_at_the_end_of_a_complete_run_only(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: list[Any], known: Any, dry_run: bool, does: list[Any]
) -> None:
    run.plan = replace(run.plan, config=replace(run.plan.config, dry_run=dry_run))
    monkeypatch.setattr(step, "_complete", lambda _: known)
    save_report(run)
    asked.remove("write_analysis")  # beside the rest
    assert asked == does


def test_report_is_written_although_the_state_could_not_move_on_which_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    monkeypatch.setattr(step, "_complete", lambda _: KNOWN)
    monkeypatch.setattr(step, "advance_state", _away)
    with pytest.raises(UnavailableError, match="away"):
        save_report(run)
    assert asked == ["write_analysis", {}]


def test_who_was_taken_for_lost_while_it_united_the_index_leaves_old_files_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, asked: list[Any]
) -> None:
    monkeypatch.setattr(step, "_complete", lambda _: KNOWN)
    later = lambda *_: StepTry.claim(run.folder.writer, SaveReportOutput.STEP)  # noqa: E731
    monkeypatch.setattr(step, "_compact_index", later)
    save_report(run)
    assert "clean_up" not in asked


def test_who_wakes_after_the_end_of_its_run_does_not_move_the_state_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The later try could not; who wakes would take the right back for it, and nobody would give it back again."""
    world, _, _ = busy_world()
    orphan = world.plan()
    come_to(orphan, "state")
    retry, honest = driver(world, orphan), step._complete

    def asleep(of: Run) -> Any:
        found = honest(of)
        monkeypatch.undo()
        with monkeypatch.context() as without:
            without.setattr(step, "advance_state", _away)
            with pytest.raises(UnavailableError, match="away"):
                save_report(retry)
        release_lease(retry)
        return found

    monkeypatch.setattr(step, "_complete", asleep)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    world.collect()  # the next run is not refused


@pytest.mark.parametrize("name", [ListCommittedOutput.STEP, SubtractOutput.STEP, SliceListingOutput.STEP])
@pytest.mark.parametrize("error", [FormatError("torn"), UnavailableError("away")], ids=["torn", "away"])
@pytest.mark.parametrize("mode", ["clean", "optimized"])
@pytest.mark.parametrize("has_state", [True, False])
def test_optimized_run_that_met_damage_distrusts_the_state_that_it_was_built_on(
    run: Run, name: str, error: DredgeError, mode: Any, has_state: bool
) -> None:
    version = Version("state/versions/x.json", "ab")
    run.plan = replace(run.plan, mode=mode, state=version if has_state else None)
    run.folder.write_failure(name, error, utc_now(), StepTry.claim(run.folder.writer, name))
    save_report(run)
    notes = [info.key for info in run.state.list_level("state/distrusted/").objects]
    met = mode == "optimized" and has_state and isinstance(error, FormatError)
    assert len(notes) == (met and name != SliceListingOutput.STEP)
    assert all(b'"torn"' in run.state.get(key) for key in notes)


def _away(*_: object) -> None:
    raise UnavailableError("the store is away")
