"""The last task but one of a collection: it tells what became of it, gives its right back, and fails with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.collection import IcechunkSaveReportOperator
from airflow_dredge.operators.reporting import REPORT
from dredge.errors import AwaitingApprovalError, RefusedError, RejectedError
from dredge.icechunk.collection.steps import AIRFLOW, TIME_OUT, Run, answer, approve, run_steps
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.runs.tasks import LocalRunner
from tests.support.icechunk_operators import plan
from tests.support.icechunk_repo import Repo
from tests.support.lakefs_operators import Pushed

OUTLET = "dredge_icechunk"


class Report:
    """The task of a run."""

    def __init__(self, repo: Repo, planned: Any) -> None:
        self.pushed, self.event = Pushed(), SimpleNamespace(extra=None)
        self._context: Any = {"ti": self.pushed, "outlet_events": {OUTLET: self.event}}
        self._operator = IcechunkSaveReportOperator(
            task_id="save_report", storage=repo.uri, plan=planned, aws_conn_id=None, outlets=[OUTLET]
        )

    def save(self) -> dict[str, Any]:
        done = self._operator.execute(self._context)
        assert self._operator.lineage is not None
        assert self._operator.lineage.outcome == done["outcome"]
        return done


def is_free(repo: Repo) -> bool:
    """Whether the next run may begin; it does."""
    return make_lease(open_state(repo.uri)).acquire("the next one").holder == "the next one"


def awaiting(repo: Repo) -> tuple[Run, dict[str, Any]]:
    """A run that waits for an answer."""
    planned = plan(repo, dry_run=False, approval="always")
    run = Run.open(planned["run_uri"])
    with pytest.raises(AwaitingApprovalError):
        run_steps(run, LocalRunner())
    return run, planned


def test_a_collection_whose_task_was_lost_is_no_success_and_gives_its_right_back(garbage: Repo) -> None:
    planned = plan(garbage, dry_run=False)
    report = Report(garbage, planned)
    with pytest.raises(RefusedError):
        report.save()
    assert report.pushed["save_report", REPORT] == f"{planned['run_uri']}/report.html"
    assert report.event.extra is None
    assert is_free(garbage)


@pytest.mark.parametrize(("by", "through", "ends_well"), [("eve", AIRFLOW, True), ("", TIME_OUT, False)])
def test_who_rejects_a_collection_ends_it_well_and_who_does_not_answer_does_not(
    garbage: Repo, by: str, through: str, ends_well: bool
) -> None:
    run, planned = awaiting(garbage)
    answer(run, "rejected", by, through)
    with pytest.raises(RejectedError):
        approve(run)
    if ends_well:
        assert Report(garbage, planned).save()["outcome"] == "rejected"
        return
    with pytest.raises(RefusedError):
        Report(garbage, planned).save()
