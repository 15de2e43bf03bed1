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
from dredge.runs.variables import check_variables
from dredge.storage import open_writer
from dredge.trash.config import TrashConfig
from dredge.trash.restore_config import TrashRestoreConfig
from dredge.trash.state import TrashState

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight


class LakeFSKVOperator(BaseOperator):
    """Work on a lakeFS installation's key-value store, beside the state folder of the trash cleaner.

    :param config: settings by name, such as ``{"state_uri": "s3://ops/trash"}``; docs/settings.md lists them. Values
        may be given as they are or as rendered text; an unknown name or a value that does not fit fails the task
        before anything is touched (templated)
    :param segments: DynamoDB: parts of the table that are read at once
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
        return LakeFSKVConnection.of(self.kv_conn_id)

    @cached_property
    def state(self) -> TrashState:
        """What earlier runs left."""
        options = storage_options(self.aws_conn_id)
        return TrashState(open_writer(self.state_uri, options), options=options)


class LakeFSKVTrashOperator(LineageMixin, LakeFSKVOperator):
    """Work on the trash in a key-value store. Parameters: see :class:`LakeFSKVOperator`."""

    operator_extra_links = (ReportLink(),)

    @cached_property
    def state(self) -> TrashState:
        """What earlier runs left.

        :raises RefusedError: earlier runs were bound by a policy, and there is none now
        """
        found = super().state
        present = {POLICY: json_variable(POLICY) is not None}
        check_variables(found.writer, self.state_uri, present, "dredge trash")
        return found

    @cached_property
    def checked(self) -> TrashConfig:
        """The rendered settings as the cleaner's own type."""
        return TrashConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """URI of the state folder."""
        return self.checked.state_uri

    @property
    def rate(self) -> ReadRate:
        """How fast the store may be read."""
        return ReadRate(self.checked.read_rate, self.segments)

    def holder(self, context: Context) -> str | None:
        """Name every try of this task the same: a later try then fences an earlier one off that was only lost."""
        return f"{self.dag_id} {context['run_id']} {self.task_id}" if "run_id" in context else None

    def linked(self, context: Context, run_id: str, figures: dict[str, Any]) -> dict[str, Any]:
        """Link the task to the page of its run, and give figures and page to whoever waits for the outlets."""
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
    """Ask for everything that a look and a cleaning will need, as `dredge trash check` does.

    Parameters: see :class:`LakeFSKVTrashOperator`.
    """

    template_fields: Sequence[str] = ("check_only", *LakeFSKVTrashOperator.template_fields)

    def ask(self) -> Preflight:
        """Ask the key-value store and the store of the state folder."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.preflight import check

        options = storage_options(self.aws_conn_id)
        return check(self.checked, lambda: self.connection.reader(self.rate), options)


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


class LakeFSKVRestoreTrashOperator(LakeFSKVOperator):
    """Put rows back that a run of the cleaner removed; a dry run unless told. A key that exists stays as it is.

    Parameters: see :class:`LakeFSKVOperator`; ``config`` such as ``{"state_uri": "s3://ops/trash", "run": "g3…"}``.
    """

    @cached_property
    def checked(self) -> TrashRestoreConfig:
        """The rendered settings."""
        return TrashRestoreConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """Where the undo files are."""
        return self.checked.state_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Put back, or count, and return the figures."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.trash.steps import restore

        config = self.checked
        with self.connection.cleaner(ReadRate(None, self.segments)) as store:
            return restore(
                store, self.state, config.run, partitions=config.partitions, dry_run=config.dry_run
            )
