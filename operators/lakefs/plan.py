"""The step that fixes what a run works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.kv import is_named
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.schedules import data_window
from dredge.gc import steps
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json

if TYPE_CHECKING:
    from airflow.sdk import Context


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
