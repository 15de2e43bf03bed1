"""Operators of the trash cleaner: preflight, scan, clean, restore."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.gates import CheckOperator
from airflow_dredge.operators.hooks.kv import DEFAULT_CONNECTION, LakeFSKVConnection
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.reporting import (
    REPORT,
    Lineage,
    LineageMixin,
    ReportLink,
    leave_event,
    report_figures,
)
from airflow_dredge.operators.run_check import POLICY
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError
from dredge.kv.rows import ReadRate
from dredge.runs.clock import utc_now
from dredge.runs.consents import check_variables
from dredge.storage import open_writer
from dredge.trash.findings import TrashConfig, TrashRestoreConfig

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight
    from dredge.trash.state import TrashState

# The steps of the cleaner are imported inside methods: each task of each DAG imports all operators.


class LakeFSKVOperator(BaseOperator):
    """Work on a lakeFS installation's key-value store, with the state folder of the trash cleaner.

    :param config: settings by name, such as ``{"state_uri": "s3://ops/trash"}``; docs/settings.md lists them.
        Values may be rendered text; an unknown name or invalid value fails the task before it changes
        anything (templated)
    :param segments: DynamoDB: number of segments to scan in parallel
    :param kv_conn_id: connection of the database (templated)
    :param aws_conn_id: connection of the object store of the state folder
    """

    template_fields: Sequence[str] = ("config", "kv_conn_id")

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        segments: int = 4,
        kv_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.segments = segments
        self.kv_conn_id = kv_conn_id
        self.aws_conn_id = aws_conn_id

    @property
    @abstractmethod
    def state_uri(self) -> str:
        """URI of the state folder."""

    @cached_property
    def connection(self) -> LakeFSKVConnection:
        """The database."""
        return LakeFSKVConnection.read(self.kv_conn_id)

    @cached_property
    def state(self) -> TrashState:
        """State of earlier runs."""
        from dredge.trash.state import TrashState

        options = storage_options(self.aws_conn_id)
        return TrashState(open_writer(self.state_uri, options), options=options)


class LakeFSKVTrashOperator(LineageMixin, LakeFSKVOperator):
    """Work on the trash in a key-value store. Parameters: see :class:`LakeFSKVOperator`."""

    operator_extra_links = (ReportLink(),)

    @cached_property
    def state(self) -> TrashState:
        """State of earlier runs.

        :raises RefusedError: earlier runs had a policy, and the Variable is missing now
        """
        found = super().state
        present = {POLICY: json_variable(POLICY) is not None}
        check_variables(found.writer, self.state_uri, present, "dredge trash")
        return found

    @cached_property
    def checked(self) -> TrashConfig:
        """The rendered settings as a config."""
        return TrashConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """URI of the state folder."""
        return self.checked.state_uri

    @property
    def rate(self) -> ReadRate:
        """Read rate of the store."""
        return ReadRate(self.checked.read_rate, self.segments)

    def holder(self, context: Context) -> str | None:
        """Return the lease holder, the same for every try, so that a retry fences off a lost try."""
        return f"{self.dag_id} {context['run_id']} {self.task_id}" if "run_id" in context else None

    def linked(self, context: Context, run_id: str, figures: dict[str, Any]) -> dict[str, Any]:
        """Push link, event, lineage and outlet events of a run; return the run's figures and page."""
        page = f"{self.checked.state_uri.rstrip('/')}/runs/{run_id}/report.html"
        numbers = {name: value for name, value in figures.items() if type(value) is int}
        place, outcome = str(figures["location"]), str(figures.get("status", "dry_run"))
        self.lineage = Lineage(place, place, run_id, numbers, outcome, page)
        if "ti" in context:
            context["ti"].xcom_push(REPORT, page)
            leave_event(context, outcome, place, run=run_id, counts=numbers, report=page)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**figures, REPORT: page}
        return {**figures, REPORT: page}


class LakeFSKVCheckTrashOperator(LakeFSKVTrashOperator, CheckOperator):
    """Run the preflight of the cleaner if ``check_only`` is set, as `dredge trash check` does."""

    template_fields: Sequence[str] = ("check_only", *LakeFSKVTrashOperator.template_fields)

    def ask(self) -> Preflight:
        """Check the key-value store and the state folder."""
        from dredge.trash.steps import check

        options = storage_options(self.aws_conn_id)
        return check(self.checked, lambda: self.connection.reader(self.rate), options)


class LakeFSKVScanTrashOperator(LakeFSKVTrashOperator):
    """Scan a store, report trash, and store the unused rows for the next run. Removes nothing. Returns
    figures and the run's id; a later clean may be limited to this run's plan.
    """

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Scan and classify."""
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
                self.log.warning("to be decided: %s: %s (%s)", finding.name, finding.why, finding.kind)
        figures = report_figures("kv_scan_trash", report.figures(), report.plan.location)
        return self.linked(context, report.plan.run_id, figures)


class LakeFSKVCleanTrashOperator(LakeFSKVTrashOperator):
    """Remove trash that an earlier run found at least the grace period ago; a dry run by default.

    The rows are first written to undo files in the state folder, for ``dredge trash restore``.

    :param planned: run id of a scan; the clean removes only rows of its plan; None for no limit (templated)
    :param planned_digest: digest of that plan from the scan; empty skips the check (templated)
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
        """Remove trash; in a dry run count it."""
        from dredge.trash.steps import clean

        if self.planned == "":
            raise ConfigError("there is no plan, because the scan failed: see its log. Nothing was removed.")
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
                "some rows of the plan were not removed: see %s/runs/%s/report.json",
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


class LakeFSKVRestoreTrashOperator(LakeFSKVOperator):
    """Restore rows that a run of the cleaner removed; a dry run by default. Existing keys are not changed.

    Parameters: see :class:`LakeFSKVOperator`; ``config`` such as ``{"state_uri": "s3://ops/trash", "run": "g3…"}``.
    """

    @cached_property
    def checked(self) -> TrashRestoreConfig:
        """The rendered settings."""
        return TrashRestoreConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """URI of the folder with the undo files."""
        return self.checked.state_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Restore; in a dry run count."""
        from dredge.trash.restore import restore

        config = self.checked
        with self.connection.cleaner(ReadRate(None, self.segments)) as store:
            return restore(
                store, self.state, config.run, partitions=config.partitions, dry_run=config.dry_run
            )
