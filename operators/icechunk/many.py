"""Collection of many Icechunk repositories: choose, start a run for each, summarize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.icechunk.params import FORM, FORM_OF_A_RUN, ICECHUNK_SCHEDULES
from airflow_dredge.operators.lakefs.many import LakeFSCollectRepositoryOperator
from airflow_dredge.operators.many import SaveSummaryOperator, make_conf, split_runs
from airflow_dredge.operators.schedules import read_settings
from dredge.icechunk.many import ManyConfig, choose_repositories, summary_root
from dredge.storage.location import place_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions


class IcechunkChooseRepositoriesOperator(BaseOperator):
    """Choose the repositories, each with the settings of its run.

    Settings come from the Variable ``dredge_icechunk_schedules``, and otherwise from the Params. A run is a
    dry run if either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"storages": "s3://lake/*"}`` (templated)
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
    """

    template_fields: Sequence[str] = ("which",)

    def __init__(
        self, *, which: Mapping[str, Any], aws_conn_id: str | None = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.which = which
        self.aws_conn_id = aws_conn_id

    @reported
    def execute(self, context: Context) -> list[list[dict[str, Any]]]:
        """Return ``conf`` and ``trigger_run_id`` of each run, in parts."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = read_settings(ICECHUNK_SCHEDULES, "storage", FORM)
        options = storage_options(self.aws_conn_id)
        chosen, missing = choose_repositories(config, [*ours, *conflicts], options)
        own, why_not = by_place(ours, conflicts, options)
        places = {uri: place_of(uri, options) for uri in chosen}
        left_out = missing | {uri: why_not[place] for uri, place in places.items() if place in why_not}
        confs = [
            make_conf("storage", uri, params, own.get(place))
            for uri, place in places.items()
            if place not in why_not
        ]
        return split_runs(context, confs, left_out, summary_root(config, params["run_root"], chosen))


def by_place(
    ours: Mapping[str, Mapping[str, Any]], conflicts: Mapping[str, str], options: StorageOptions
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return settings and conflicts by normalized location: ``s3a://lake/a`` equals ``s3://lake/a``."""
    found: dict[str, dict[str, Any]] = {}
    why_not = {place_of(uri, options): why for uri, why in conflicts.items()}
    for uri, settings in ours.items():
        place, own = place_of(uri, options), {name: settings[name] for name in settings if name != "storage"}
        if found.setdefault(place, own) != own:
            why_not[place] = (
                f"the Variable {ICECHUNK_SCHEDULES} lists it in two spellings with different settings"
            )
    return found, why_not


class IcechunkCollectRepositoryOperator(LakeFSCollectRepositoryOperator):
    """Start the DAG run of each repository in turn; see ``LakeFSCollectRepositoryOperator``."""

    def __init__(self, *, trigger_dag_id: str = "icechunk_expiration", **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)


class IcechunkSaveSummaryOperator(SaveSummaryOperator):
    """Write the summary page; see ``SaveSummaryOperator``."""

    collects, plans, what = "icechunk_expiration", "plan_collection", "storage"
    tells = ("save_report", "mark", "plan_collection", "expire", "plan_expiration", "acquire_lease")
