"""First and last tasks of a lakeFS collection: preflight, lease, plan, report."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import structs

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.gates import AcquireLeaseOperator, CheckOperator, end_run, read_grant
from airflow_dredge.operators.hooks.kv import LakeFSKVConnection
from airflow_dredge.operators.hooks.lakefs import LakeFSHook
from airflow_dredge.operators.hooks.storage import storage_options, tasks_environment
from airflow_dredge.operators.lakefs.base import LakeFSOperator, ReachesLakeFS, find_few_rows
from airflow_dredge.operators.lakefs.params import GC_SCHEDULES
from airflow_dredge.operators.params import is_given
from airflow_dredge.operators.reporting import ReportOperator
from airflow_dredge.operators.run_check import present_variables
from airflow_dredge.operators.schedules import data_window
from airflow_dredge.operators.spark import SparkJobOperator, check_spark
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter, StorageOptions


class LakeFSCheckOperator(ReachesLakeFS, CheckOperator, SparkJobOperator):
    """Run the preflight if ``check_only`` is set: the checks of `dredge gc check`, and a Spark job on executors.

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
        super().__init__(**{**kwargs, "run_uri": ""})  # the preflight has no run
        self.config = config
        self.kv_conn_id = kv_conn_id
        self.lakefs_conn_id = lakefs_conn_id

    def ask(self) -> Preflight:
        """Check server, store, key-value store and Spark."""
        options = storage_options(self.aws_conn_id)
        kv = None
        if is_given(self.kv_conn_id):
            connection = LakeFSKVConnection.read(str(self.kv_conn_id))
            kv = steps.KVAccess(connection.url, connection.keys)
        found = steps.check(steps.GCConfig.from_params(self.config, options), self.hook.client, options, kv)
        self.run_uri = f"check://{uuid.uuid4().hex}"
        return structs.replace(found, lines=(*found.lines, check_spark(self)))


class LakeFSAcquireLeaseOperator(LakeFSOperator, AcquireLeaseOperator):
    """Acquire the lease of a repository; see :class:`AcquireLeaseOperator`.

    :param repository: lakeFS repository (templated)
    """

    command = "dredge gc"
    template_fields: Sequence[str] = ("repository", "run_uri")

    def __init__(self, *, repository: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.repository = repository

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state folder, the repository, and the presence of the Variables."""
        namespace = self.hook.client.repository(self.repository).namespace
        state = steps.open_state(namespace, storage_options(self.aws_conn_id))
        return state, self.repository, present_variables(GC_SCHEDULES, "repository", self.repository)

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Acquire the lease."""
        config = steps.GCConfig(repository=self.repository)
        grant = steps.acquire_lease(config, holder, self.hook.client, storage_options(self.aws_conn_id))
        return grant, {"repository": self.repository}

    def resume(self, grant: LeaseGrant) -> None:
        """Write the new lease into the run's plan."""
        steps.resume_run(self.open_run(self.run_uri), self.repository, grant)


class LakeFSPlanRunOperator(ReachesLakeFS, SparkJobOperator):
    """Plan a run (cutoff by the object store's clock, limits, mode), and create the run folder. Start Spark if the next
    task needs it.

    :param config: settings by name, such as ``{"repository": "lake", "dry_run": False}``; docs/settings.md
        lists them. Values may be rendered text; an unknown name or invalid value fails the task before it
        changes anything (templated)
    :param lease: XCom of the acquire task (templated)
    :param kv_conn_id: connection of lakeFS's key-value store; the plan only stores whether one is configured
        (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param spark_rows_min: as for ``LakeFSSparkOperator`` (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "plan"
    template_fields: Sequence[str] = (
        *SparkJobOperator.template_fields,
        "config",
        "lease",
        "kv_conn_id",
        "spark_rows_min",
    )

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        lease: Any = None,
        kv_conn_id: str | None = None,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        spark_rows_min: int | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "run_uri": ""})  # the run has no folder yet
        self.lakefs_conn_id = lakefs_conn_id
        self.spark_rows_min = spark_rows_min
        self.config = config
        self.lease = lease
        self.kv_conn_id = kv_conn_id

    @cached_property
    def options(self) -> StorageOptions:
        """Access to the store."""
        return storage_options(self.aws_conn_id)

    def checked(self, window: tuple[datetime, datetime] | None = None) -> steps.GCConfig:
        """Return the rendered settings as a config.

        :param window: begin and end of the slices to list; None lists all slices not listed before
        """
        config = steps.GCConfig.from_params(self.config, self.options)
        if is_given(self.kv_conn_id):
            config = replace(config, read_kv=True)
        if window is not None:
            begin, end = (at.isoformat() for at in window)
            config = replace(config, window_begin=begin, window_end=end)
        return config

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return its run folder."""
        config = self.checked(data_window(context))
        plan = steps.plan_run(config, read_grant(self.lease), self.hook.client, self.options)
        self.run_uri = plan.run_uri
        run = steps.Run.open(plan.run_uri, self.options, self.hook.client, plan=plan)
        if find_few_rows(run, "slice_listing", int(self.spark_rows_min)) is None:
            self.begin_spark()
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


class LakeFSSaveReportOperator(LakeFSOperator, ReportOperator):
    """Write the report of a run and release its lease; see :class:`ReportOperator`.

    :param run_uri: folder of the run, from the plan task (templated)
    :param repository: name of the repository, for the event of a run without a plan (templated)
    """

    step, key = "save_report", "repository"
    template_fields: Sequence[str] = ("run_uri", "repository")

    def __init__(self, *, run_uri: str, repository: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.repository = repository

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise if a step is missing."""
        if not self.run_uri:
            self.refuse_without_run(context, self.repository)
        run = self.open_run(self.run_uri)
        with tasks_environment(run.options):
            summary = steps.save_report(run)
        # If only failed tasks were cleared, release_lease does not run again, but they renewed the lease.
        steps.release_lease(run)
        where = (run.plan.namespace, run.plan.repository, run.plan.run_id)
        return self.conclude(context, *where, summary, lambda: steps.read_report(run))


class LakeFSReleaseLeaseOperator(LakeFSOperator):
    """Release the lease if this run holds it, and stop the run's idle Spark application on this machine.

    :param grant: XCom of the acquire task (templated)
    :param run_uri: folder of the run; empty without a plan (templated)
    """

    template_fields: Sequence[str] = ("grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Release the lease."""
        grant = end_run(self.run_uri, self.grant)
        config = steps.GCConfig(repository=self.grant["repository"])
        steps.release_grant(config, grant, self.hook.client, storage_options(self.aws_conn_id))
        return {"repository": config.repository, "released": grant.fencing}
