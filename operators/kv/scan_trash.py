"""The step that looks at a key-value store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dredge.runs.clock import utc_now
from dredge.trash.steps import scan
from operators.failures import reported
from operators.kv.base import KVTrashOperator, told

if TYPE_CHECKING:
    from airflow.sdk import Context


class KVScanTrashOperator(KVTrashOperator):
    """Look at a store, say what is trash, and remember what is unused. Nothing is removed.

    Returns figures and the run's id, whose plan bounds a later clean. Parameters: see
    :class:`KVTrashOperator`.
    """

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Look and classify."""
        with self.connection.reader(self.rate) as store:
            report = scan(
                store,
                self.state,
                clock=utc_now,
                margins=self.margins,
                kinds=self.asked_kinds,
                holder=self.holder(context),
            )
        for finding in report.findings:
            if finding.verdict == "report":
                self.log.warning("for a person: %s: %s (%s)", finding.name, finding.why, finding.kind)
        figures = told("kv_scan_trash", report.to_json(), report.plan.location)
        return self.linked(context, report.plan.run_id, figures)
