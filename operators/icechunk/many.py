"""The steps about many repositories: choose them, collect each by its own run, and tell of all in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.icechunk.params import FORM, FORM_OF_A_RUN, ICECHUNK_SCHEDULES
from airflow_dredge.operators.lakefs.collect_repository import LakeFSCollectRepositoryOperator
from airflow_dredge.operators.many import SaveSummaryOperator, conf_of, started_with
from airflow_dredge.operators.schedules import settings_in
from dredge.icechunk.many import ManyConfig, choose_repositories, outcome_of, summary_root
from dredge.runs.report import Outcome
from dredge.storage.location import place_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions


class IcechunkChooseRepositoriesOperator(BaseOperator):
    """Choose the repositories that are expired and collected, each with the settings for its run.

    A repository that the Variable ``dredge_icechunk_schedules`` names gets the settings it has there, and the Params
    for the rest. It is a dry run when either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"storages": "s3://lake/*"}`` (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
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
        """Return what each run is started with, in parts: its ``conf`` and its ``trigger_run_id``."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = storage_settings()
        options = storage_options(self.aws_conn_id)
        chosen, missing = choose_repositories(config, [*ours, *conflicts], options)
        own, why_not = by_place(ours, conflicts, options)
        places = {uri: place_of(uri, options) for uri in chosen}
        left_out = missing | {uri: why_not[place] for uri, place in places.items() if place in why_not}
        confs = [
            conf_of("storage", uri, params, own.get(place))
            for uri, place in places.items()
            if place not in why_not
        ]
        return started_with(context, confs, left_out, summary_root(config, params["run_root"], chosen))


def storage_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in the Variable; see ``settings_in``."""
    return settings_in(ICECHUNK_SCHEDULES, "storage", FORM)


def by_place(
    ours: Mapping[str, Mapping[str, Any]], conflicts: Mapping[str, str], options: StorageOptions
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the same by the place that a URI means: ``s3a://lake/a`` is ``s3://lake/a``.

    :param ours: settings by URI
    :param conflicts: why there are none, by URI
    :param options: how stores are reached
    """
    found: dict[str, dict[str, Any]] = {}
    why_not = {place_of(uri, options): why for uri, why in conflicts.items()}
    for uri, settings in ours.items():
        place, own = place_of(uri, options), {name: settings[name] for name in settings if name != "storage"}
        if found.setdefault(place, own) != own:
            why_not[place] = (
                f"the Variable {ICECHUNK_SCHEDULES} names it in two ways, with other settings for each"
            )
    return found, why_not


class IcechunkCollectRepositoryOperator(LakeFSCollectRepositoryOperator):
    """Start a run of the DAG that expires and collects a repository, and wait for its end in the triggerer.

    :param trigger_run_id: id of the run; the same in every try (templated)
    """

    def __init__(self, *, trigger_dag_id: str = "icechunk_expiration", **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)


class IcechunkSaveSummaryOperator(SaveSummaryOperator):
    """Write one page about the runs of all repositories; see ``SaveSummaryOperator``."""

    collects, plans, what = "icechunk_expiration", "plan_collection", "storage"
    tells = ("save_report", "mark", "plan_collection", "expire", "plan_expiration", "acquire_lease")

    def outcome_of(self, repository: str, run_uri: str, why: str, options: StorageOptions | None) -> Outcome:
        """Tell what became of a repository's run, by its report."""
        return outcome_of(repository, run_uri, why, options)
