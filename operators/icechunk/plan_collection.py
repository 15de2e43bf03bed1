"""The step that fixes what a collection works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.icechunk.base import IcechunkOperator, granted
from dredge.errors import ConfigError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.expiration.config import Expiration
from dredge.runs.payload import from_json
from dredge.settings import truth

if TYPE_CHECKING:
    from airflow.sdk import Context


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


def _planned(value: Any) -> Expiration | None:
    return from_json(Expiration, value["expiration"]) if isinstance(value, Mapping) else None
