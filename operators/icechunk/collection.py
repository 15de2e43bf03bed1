"""Tasks of an Icechunk collection, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_dredge.operators.application import end_applications
from airflow_dredge.operators.failures import first_failure, reported
from airflow_dredge.operators.gates import (
    AcquireLeaseOperator,
    ApproveOperator,
    CheckOperator,
    what_went_wrong,
)
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.icechunk.base import IcechunkOperator, IcechunkSparkOperator, granted, open_run
from airflow_dredge.operators.icechunk.params import ICECHUNK_SCHEDULES
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
from airflow_dredge.operators.spark import PlannedRun
from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.collection.config import CollectConfig, PlannedExpiration
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import spec_version
from dredge.runs.lease import LeaseGrant
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import LocalRunner
from dredge.settings import truth
from dredge.storage import open_reader

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.icechunk.collection.steps import Run
    from dredge.runs.preflight import Preflight
    from dredge.storage import ObjectWriter


class IcechunkCheckOperator(IcechunkOperator, CheckOperator):
    """Ask for everything that a collection will need, as `dredge icechunk check` does.

    :param storage: URI of the repository (templated)
    :param config: as for ``IcechunkPlanCollectionOperator`` (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("check_only", "storage", "config")

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    def ask(self) -> Preflight:
        """Ask the store and the repository."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.preflight import check

        return check(CollectConfig.from_params({"storage": self.storage, **self.config}), self.options)


class IcechunkAcquireLeaseOperator(IcechunkOperator, AcquireLeaseOperator):
    """Take the exclusive right to maintain a repository; while another run has it, wait without a worker slot.

    :param storage: URI of the repository (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles

    Further parameters are those of ``AcquireLeaseOperator``.
    """

    command = "dredge icechunk"
    template_fields: Sequence[str] = ("storage", "run_uri")

    def bound_by(self) -> tuple[ObjectWriter, str, Mapping[str, bool | None]]:
        """Return the state's folder, the repository, and which Variables bind its runs."""
        present = present_variables(ICECHUNK_SCHEDULES, "storage", self.storage)
        spec_version(
            open_reader(self.storage, self.options)
        )  # nothing is written where there is no repository
        return open_state(self.storage, self.options), self.storage, present

    def take(self, holder: str) -> tuple[LeaseGrant, dict[str, Any]]:
        """Take the right of the repository."""
        spec = spec_version(open_reader(self.storage, self.options))
        grant = make_lease(open_state(self.storage, self.options)).acquire(holder)
        return grant, {"storage": self.storage, "spec_version": spec}

    def resume(self, grant: LeaseGrant) -> None:
        """Let the collection go on under a new right."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import resume_run

        resume_run(self.run_uri, self.storage, grant, self.options)


class IcechunkPlanCollectionOperator(IcechunkOperator):
    """Fix what a collection works on.

    :param storage: URI of the repository (templated)
    :param config: further settings by name, such as ``{"dry_run": False}``; docs/settings.md lists them. Values may be
        given as they are or as rendered text; an unknown name or a value that does not fit fails the task before
        anything is touched (templated)
    :param lease: what the acquire task returned (templated)
    :param expiration: what the task that planned the expiration returned; a dry run reports what a collection would
        delete after it (templated)
    :param collect: whether to collect at all; the tasks that follow are skipped otherwise (templated)
    :param mode: ``spark`` or ``local`` (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "config", "lease", "expiration", "collect", "mode")

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        lease: Any = None,
        expiration: Any = None,
        collect: bool | str = True,
        mode: str = "spark",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.lease = lease
        self.expiration = expiration
        self.collect = collect
        self.mode = mode

    def checked(self) -> CollectConfig:
        """Return the rendered settings as the collector's own type.

        :raises ConfigError: an unknown name, or a value that does not fit
        """
        config = CollectConfig.from_params({"storage": self.storage, **(self.config or {})})
        return replace(config, after=_planned(self.expiration)) if config.dry_run else config

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return where it is."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import plan_collection

        if not truth("collect", self.collect):
            return {"run_uri": "", "mode": "none"}
        if self.mode not in ("spark", "local"):
            raise ConfigError(f"mode is {self.mode!r}; it may be spark or local")
        plan = plan_collection(self.checked(), granted(self.lease), self.options)
        return {
            "run_id": plan.run_id,
            "run_uri": plan.run_uri,
            "mode": self.mode,
            "cutoff": plan.cutoff.isoformat(),
            "dry_run": plan.config.dry_run,
        }


def _planned(value: Any) -> PlannedExpiration | None:
    if not isinstance(value, Mapping):
        return None
    return PlannedExpiration(
        threshold=value["threshold"],
        rule=value["rule"],
        delete_expired_branches=value["delete_expired_branches"],
        delete_expired_tags=value["delete_expired_tags"],
    )


class IcechunkMarkOperator(IcechunkSparkOperator):
    """Mark what is live, look for candidates, and ask the guards: on Spark, or in this worker. Deletes nothing.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_mark"

    def work(self, run: Run) -> StepSummary:
        """Do the steps in this worker."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import find_garbage

        return find_garbage(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return what the guards found, the last step of the job."""
        from dredge.icechunk.collection.check_limits import CheckLimitsOutput

        return run.folder.read_summary(CheckLimitsOutput.STEP)


class IcechunkApproveOperator(ApproveOperator):
    """Ask a person whether a run may delete, where its settings and its limits want that; else go on at once.

    ``ApproveOperator`` says how it is answered; commands are ``dredge icechunk approve`` and ``dredge icechunk
    reject``.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    asks = "Delete the garbage of an Icechunk repository?"

    def __init__(self, *, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.aws_conn_id = aws_conn_id

    @property
    def steps(self) -> Any:
        """The steps of a collection of Icechunk."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection import steps

        return steps

    def open(self) -> Run:
        """Open the run."""
        return open_run(self.run_uri, self.aws_conn_id)


class IcechunkCollectOperator(IcechunkSparkOperator):
    """Sweep and verify, after all steps before that are not done: on Spark, or in this worker.

    The only task that deletes. Killed or failed, it goes on where it stopped. Where a person has to be asked it deletes
    nothing before a yes, whatever became of the task that asks.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_collect"

    def work(self, run: Run) -> StepSummary:
        """Do the steps in this worker."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import run_steps

        return run_steps(run, LocalRunner())

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the summary of the sweep, the step of the job that deletes."""
        from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput

        return run.folder.read_summary(BulkDeleteOutput.STEP)


class IcechunkSaveReportOperator(LineageMixin, IcechunkOperator):
    """Write the report of a collection, also of one that failed, and give its lease back; then fail if it did not
    complete. A run that a person rejected has ended well.

    It decides about the state of the DAG run, so make it a teardown (``as_teardown(on_failure_fail_dagrun=True)``): it
    runs whatever happened, also when a person marked the run as failed.

    :param storage: URI of the repository (templated)
    :param plan: what the plan task returned (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "plan")
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when the collection did not end well."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection.steps import Run, read_report, release_lease, save_report

        if not isinstance(self.plan, Mapping):
            why = first_failure(self, context)
            leave_event(context, "failed", self.storage, text=why)
            raise RefusedError(f"there was no collection, because an earlier task failed. {why}")
        if not self.plan["run_uri"]:
            raise AirflowSkipException("this run has no collection of its own to report")
        run = Run.open(self.plan["run_uri"], storage_options(self.aws_conn_id))
        summary = save_report(run)
        # When only failed tasks were cleared, the last task has run before and will not run again, but the tasks that
        # went on took the right back.
        release_lease(run)
        outcome, page = summary.details["outcome"], str(summary.details["page"])
        context["ti"].xcom_push(REPORT, page)
        report_run(summary, run.plan.uri)
        figures = dict(summary.counts)
        self.lineage = Lineage(run.plan.uri, run.plan.uri, run.plan.run_id, figures, outcome, page)
        problem = what_went_wrong(outcome, lambda: read_report(run))
        run_id = run.plan.run_id
        leave_event(context, outcome, run.plan.uri, run=run_id, counts=figures, report=page, text=problem)
        if problem:
            raise RefusedError(f"run {run.plan.run_id} is {outcome}. {problem} The report: {page}")
        facts = {"storage": run.plan.uri, "run_id": run.plan.run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: page, **summary.counts}
        return {**report_metrics("icechunk_report", summary, run.plan.uri), **facts, REPORT: page}


class IcechunkReleaseLeaseOperator(IcechunkOperator):
    """Give the right back, whatever became of the run. A right that went to somebody else is left alone.

    Before that it ends the Spark application of the run on this machine, when it waits for steps that will not come.

    :param storage: URI of the repository (templated)
    :param grant: what the acquire task returned (templated)
    :param run_uri: folder of the collection; empty when there is none (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "grant", "run_uri")

    def __init__(self, *, grant: Any, run_uri: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grant = grant
        self.run_uri = run_uri

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Give the right back."""
        if self.run_uri:
            end_applications(self.run_uri)
        grant = granted(self.grant)
        if grant is None:
            raise ConfigError("no lease was taken in this run, so there is none to give back")
        make_lease(open_state(self.storage, self.options)).release(grant)
        return {"storage": self.storage, "released": grant.fencing}
