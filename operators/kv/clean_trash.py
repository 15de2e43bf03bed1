"""The step that removes trash from a key-value store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError
from dredge.runs.clock import utc_now
from dredge.trash.margins import TrashLimits
from dredge.trash.steps import clean
from operators.failures import reported
from operators.kv.base import KVTrashOperator, told
from operators.lakefs.plan import number, truth

if TYPE_CHECKING:
    from airflow.sdk import Context


class KVCleanTrashOperator(KVTrashOperator):
    """Remove what two looks at least a grace period apart have seen as trash; a dry run unless told.

    Rows are written to undo files in the state folder first; ``dredge trash restore`` puts them back.
    Further parameters: see :class:`KVTrashOperator`.

    :param planned: run id of a scan, whose plan this run must not go beyond; empty is no bound (templated)
    :param planned_digest: digest of that plan, as the scan returned it; empty takes the plan as it is (templated)
    :param report_only: a dry run: only say what would go (templated)
    :param max_partitions: refuse to remove more (templated)
    :param max_rows: refuse to remove more (templated)
    """

    template_fields: Sequence[str] = (
        *KVTrashOperator.template_fields,
        "planned",
        "planned_digest",
        "report_only",
        "max_partitions",
        "max_rows",
    )

    def __init__(
        self,
        *,
        planned: str | None = None,
        planned_digest: str | None = None,
        report_only: bool | str = True,
        max_partitions: int | str | None = None,
        max_rows: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.planned_digest = planned_digest
        self.report_only = report_only
        self.max_partitions = max_partitions
        self.max_rows = max_rows

    @property
    def limits(self) -> TrashLimits:
        """The rendered limits."""
        asked = {
            "partitions": number("max_partitions", self.max_partitions),
            "rows": number("max_rows", self.max_rows),
        }
        return TrashLimits(**{name: int(value) for name, value in asked.items() if value is not None})

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Remove, or say what would go."""
        if self.planned == "":
            raise ConfigError("there is no plan, because the scan failed; see its log. Nothing was removed.")
        with self.connection.cleaner(self.rate) as store:
            report = clean(
                store,
                self.state,
                clock=utc_now,
                margins=self.margins,
                limits=self.limits,
                kinds=self.asked_kinds,
                planned=self.planned,
                planned_digest=self.planned_digest or None,
                dry_run=truth("report_only", self.report_only),
                holder=self.holder(context),
            )
        if report.status == "partial":
            self.log.warning(
                "some of the plan stayed: see %s/runs/%s/report.json", self.state_uri, report.scan.plan.run_id
            )
        figures = report.scan.to_json() | {
            "status": report.status,
            "rows_removed": report.rows_removed,
            "fates": dict(Counter(outcome.fate for outcome in report.outcomes)),
        }
        figures = told("kv_clean_trash", figures, report.scan.plan.location)
        return self.linked(context, report.scan.plan.run_id, figures)
