"""First and last tasks of a lakeFS collection: preflight, lease, plan, report."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.failures import first_failure, reported
from airflow_dredge.operators.gates import AcquireLeaseOperator, CheckOperator, what_went_wrong
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection, is_named
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from airflow_dredge.operators.lakefs.base import LakeFSOperator, ReachesLakeFS
from airflow_dredge.operators.lakefs.params import GC_SCHEDULES
from airflow_dredge.operators.reporting import (
    REPORT,
    Lineage,
    LineageMixin,
    ReportLink,
    leave_event,
    report_metrics,
    report_run,
)
from airflow_dredge.operators.run_check import present_variables
from airflow_dredge.operators.schedules import data_window
from airflow_dredge.operators.spark import SparkJobOperator, check_spark
from dredge.errors import ConfigError, RefusedError
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter


class LakeFSCheckOperator(ReachesLakeFS, CheckOperator, SparkJobOperator):  # type: ignore[misc]
    """Ask for everything that a collection will need: as `dredge gc check` does, and whether executors can work.

    :param config: as for ``LakeFSPlanRunOperator`` (templated)
    :param kv_conn_id: connection of lakeFS's key-value store (templated)
    :param lakefs_conn_id: connection of the lakeFS server

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "check_executors"
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "check_only", "config", "kv_conn_id")

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        kv_conn_id: str | None = None,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "run_uri": ""})  # there is no run
        self.config = config
        self.kv_conn_id = kv_conn_id
        self.lakefs_conn_id = lakefs_conn_id

    def ask(self) -> Preflight:
        """Ask server, store and key-value store, then Spark."""
        options = storage_options(self.aws_conn_id)
        kv = None
        if is_named(self.kv_conn_id):
            connection = LakeFSKVConnection.of(str(self.kv_conn_id))
            kv = steps.KVAccess(connection.url, connection.keys)
        found = steps.check(steps.GCConfig.from_params(self.config, options), self.hook.client, options, kv)
        self.run_uri = f"check://{uuid.uuid4().hex}"
        return replace(found, lines=(*found.lines, check_spark(self)))


