"""The steps that delete what nothing reaches: the plan of a collection, the collection, its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.collection import sweeping
from dredge.icechunk.collection.by_library import collect_by_library
from dredge.icechunk.collection.config import CollectConfig, PlannedExpiration
from dredge.icechunk.collection.plan import Context as Run
from dredge.icechunk.collection.plan import plan_collection
from dredge.icechunk.collection.report import REPORT as REPORT_JSON
from dredge.icechunk.collection.steps import run_steps, save_report
from dredge.runs.tasks import LocalRunner
from operators.failures import first_failure, reported
from operators.hooks.storage import storage_options
from operators.icechunk.base import IcechunkOperator, granted
from operators.lakefs.base import tasks_environment, told
from operators.lakefs.plan import number, truth
from operators.lakefs.save_report import REPORT, ReportLink
from operators.spark import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkPlanCollectionOperator(IcechunkOperator):
    """Fix what a collection works on; in mode ``library`` let the library do it all at once.

    Values may be given as they are or as rendered text; ``None`` and empty text mean no value.

    :param storage: URI of the repository (templated)
    :param lease: what the acquire task returned (templated)
    :param expiration: what the task that planned the expiration returned; a dry run reports what a collection would
        delete after it (templated)
    :param collect: whether to collect at all; the tasks that follow are skipped otherwise (templated)
    :param mode: ``spark``, ``local`` or ``library`` (templated)
    :param report_only: a dry run: report, delete nothing (templated)
    :param min_age_hours: younger objects stay; at least 24, and longer than any writing session (templated)
    :param unsafe_min_age_seconds: replaces ``min_age_hours`` and may be shorter, for tests (templated)
    :param grace_hours: how long released snapshots of spec 1 stay (templated)
    :param overwritten_min_age_hours: also delete older copies of the repo info; None keeps them (templated)
    :param keep_chunks: delete no chunk, where live ones are missing (templated)
    :param keep_transactions: delete no transaction log; likewise (templated)
    :param max_delete_objects: more candidates stop the run (templated)
    :param max_delete_percent: a larger share of the listed objects stops the run (templated)
    :param run_root: URI of the folder for run folders; None is inside the repository (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = (
        "storage",
        "lease",
        "expiration",
        "collect",
        "mode",
        "report_only",
        "min_age_hours",
        "unsafe_min_age_seconds",
        "grace_hours",
        "overwritten_min_age_hours",
        "keep_chunks",
        "keep_transactions",
        "max_delete_objects",
        "max_delete_percent",
        "run_root",
    )

    def __init__(
        self,
        *,
        lease: Any = None,
        expiration: Any = None,
        collect: bool | str = True,
        mode: str = "spark",
        report_only: bool | str = True,
        min_age_hours: float | str = 168,
        unsafe_min_age_seconds: float | str | None = None,
        grace_hours: float | str = 24,
        overwritten_min_age_hours: float | str | None = None,
        keep_chunks: bool | str = False,
        keep_transactions: bool | str = False,
        max_delete_objects: int | str | None = None,
        max_delete_percent: float | str | None = None,
        run_root: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lease = lease
        self.expiration = expiration
        self.collect = collect
        self.mode = mode
        self.report_only = report_only
        self.min_age_hours = min_age_hours
        self.unsafe_min_age_seconds = unsafe_min_age_seconds
        self.grace_hours = grace_hours
        self.overwritten_min_age_hours = overwritten_min_age_hours
        self.keep_chunks = keep_chunks
        self.keep_transactions = keep_transactions
        self.max_delete_objects = max_delete_objects
        self.max_delete_percent = max_delete_percent
        self.run_root = run_root

    def config(self) -> CollectConfig:
        """Return the rendered values as the collector's own type."""
        age = number("min_age_hours", self.min_age_hours)
        grace = number("grace_hours", self.grace_hours)
        objects = number("max_delete_objects", self.max_delete_objects)
        dry_run = truth("report_only", self.report_only)
        return CollectConfig(
            uri=self.storage,
            dry_run=dry_run,
            after=_planned(self.expiration) if dry_run else None,
            min_age_hours=168.0 if age is None else age,
            unsafe_min_age_seconds=number("unsafe_min_age_seconds", self.unsafe_min_age_seconds),
            grace_hours=24.0 if grace is None else grace,
            overwritten_min_age_hours=number("overwritten_min_age_hours", self.overwritten_min_age_hours),
            keep_chunks=truth("keep_chunks", self.keep_chunks),
            keep_transactions=truth("keep_transactions", self.keep_transactions),
            max_delete_objects=None if objects is None else int(objects),
            max_delete_percent=number("max_delete_percent", self.max_delete_percent),
            run_root=None if self.run_root in (None, "", "None") else self.run_root,
        )

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return where it is; with the library, collect and skip what follows."""
        if not truth("collect", self.collect):
            return {"run_uri": "", "mode": "none"}
        if self.mode not in ("spark", "local", "library"):
            raise ConfigError(f"mode is {self.mode!r}; it may be spark, local or library")
        if self.mode == "library":
            found = collect_by_library(self.config(), self.options, lease=granted(self.lease))
            return {**found, "run_uri": "", "mode": self.mode}
        plan = plan_collection(self.config(), granted(self.lease), self.options)
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


class IcechunkCollectOperator(SparkJobOperator):
    """Mark, look for candidates, ask the guards, sweep and verify: on Spark, or in this worker.

    The only task that deletes. Killed or failed, it goes on where it stopped.

    :param plan: what the plan task returned (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``SparkJobOperator``.
    """

    step = "icechunk_collect"
    folder = sweeping.STEP
    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "plan")

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**{"run_uri": "", **kwargs})
        self.plan = plan

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Collect, and return the figures of the sweep."""
        if not isinstance(self.plan, Mapping):
            raise ConfigError(
                "there is no plan, because an earlier task failed; see its log. Nothing was done."
            )
        self.run_uri = self.plan["run_uri"]
        if not self.run_uri:
            raise AirflowSkipException(
                "nothing is left to collect here: the library did it, or nobody asked for it"
            )
        run = Run.open(self.run_uri, storage_options(self.aws_conn_id))
        if self.plan["mode"] == "local":
            with tasks_environment(run):
                summary = run_steps(run, LocalRunner())
        else:
            summary = self.run_job(context, run)
        return told(self.step, summary, run.plan.uri)


class IcechunkSaveReportOperator(IcechunkOperator):
    """Write the report of a collection, also of one that failed; then fail if it did not complete.

    Give this task the trigger rule ``all_done``.

    :param storage: URI of the repository (templated)
    :param plan: what the plan task returned (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("storage", "plan")
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, plan: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the report; raise when the collection did not end well."""
        if not isinstance(self.plan, Mapping):
            raise RefusedError(
                f"there was no collection, because an earlier task failed. {first_failure(self, context)}"
            )
        if not self.plan["run_uri"]:
            raise AirflowSkipException("this run has no collection of its own to report")
        run = Run.open(self.plan["run_uri"], storage_options(self.aws_conn_id))
        summary = save_report(run)
        outcome, page = summary.details["outcome"], str(summary.details["page"])
        context["ti"].xcom_push(REPORT, page)
        if outcome not in ("success", "dry_run"):
            problems = run.folder.read_json(REPORT_JSON)["problems"] or [
                "a task ended before it could say why"
            ]
            raise RefusedError(f"run {run.plan.run_id} is {outcome}. {problems[0]} The report: {page}")
        facts = {"storage": run.plan.uri, "run_id": run.plan.run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: page, **summary.counts}
        return {**told("icechunk_report", summary, run.plan.uri), **facts, REPORT: page}
