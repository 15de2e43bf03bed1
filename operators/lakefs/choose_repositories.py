"""The step that chooses which repositories are collected, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lakefs.params import FORM_OF_A_RUN
from airflow_dredge.operators.lakefs.schedules import repository_settings
from airflow_dredge.operators.many import conf_of, started_with
from dredge.gc.many.choose import ManyConfig, choose_repositories

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSChooseRepositoriesOperator(LakeFSOperator):
    """Choose the repositories of a server that are collected, each with the settings for its run.

    A repository that the Variable ``dredge_gc_schedules`` names gets the settings it has there, and the Params for
    the rest. It is a dry run when either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"repositories": "team-*"}`` (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("which",)

    def __init__(self, *, which: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.which = which

    @reported
    def execute(self, context: Context) -> list[list[dict[str, Any]]]:
        """Return what each run is started with, in parts: its ``conf`` and its ``trigger_run_id``."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = repository_settings()
        options = storage_options(self.aws_conn_id)
        chosen = choose_repositories(config, self.hook.client, options, params["run_root"])
        left_out = chosen.left_out | {
            name: conflicts[name] for name in chosen.repositories if name in conflicts
        }
        confs = [
            conf_of("repository", name, params, ours.get(name))
            for name in chosen.repositories
            if name not in left_out
        ]
        return started_with(context, confs, left_out, chosen.summary_root)
