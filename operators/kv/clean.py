"""The step that removes trash from a key-value store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.kv.base import LakeFSKVTrashOperator
from airflow_dredge.operators.metrics import report_figures
from dredge.errors import ConfigError
from dredge.runs.clock import utc_now

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSKVCleanTrashOperator(LakeFSKVTrashOperator):
    """Remove trash that an earlier run found and that has waited since; a dry run unless told.

    Rows are written to undo files in the state folder first; ``dredge trash restore`` puts them back.
    Further parameters: see :class:`LakeFSKVTrashOperator`.

    :param planned: run id of a scan, whose plan this run must not go beyond; None is no bound (templated)
    :param planned_digest: digest of that plan, as the scan returned it; empty takes the plan as it is (templated)
    """

    template_fields: Sequence[str] = (*LakeFSKVTrashOperator.template_fields, "planned", "planned_digest")

    def __init__(
        self, *, planned: str | None = None, planned_digest: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.planned_digest = planned_digest

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Remove, or say what would go."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.steps import clean

        if self.planned == "":
            raise ConfigError("there is no plan, because the scan failed; see its log. Nothing was removed.")
        config = self.checked
        with self.connection.cleaner(self.rate) as store:
            report = clean(
                store,
                self.state,
                clock=utc_now,
                margins=config.margins,
                limits=config.limits,
                kinds=config.kinds or None,
                planned=self.planned,
                planned_digest=self.planned_digest or None,
                dry_run=config.dry_run,
                holder=self.holder(context),
            )
        if report.status == "partial":
            self.log.warning(
                "some of the plan stayed: see %s/runs/%s/report.json",
                config.state_uri,
                report.scan.plan.run_id,
            )
        figures = report.scan.figures() | {
            "status": report.status,
            "rows_removed": report.rows_removed,
            "fates": dict(Counter(outcome.fate for outcome in report.outcomes)),
        }
        figures = report_figures("kv_clean_trash", figures, report.scan.plan.location)
        return self.linked(context, report.scan.plan.run_id, figures)
