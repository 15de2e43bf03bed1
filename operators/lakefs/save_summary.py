"""The step that tells of all repositories in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_dredge.operators.many import SaveSummaryOperator
from dredge.gc.many.collect import outcome_of
from dredge.runs.report import Outcome

if TYPE_CHECKING:
    from dredge.storage import StorageOptions


class LakeFSSaveSummaryOperator(SaveSummaryOperator):
    """Write one page about the runs of all repositories of a server; see ``SaveSummaryOperator``."""

    collects, plans, what = "lakefs_gc", "plan", "repository"
    tells = ("save_report", "plan", "acquire_lease")

    def outcome_of(self, repository: str, run_uri: str, why: str, options: StorageOptions | None) -> Outcome:
        """Tell what became of a repository's run, by its report."""
        return outcome_of(repository, run_uri, why, options)
