"""The step that takes old snapshots out of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import IcechunkOperator, granted
from dredge.errors import ConfigError
from dredge.icechunk.expiration.apply import expire
from dredge.icechunk.expiration.config import Expiration
from dredge.runs.payload import from_json
from dredge.settings import truth

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcechunkExpireOperator(IcechunkOperator):
    """Apply an expiration. Deletes no object.

    What is applied is planned anew for the repository as it is now, with the threshold, rule and flags of the
    plan; commits made meanwhile do not matter.

    :param storage: URI of the repository (templated)
    :param plan: what the plan task returned (templated)
    :param lease: what the acquire task returned; None takes the right meanwhile (templated)
    :param exactly: refuse unless the repository is still as the plan saw it
    :param report_only: a dry run: change nothing (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
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
        """Apply the plan, or in a dry run say that nothing was changed."""
        if not isinstance(self.plan, Mapping):
            raise ConfigError(
                "there is no plan, because an earlier task failed; see its log. Nothing was changed."
            )
        if truth("report_only", self.report_only):
            self.log.info("Dry run: nothing is changed; the plan is in %s", self.plan["plan_uri"])
            return {"dry_run": True, "expiration_id": "", "edited": 0, "released": 0, "refs_deleted": []}
        done = expire(
            self.storage,
            from_json(Expiration, self.plan["expiration"]),
            approved_digest=self.plan["digest"] if self.exactly else None,
            lease=granted(self.lease),
            options=self.options,
        )
        return {
            "dry_run": False,
            "edited": len(done.edited),
            "expiration_id": done.expiration_id,
            "released": len(done.plan.released),
            "refs_deleted": [ref.label for ref in done.refs_deleted],
        }
