"""The step that fixes what a run works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dredge.errors import ConfigError
from dredge.gc import steps
from dredge.gc.config import AUTO, MIN_AGE_HOURS, SLICE_MARGIN_HOURS, GCConfig
from dredge.gc.retention.policy import RetentionPolicy, load_policy
from dredge.runs.lease import LeaseGrant
from operators.failures import reported
from operators.hooks.storage import storage_options
from operators.lakefs.base import LakeFSOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_WINDOWED = ("scheduled", "backfill")


class LakeFSPlanRunOperator(LakeFSOperator):
    """Fix what a run works on: cutoff by the object store's clock, limits, mode; and make the run's folder.

    Values may be given as they are or as rendered text; ``None`` and empty text mean no value.

    :param repository: lakeFS repository (templated)
    :param lease: what the acquire task returned (templated)
    :param mode: ``clean`` reads everything; ``optimized`` what changed since the last complete run that was no
        dry run; ``auto`` is optimized, and clean at intervals (templated)
    :param slice_margin_hours: slices are listed again until they are as old as this (templated)
    :param clean_every_days: after as many days an ``auto`` run is a clean one (templated)
    :param keep_runs_days: older run folders are removed at the end of the run; None keeps them for ever (templated)
    :param report_only: a dry run: report, delete nothing (templated)
    :param min_age_hours: younger objects are never candidates; at least 25 (templated)
    :param unsafe_min_age_seconds: replaces ``min_age_hours`` and may be shorter, for tests (templated)
    :param max_delete_objects: more candidates stop the run (templated)
    :param max_delete_percent: a larger share of the listed objects stops the run (templated)
    :param keep_tags: commits that a tag names stay active (templated)
    :param retention_policy: what else stays: a YAML file by absolute path or URI, or its text (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, whose staging records the mark step and the
        check before the sweep then read; only whether there is one goes into the plan (templated)
    :param run_root: URI of the folder for run folders; None is the place inside the namespace (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = (
        "repository",
        "lease",
        "mode",
        "slice_margin_hours",
        "clean_every_days",
        "keep_runs_days",
        "report_only",
        "min_age_hours",
        "unsafe_min_age_seconds",
        "max_delete_objects",
        "max_delete_percent",
        "run_root",
        "keep_tags",
        "retention_policy",
        "kv_conn_id",
    )

    def __init__(
        self,
        *,
        repository: str,
        lease: Any = None,
        mode: str = AUTO,
        slice_margin_hours: float | str = SLICE_MARGIN_HOURS,
        clean_every_days: float | str = 30,
        keep_runs_days: float | str | None = 90,
        report_only: bool | str = True,
        min_age_hours: float | str = MIN_AGE_HOURS,
        unsafe_min_age_seconds: float | str | None = None,
        max_delete_objects: int | str | None = None,
        max_delete_percent: float | str | None = None,
        run_root: str | None = None,
        keep_tags: bool | str = True,
        retention_policy: str | None = None,
        kv_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repository = repository
        self.lease = lease
        self.mode = mode
        self.slice_margin_hours = slice_margin_hours
        self.clean_every_days = clean_every_days
        self.keep_runs_days = keep_runs_days
        self.report_only = report_only
        self.min_age_hours = min_age_hours
        self.unsafe_min_age_seconds = unsafe_min_age_seconds
        self.max_delete_objects = max_delete_objects
        self.max_delete_percent = max_delete_percent
        self.run_root = run_root
        self.keep_tags = keep_tags
        self.retention_policy = retention_policy
        self.kv_conn_id = kv_conn_id

    def config(self, window: tuple[datetime, datetime] | None = None) -> GCConfig:
        """Return the rendered values as the collector's own type.

        :param window: begin and end of the time whose slices are listed; None lists all that no run has covered
        """
        begin, end = window or (None, None)
        margin, days = (
            number("slice_margin_hours", self.slice_margin_hours),
            number("clean_every_days", self.clean_every_days),
        )
        age = number("min_age_hours", self.min_age_hours)
        objects = number("max_delete_objects", self.max_delete_objects)
        return GCConfig(
            repository=self.repository,
            mode=self.mode,
            window_begin=begin.isoformat() if begin is not None else None,
            window_end=end.isoformat() if end is not None else None,
            slice_margin_hours=SLICE_MARGIN_HOURS if margin is None else margin,
            clean_every_days=30.0 if days is None else days,
            keep_runs_days=number("keep_runs_days", self.keep_runs_days),
            dry_run=truth("report_only", self.report_only),
            min_age_hours=MIN_AGE_HOURS if age is None else age,
            unsafe_min_age_seconds=number("unsafe_min_age_seconds", self.unsafe_min_age_seconds),
            max_delete_objects=None if objects is None else int(objects),
            max_delete_percent=number("max_delete_percent", self.max_delete_percent),
            run_root=None if self.run_root in (None, "", "None") else self.run_root,
            keep_tags=truth("keep_tags", self.keep_tags),
            policy=self._policy(),
            read_kv=self.kv_conn_id not in (None, "", "None"),
        )

    def _policy(self) -> RetentionPolicy | None:
        if self.retention_policy is None or self.retention_policy.strip() in ("", "None"):
            return None
        return load_policy(self.retention_policy, storage_options(self.aws_conn_id))

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return where it is."""
        lease = LeaseGrant.from_json(self.lease) if isinstance(self.lease, Mapping) else None
        config = self.config(data_window(context))
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


def data_window(context: Context) -> tuple[datetime, datetime] | None:
    """Return the data interval of a scheduled or backfilled run; None when the run has to look at everything.

    A run by hand, by an asset or by another DAG has no window: Airflow gives it no interval, one without
    length, or some interval near the time at which it was started.

    :param context: of the task
    """
    run = context.get("dag_run")
    if run is None or str(getattr(run.run_type, "value", run.run_type)) not in _WINDOWED:
        return None
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    return (begin, end) if begin is not None and end is not None and begin < end else None


def number(name: str, value: float | str | None) -> float | None:
    """Return a rendered number."""
    if value is None or value in ("", "None"):
        return None
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"{name} is {value!r}, which is not a number") from None


def truth(name: str, value: bool | str) -> bool:
    """Return a rendered yes or no; nothing else is taken for either."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {value!r}; it may be true or false")
    return text == "true"
