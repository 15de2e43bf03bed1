"""The step that looks at a key-value store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.kv.base import LakeFSKVTrashOperator
from airflow_dredge.operators.metrics import report_figures
from dredge.runs.clock import utc_now

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSKVScanTrashOperator(LakeFSKVTrashOperator):
    """Look at a store, say what is trash, and remember what is unused. Nothing is removed.

    Returns figures and the run's id, whose plan bounds a later clean. Parameters: see
    :class:`LakeFSKVTrashOperator`.
    """

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Look and classify."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.steps import scan

        with self.connection.reader(self.rate) as store:
            report = scan(
                store,
                self.state,
                clock=utc_now,
                margins=self.checked.margins,
                kinds=self.checked.kinds or None,
                holder=self.holder(context),
            )
        for finding in report.findings:
            if finding.verdict == "report":
                self.log.warning("for a person: %s: %s (%s)", finding.name, finding.why, finding.kind)
        figures = report_figures("kv_scan_trash", report.figures(), report.plan.location)
        return self.linked(context, report.plan.run_id, figures)
