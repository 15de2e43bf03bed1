"""The last step: the state moves on before the report is written, and no run builds again on what could not be read."""

from __future__ import annotations

from typing import Any

import pytest

from dredge.errors import OvertakenError, UnavailableError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.planning import release_lease
from dredge.gc.run import Run
from dredge.gc.save_report import step
from dredge.gc.save_report.output import SaveReportOutput
from dredge.gc.steps import save_report
from dredge.runs.tries import StepTry
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


def _away(*_: object) -> None:
    raise UnavailableError("the store is away")