class LakeFSAcquireLeaseOperator(LakeFSOperator, AcquireLeaseOperator):
    """Take the exclusive right to work on a repository; while another run has it, wait without a worker slot.

    :param repository: lakeFS repository (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles

    Further parameters are those of ``AcquireLeaseOperator``.
    """

    command = "dredge gc"
    template_fields: Sequence[str] = ("repository", "run_uri")

    def __init__(self, *, repository: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.repository = repository

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state's folder, the repository, and which Variables bind its runs."""
        namespace = self.hook.client.repository(self.repository).namespace
        state = steps.open_state(namespace, storage_options(self.aws_conn_id))
        return state, self.repository, present_variables(GC_SCHEDULES, "repository", self.repository)

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Take the right of the repository."""
        config = steps.GCConfig(repository=self.repository)
        grant = steps.acquire_lease(config, holder, self.hook.client, storage_options(self.aws_conn_id))
        return grant, {"repository": self.repository}

    def resume(self, grant: LeaseGrant) -> None:
        """Let the run go on under a new right."""
        steps.resume_run(self.run_uri, self.repository, grant, storage_options(self.aws_conn_id))


class LakeFSPlanRunOperator(LakeFSOperator):
    """Fix what a run works on: cutoff by the object store's clock, limits, mode; and make the run's folder.

    :param config: settings by name, such as ``{"repository": "lake", "dry_run": False}``; docs/settings.md lists them.
        Values may be given as they are or as rendered text; an unknown name or a value that does not fit fails the
        task before anything is touched (templated)
    :param lease: what the acquire task returned (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, whose staging records the mark step and the
        check before the sweep then read; only whether there is one goes into the plan (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("config", "lease", "kv_conn_id")

    def __init__(
        self, *, config: Mapping[str, Any], lease: Any = None, kv_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.lease = lease
        self.kv_conn_id = kv_conn_id

    def checked(self, window: tuple[datetime, datetime] | None = None) -> steps.GCConfig:
        """Return the rendered settings as the collector's own type.

        :param window: begin and end of the time whose slices are listed; None lists all that no run has covered
        :raises ConfigError: an unknown name, or a value that does not fit
        """
        config = steps.GCConfig.from_params(self.config, storage_options(self.aws_conn_id))
        if is_named(self.kv_conn_id):
            config = replace(config, read_kv=True)
        if window is not None:
            begin, end = (at.isoformat() for at in window)
            config = replace(config, window_begin=begin, window_end=end)
        return config

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return where it is."""
        lease = from_json(LeaseGrant, self.lease) if isinstance(self.lease, Mapping) else None
        config = self.checked(data_window(context))
        plan = steps.plan_run(config, lease, self.hook.client, storage_options(self.aws_conn_id))
        return {
            "run_id": plan.run_id,
            "run_uri": plan.run_uri,
            "repository": plan.repository,
            "namespace": plan.namespace,
            "cutoff": plan.cutoff.isoformat(),
            "dry_run": plan.dry_run,
            "mode": plan.mode,
            "why_mode": plan.why_mode,
            "window": [config.window_begin, config.window_end],
        }


class LakeFSSaveReportOperator(LineageMixin, LakeFSOperator):
    """Write the report of a run, also of one that failed, and give its lease back; then fail if the run did
    not complete. A run that a person rejected has ended well.

    It decides about the state of the DAG run, so make it a teardown (``as_teardown(on_failure_fail_dagrun=True)``): it
    runs whatever happened, also when a person marked the run as failed. Its outlet events carry the figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param repository: its name, for the event of a run that came to no plan (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "save_report"
    template_fields: Sequence[str] = ("run_uri", "repository")
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, run_uri: str, repository: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.repository = repository

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when a step is missing."""
        if not self.run_uri:
            why = first_failure(self, context)
            leave_event(context, "failed", self.repository, text=why)
            raise RefusedError(
                f"the run came to no plan, so there is nothing to report and nothing was deleted. {why}"
            )
        run = self.open_run(self.run_uri)
        with tasks_environment(run):
            summary = steps.save_report(run)
        # When only failed tasks were cleared, the last task has run before and will not run again, but the
        # tasks that went on took the right back.
        steps.release_lease(run)
        report, outcome = str(summary.details["page"]), summary.details["outcome"]
        context["ti"].xcom_push(REPORT, report)
        self.lineage = Lineage(
            run.plan.namespace, run.plan.repository, run.plan.run_id, dict(summary.counts), outcome, report
        )
        figures = report_metrics(self.step, summary, run.plan.repository)
        report_run(summary, run.plan.repository)
        problem = what_went_wrong(outcome, lambda: steps.read_report(run))
        told = {"run": run.plan.run_id, "counts": figures["counts"], "report": report, "text": problem}
        leave_event(context, outcome, run.plan.repository, **told)
        if problem:
            raise RefusedError(f"run {run.plan.run_id} is {outcome}. {problem} The report: {report}")
        facts = {"repository": run.plan.repository, "run_id": run.plan.run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: report, **figures["counts"]}
        return {**figures, **facts, REPORT: report}


class LakeFSReleaseLeaseOperator(LakeFSOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    Before that it ends the Spark application of the run on this machine, when it waits for steps that will not come.

    :param grant: what the acquire task returned (templated)
    :param run_uri: folder of the run; empty when there is no plan (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        if self.run_uri:
            end_applications(self.run_uri)
        if not isinstance(self.grant, Mapping):
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        grant = from_json(LeaseGrant, self.grant)
        config = steps.GCConfig(repository=self.grant["repository"])
        steps.release_grant(config, grant, self.hook.client, storage_options(self.aws_conn_id))
        return {"repository": config.repository, "released": grant.fencing}
