"""The step that shows what an expiration would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dredge.icechunk.collection.estimate import estimate
from dredge.icechunk.expiration.plan import plan_expiration
from dredge.icechunk.expiration.stored import PAGE, store_plan
from dredge.icechunk.repository import read_history
from dredge.icechunk.threshold import parse_older_than
from dredge.storage import open_reader
from operators.failures import reported
from operators.icechunk.base import IcechunkOperator, now
from operators.lakefs.plan import truth
from operators.lakefs.save_report import REPORT, ReportLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkPlanExpirationOperator(IcechunkOperator):
    """Plan an expiration, and store the plan as data, text, picture and page beside the repository.

    Changes nothing.

    :param storage: URI of the repository (templated)
    :param older_than: a duration such as ``30d``, a date, or a time with its zone (templated)
    :param rule: ``document``, ``spec_v1`` or ``spec_v2``; None is the library's rule of the spec (templated)
    :param delete_expired_branches: also delete branches whose tip is expired; never main (templated)
    :param delete_expired_tags: also delete tags whose tip is expired, for ever (templated)
    :param estimate: also count what a collection would then free; reads every live manifest (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    operator_extra_links = (ReportLink(),)
    template_fields: Sequence[str] = (
        "storage",
        "older_than",
        "rule",
        "delete_expired_branches",
        "delete_expired_tags",
        "estimate",
    )

    def __init__(
        self,
        *,
        older_than: str,
        rule: str | None = None,
        delete_expired_branches: bool | str = False,
        delete_expired_tags: bool | str = False,
        estimate: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.rule = rule
        self.delete_expired_branches = delete_expired_branches
        self.delete_expired_tags = delete_expired_tags
        self.estimate = estimate

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Make the plan and return its figures, digest and place."""
        reader = open_reader(self.storage, self.options)
        plan = plan_expiration(
            read_history(reader),
            parse_older_than(self.older_than, now()),
            rule=None if self.rule in (None, "", "None") else self.rule,
            delete_expired_branches=truth("delete_expired_branches", self.delete_expired_branches),
            delete_expired_tags=truth("delete_expired_tags", self.delete_expired_tags),
        )
        if truth("estimate", self.estimate):
            plan = plan.with_freed(estimate(reader, plan))
        where = store_plan(self.storage, plan, now(), self.options)
        if "ti" in context:
            context["ti"].xcom_push(REPORT, f"{where}/{PAGE}")
        return {
            "plan_uri": where,
            "digest": plan.digest,
            "threshold": plan.threshold.isoformat(),
            "rule": plan.rule,
            "delete_expired_branches": plan.delete_expired_branches,
            "delete_expired_tags": plan.delete_expired_tags,
            "released": len(plan.released),
            "edited": len(plan.edits),
            "refs_deleted": [ref.label for ref in plan.refs_deleted],
            "would_free_bytes": plan.frees.size_bytes if plan.frees is not None else None,
        }
