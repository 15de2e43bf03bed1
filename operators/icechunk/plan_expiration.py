"""The step that shows what an expiration would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import IcechunkOperator
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.schedules import data_window
from dredge.icechunk.collection.config import MIN_AGE_DEFAULT
from dredge.icechunk.expiration.config import Expiration, ExpireConfig
from dredge.icechunk.expiration.kept_refs import plan_for
from dredge.icechunk.expiration.stored import PAGE, store_plan
from dredge.icechunk.repository import read_history
from dredge.runs.clock import utc_now
from dredge.runs.payload import to_json
from dredge.storage import open_reader

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkPlanExpirationOperator(IcechunkOperator):
    """Plan an expiration, and store the plan as data, text, picture and page beside the repository.

    Changes nothing. In a run on a schedule, and in one of a backfill, durations count back from the end of the run's
    interval: what a late or repeated run expires is what one in time would have, or less.

    :param storage: URI of the repository (templated)
    :param config: settings by name, such as ``{"older_than": "30d"}``; docs/settings.md lists them. Values may be given
        as they are or as rendered text; an unknown name or a value that does not fit fails the task before anything is
        touched (templated)
    :param min_age_hours: minimum age of the collection, for the estimate; None is its default (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
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
        """Make the plan and return its figures, digest and place."""
        config = ExpireConfig.from_params(self.config or {})
        reader, window = open_reader(self.storage, self.options), data_window(context)
        now = utc_now() if window is None else min(window[1], utc_now())
        expiration = Expiration.from_config(config, now)
        plan = plan_for(reader, read_history(reader), expiration, utc_now())
        if config.estimate:
            # Loaded by this task only: every task of every DAG reads the files of all operators.
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
