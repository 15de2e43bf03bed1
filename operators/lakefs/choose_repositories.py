"""The step that chooses which repositories are collected, and with which settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lakefs.params import FORM_OF_A_RUN
from airflow_dredge.operators.lakefs.schedules import repository_settings
from dredge.gc.many import ManyConfig, choose_repositories

if TYPE_CHECKING:
    from airflow.sdk import Context

#: XComs of the task: why repositories are left out, by name, and the folder for the summary.
LEFT_OUT, SUMMARY_ROOT = "left_out", "summary_root"


class LakeFSChooseRepositoriesOperator(LakeFSOperator):
    """Choose the repositories of a server that are collected, each with the settings for its run.

    A repository that the Variable ``dredge_gc_schedules`` names gets the settings it has there, and the Params for
    the rest. It is a dry run when either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"repositories": "team-*"}`` (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("which",)

    def __init__(self, *, which: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.which = which

    @reported
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return what each run is started with: its ``conf`` and its ``trigger_run_id``."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = repository_settings()
        options = storage_options(self.aws_conn_id)
        chosen = choose_repositories(config, self.hook.client, options, params["run_root"])
        left_out = chosen.left_out | {
            name: conflicts[name] for name in chosen.repositories if name in conflicts
        }
        context["ti"].xcom_push(LEFT_OUT, left_out)
        context["ti"].xcom_push(SUMMARY_ROOT, chosen.summary_root)
        confs = [
            conf_of(name, params, ours.get(name)) for name in chosen.repositories if name not in left_out
        ]
        return [{"conf": conf, "trigger_run_id": run_id(context, conf)} for conf in confs]


def conf_of(repository: str, params: Mapping[str, Any], own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a repository's run is started with. It deletes only when nobody says that it is a dry run.

    :param repository: lakeFS repository
    :param params: for all repositories
    :param own: what the Variable says of this one; None when it does not name it
    """
    # An entry that does not say so deletes nothing in its own DAG either.
    dry_run = params["dry_run"] or (own is not None and own.get("dry_run", True))
    return {**params, **(own or {}), "repository": repository, "dry_run": dry_run}


def run_id(context: Context, conf: Mapping[str, Any]) -> str:
    """Return the id of the run that a run of this DAG starts for a repository: the same in every try.

    A run that is there is done again with the settings that it was started with, whatever it is given now (Airflow
    clears it). So other settings, which the Variable may have by then, make another run.

    :param context: of a task of this DAG's run
    :param conf: what the run is started with
    """
    settings = hashlib.sha256(json.dumps(conf, sort_keys=True, default=str).encode()).hexdigest()
    return f"{context['dag_run'].dag_id}__{context['run_id']}__{conf['repository']}__{settings[:8]}"
