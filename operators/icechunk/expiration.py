"""Expiration of snapshots: plan, apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.gates import read_grant
from airflow_dredge.operators.icechunk.base import IcechunkOperator, need_plan
from airflow_dredge.operators.reporting import REPORT, ReportLink
from airflow_dredge.operators.schedules import data_window
from dredge.icechunk.collection.config import MIN_AGE_DEFAULT
from dredge.icechunk.expiration.config import Expiration, ExpireConfig
from dredge.runs.clock import utc_now
from dredge.runs.payload import from_json, to_json
from dredge.settings import truth
from dredge.storage import open_reader

if TYPE_CHECKING:
    from airflow.sdk import Context

# The steps of an expiration are imported inside methods: each task of each DAG imports all operators.


class IcechunkPlanExpirationOperator(IcechunkOperator):
    """Plan an expiration, and store the plan as data, text, diagram and page beside the repository. Changes nothing.

    In scheduled and backfilled runs, durations count back from the end of the data interval, so a late or repeated run
    expires no more snapshots than a run in time.

    :param config: settings by name, such as ``{"older_than": "30d"}``; docs/settings.md lists them. Values
        may be rendered text; an unknown name or invalid value fails the task before it changes anything
        (templated)
    :param min_age_hours: minimum age of the collection, for the estimate; None for its default (templated)
    """

    template_fields: Sequence[str] = ("storage", "config", "min_age_hours")
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        min_age_hours: float | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.min_age_hours = min_age_hours

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return its counts, digest and URI."""
        from dredge.icechunk.expiration.plan import plan_for
        from dredge.icechunk.expiration.restore import PAGE, store_plan
        from dredge.icechunk.repository import read_history

        config = ExpireConfig.from_params(self.config or {})
        reader, window = open_reader(self.storage, self.options), data_window(context)
        now = utc_now() if window is None else min(window[1], utc_now())
        expiration = Expiration.from_config(config, now)
        plan = plan_for(reader, read_history(reader), expiration, utc_now())
        if config.estimate:
            from dredge.icechunk.collection.index import estimate

            min_age = timedelta(hours=float(self.min_age_hours or MIN_AGE_DEFAULT))
            plan = plan.with_freed(estimate(reader, plan, min_age, utc_now()))
        where = store_plan(self.storage, plan, utc_now(), self.options)
        if "ti" in context:
            context["ti"].xcom_push(REPORT, f"{where}/{PAGE}")
        return {
            "plan_uri": where,
            "digest": plan.digest,
            "window": None if window is None else [at.isoformat() for at in window],
            "expiration": to_json(expiration),
            "released": len(plan.released),
            "edited": len(plan.edits),
            "refs_deleted": [ref.label for ref in plan.refs_deleted],
            "would_free_bytes": plan.frees.size_bytes if plan.frees is not None else None,
        }


class IcechunkExpireOperator(IcechunkOperator):
    """Apply an expiration. Deletes no object.

    The task makes the plan again for the current repository, with the same threshold, rule and flags.

    :param plan: XCom of the plan task (templated)
    :param lease: XCom of the acquire task; None acquires a lease for this task (templated)
    :param exactly: whether to refuse if the repository changed since the plan
    :param report_only: whether this is a dry run, which changes nothing (templated)
    """

    template_fields: Sequence[str] = ("storage", "plan", "lease", "report_only")

    def __init__(
        self,
        *,
        plan: Any,
        lease: Any = None,
        exactly: bool = False,
        report_only: bool | str = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plan = plan
        self.lease = lease
        self.exactly = exactly
        self.report_only = report_only

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Apply the plan; in a dry run change nothing."""
        from dredge.icechunk.expiration.apply import expire

        plan = need_plan(self.plan)
        if truth("report_only", self.report_only):
            self.log.info("Dry run: nothing is changed. Plan: %s", plan["plan_uri"])
            return {"dry_run": True, "expiration_id": "", "edited": 0, "released": 0, "refs_deleted": []}
        done = expire(
            self.storage,
            from_json(Expiration, plan["expiration"]),
            approved_digest=plan["digest"] if self.exactly else None,
            lease=read_grant(self.lease),
            options=self.options,
        )
        return {
            "dry_run": False,
            "edited": len(done.edited),
            "expiration_id": done.expiration_id,
            "released": len(done.plan.released),
            "refs_deleted": [ref.label for ref in done.refs_deleted],
        }
