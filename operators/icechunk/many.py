"""The steps about many repositories: choose them, collect each by its own run, and tell of all in one place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import FAILURE, first_failure, reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.icechunk.params import FORM, FORM_OF_A_RUN, ICECHUNK_SCHEDULES
from airflow_dredge.operators.lakefs.collect_repository import LakeFSCollectRepositoryOperator
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.schedules import schedules_in
from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.many import ManyConfig, choose_repositories, outcome_of, summary_root
from dredge.runs.clock import utc_now
from dredge.runs.many import Outcome, left_out, save_summary, summarize, table_lines

if TYPE_CHECKING:
    from airflow.sdk import Context

#: XComs of the first task: why repositories are left out, by URI, and the folder for the summary.
LEFT_OUT, SUMMARY_ROOT = "left_out", "summary_root"
_TELLING = ("save_report", "plan_collection", "expire", "plan_expiration", "acquire_lease")
_OF_A_SCHEDULE = ("schedule", "mode")


class IcechunkChooseRepositoriesOperator(BaseOperator):
    """Choose the repositories that are expired and collected, each with the settings for its run.

    A repository that the Variable ``dredge_icechunk_schedules`` names gets the settings it has there, and the Params
    for the rest. It is a dry run when either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"storages": "s3://lake/*"}`` (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("which",)

    def __init__(
        self, *, which: Mapping[str, Any], aws_conn_id: str | None = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.which = which
        self.aws_conn_id = aws_conn_id

    @reported
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return what each run is started with: its ``conf`` and its ``trigger_run_id``."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = storage_settings()
        chosen, missing = choose_repositories(config, [*ours, *conflicts], storage_options(self.aws_conn_id))
        wanted = [uri for uri in chosen if uri not in conflicts]
        context["ti"].xcom_push(
            LEFT_OUT, missing | {uri: conflicts[uri] for uri in chosen if uri in conflicts}
        )
        context["ti"].xcom_push(SUMMARY_ROOT, summary_root(config, params["run_root"], chosen))
        confs = [conf_of(uri, params, ours.get(uri)) for uri in wanted]
        return [{"conf": conf, "trigger_run_id": run_id(context, conf)} for conf in confs]


def storage_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in the Variable, without their schedules.

    :return: settings by URI; and why there are none, by URI, where entries differ about one or cannot be read
    :raises ConfigError: the Variable does not say what it should
    """
    found: dict[str, dict[str, Any]] = {}
    conflicts: dict[str, str] = {}
    for dag_id, entry in schedules_in(ICECHUNK_SCHEDULES, "storage").items():
        uri = entry["storage"].rstrip("/")
        try:
            settings = _read(entry)
        except ConfigError as error:
            conflicts[uri] = f"Variable {ICECHUNK_SCHEDULES}, {dag_id!r}: {error}"
            continue
        if found.setdefault(uri, settings) != settings:
            conflicts[uri] = (
                f"the Variable {ICECHUNK_SCHEDULES} has other settings for it in {dag_id} than in an entry before"
            )
    return found, conflicts


def _read(entry: Mapping[str, Any]) -> dict[str, Any]:
    known = {found.name: found for found in FORM}
    settings = {name: value for name, value in entry.items() if name not in (*_OF_A_SCHEDULE, "storage")}
    if unknown := sorted(settings.keys() - known.keys()):
        raise ConfigError(f"unknown setting {unknown[0]}")
    return {name: known[name].read(value) for name, value in settings.items()}


def conf_of(storage: str, params: Mapping[str, Any], own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a repository's run is started with. It deletes only when nobody says that it is a dry run.

    :param storage: URI of the repository
    :param params: for all repositories
    :param own: what the Variable says of this one; None when it does not name it
    """
    # An entry that does not say so deletes nothing in its own DAG either.
    dry_run = params["dry_run"] or (own is not None and own.get("dry_run", True))
    return {**params, **(own or {}), "storage": storage, "dry_run": dry_run}


def run_id(context: Context, conf: Mapping[str, Any]) -> str:
    """Return the id of the run that a run of this DAG starts for a repository: the same in every try, and another one
    for other settings.

    :param context: of a task of this DAG's run
    :param conf: what the run is started with
    """
    settings = hashlib.sha256(json.dumps(conf, sort_keys=True, default=str).encode()).hexdigest()
    return f"{context['dag_run'].dag_id}__{context['run_id']}__{settings[:16]}"


class IcechunkCollectRepositoryOperator(LakeFSCollectRepositoryOperator):
    """Start a run of the DAG that expires and collects a repository, and wait for its end in the triggerer.

    :param trigger_run_id: id of the run; the same in every try (templated)
    """

    def __init__(self, *, trigger_dag_id: str = "icechunk_expiration", **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)


class IcechunkSaveSummaryOperator(BaseOperator):
    """Write one page about the runs of all repositories, those that failed and those that had none included.

    Give this task the trigger rule ``all_done``. Its outlet events carry the figures.

    :param runs: what the task ``choose_repositories`` returned (templated)
    :param collect_dag_id: the DAG that the runs are of
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    template_fields: Sequence[str] = ("runs",)
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        runs: Any,
        collect_dag_id: str = "icechunk_expiration",
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.collect_dag_id = collect_dag_id
        self.aws_conn_id = aws_conn_id

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the page, and return the figures."""
        if self.runs is None:
            raise RefusedError(
                f"no repository was chosen, so nothing was done. {first_failure(self, context)}"
            )
        ti: Any = context["ti"]
        outcomes = [self._outcome(ti, run) for run in self.runs]
        skipped: Mapping[str, str] = ti.xcom_pull(task_ids="choose_repositories", key=LEFT_OUT) or {}
        outcomes += [left_out(name, why) for name, why in skipped.items()]
        summary = summarize(outcomes, utc_now())
        for line in table_lines(summary):
            self.log.info("%s", line)
        figures = {**summary["counts"], REPORT: self._save(context, summary)}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = figures
        return figures

    def _outcome(self, ti: Any, run: Mapping[str, Any]) -> Outcome:
        def pulled(task_id: str, **key: str) -> Any:
            where = {"dag_id": self.collect_dag_id, "run_id": run["trigger_run_id"]}
            return ti.xcom_pull(task_ids=task_id, map_indexes=None, **where, **key)

        plan = pulled("plan_collection") or {}
        why = next(filter(None, (pulled(task_id, key=FAILURE) for task_id in _TELLING)), "")
        storage = run["conf"]["storage"]
        return outcome_of(storage, plan.get("run_uri", ""), why, storage_options(self.aws_conn_id))

    def _save(self, context: Context, summary: Mapping[str, Any]) -> str:
        """Write the page where the first task said; "" when no repository was asked for."""
        ti: Any = context["ti"]
        root = ti.xcom_pull(task_ids="choose_repositories", key=SUMMARY_ROOT)
        if not root:
            return ""
        name = "".join(letter if letter.isalnum() else "-" for letter in context["run_id"])
        page = save_summary(summary, root, f"{self.dag_id}-{name}", storage_options(self.aws_conn_id))
        ti.xcom_push(REPORT, page)
        return page
