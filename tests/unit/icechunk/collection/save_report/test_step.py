"""The report is written whatever became of the run, and an older one never replaces a newer one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dredge.errors import OvertakenError, UnavailableError
from dredge.icechunk.collection import save_report as step
from dredge.icechunk.collection.outputs import REPORT, SaveReportOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import collect, release_lease, run_steps, save_report
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk_repo import Repo

PAGE = "report.html"


def before_it_is_written(run: Run, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    real, left = step.build_report, [meanwhile]

    def slept(run: Run) -> dict[str, Any]:
        report = real(run)
        if left:
            left.pop()()
        return report

    monkeypatch.setattr(step, "build_report", slept)


def between_its_files(run: Run, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    real = run.folder.publish_json

    def slept(*arguments: Any) -> None:
        real(*arguments)
        meanwhile()

    monkeypatch.setattr(run.folder, "publish_json", slept)


@pytest.mark.parametrize("sleep", [before_it_is_written, between_its_files])
def test_an_orphaned_report_gives_way_to_a_newer_one(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, sleep: Callable[..., None]
) -> None:
    orphan = v1.plan()
    retry = Run.open(orphan.plan.run_uri)

    def ended() -> None:
        run_steps(retry, LocalRunner())
        save_report(retry)

    sleep(orphan, monkeypatch, ended)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    assert retry.folder.read_json(REPORT)["outcome"] == "success"
    assert "not finished" not in retry.folder.writer.get(PAGE).decode()
    summary = retry.folder.read_summary(SaveReportOutput.STEP)
    assert summary is not None
    assert SaveReportOutput.of(summary).outcome == "success"


@pytest.mark.parametrize("asleep_after", ["_is_complete", "keep_small"])
def test_an_orphan_that_wakes_after_the_end_of_its_run_leaves_the_lease_to_the_next(
    v1: Repo, monkeypatch: pytest.MonkeyPatch, asleep_after: str
) -> None:
    orphan, honest = v1.plan(), getattr(step, asleep_after)
    run_steps(orphan, LocalRunner())

    def asleep(*arguments: Any) -> Any:
        found = honest(*arguments)
        monkeypatch.undo()
        with monkeypatch.context() as without:
            without.setattr(step, "advance_state", lambda _: None)
            save_report(Run.open(orphan.plan.run_uri))
        release_lease(orphan)
        return found

    monkeypatch.setattr(step, asleep_after, asleep)
    with pytest.raises(OvertakenError, match="step save_report"):
        save_report(orphan)
    v1.plan()  # the next one is not refused


def test_lease_is_given_back_although_the_report_cannot_be_written(
    v1: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise UnavailableError("the store does not answer")

    monkeypatch.setattr(step, "render_html", unavailable)
    with pytest.raises(UnavailableError):
        collect(v1.config())
    make_lease(open_state(v1.uri)).acquire("the next run")
