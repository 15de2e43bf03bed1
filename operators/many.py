"""The steps about many repositories, whichever collector has them: what each run is started with, and one page about
all."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import batched
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf as conf_of_airflow
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import FAILURE, first_failure, reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.links import REPORT, ReportLink
from dredge.errors import RefusedError
from dredge.runs.clock import utc_now
from dredge.runs.report import Outcome, left_out, save_summary, summarize, summary_lines

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions

#: XComs of the first task: why repositories are left out, by name, and the folder for the summary.
LEFT_OUT, SUMMARY_ROOT = "left_out", "summary_root"
_FIRST = "choose_repositories"
_TASKS_MAX = 1024


def started_with(
    context: Context, confs: Sequence[Mapping[str, Any]], skipped: Mapping[str, str], summary_root: str
) -> list[list[dict[str, Any]]]:
    """Return what each run is started with, in parts for mapped tasks, and leave the rest for the page about all.

    :param context: of the first task
    :param confs: of the runs
    :param skipped: why repositories are left out, by name
    :param summary_root: folder for the summary; "" when there is no repository to put it into
    """
    context["ti"].xcom_push(LEFT_OUT, dict(skipped))
    context["ti"].xcom_push(SUMMARY_ROOT, summary_root)
    runs = [{"conf": conf, "trigger_run_id": run_id(context, conf)} for conf in confs]
    # Airflow refuses to make more tasks of one list, and names no way out: each has several runs then.
    tasks_max = conf_of_airflow.getint("core", "max_map_length", fallback=_TASKS_MAX)
    return [[*part] for part in batched(runs, max(1, -(-len(runs) // tasks_max)))]


def conf_of(
    what: str, repository: str, params: Mapping[str, Any], own: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what a repository's run is started with. It deletes only when nobody says that it is a dry run.

    :param what: the Param that names the repository
    :param repository: its name or URI
    :param params: for all repositories
    :param own: what the Variable says of this one; None when it does not name it
    """
    # An entry that does not say so deletes nothing in its own DAG either.
    dry_run = params["dry_run"] or (own is not None and own.get("dry_run", True))
    return {**params, **(own or {}), what: repository, "dry_run": dry_run}


def run_id(context: Context, conf: Mapping[str, Any]) -> str:
    """Return the id of the run that a run of this DAG starts for a repository: the same in every try.

    A run that is there is done again with the settings that it was started with, whatever it is given now (Airflow
    clears it). So other settings, which the Variable may have by then, make another run.

    :param context: of a task of this DAG's run
    :param conf: what the run is started with
    """
    settings = hashlib.sha256(json.dumps(conf, sort_keys=True, default=str).encode()).hexdigest()
    name = str(conf.get("repository") or conf["storage"]).rstrip("/").rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64]
    return f"{context['dag_run'].dag_id}__{context['run_id']}__{plain}__{settings[:16]}"


class SaveSummaryOperator(BaseOperator):
    """Write one page about the runs of all repositories, those that failed and those that had none included.

    Make this task a teardown, so that it runs whatever happened. Its outlet events carry the figures.

    :param runs: what the task ``choose_repositories`` returned (templated)
    :param collect_dag_id: the DAG that the runs are of
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    collects: ClassVar[str]
    """The DAG that collects one repository."""
    plans: ClassVar[str]
    """Its task that plans the collection."""
    tells: ClassVar[tuple[str, ...]]
    """Its tasks that say why a run failed before it had a report. The last one does not run where the first failed."""
    what: ClassVar[str]
    """The Param that names the repository."""
    template_fields: Sequence[str] = ("runs",)
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        runs: Any,
        collect_dag_id: str = "",
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.collect_dag_id = collect_dag_id or self.collects
        self.aws_conn_id = aws_conn_id

    @abstractmethod
    def outcome_of(self, repository: str, run_uri: str, why: str, options: StorageOptions | None) -> Outcome:
        """Tell what became of a repository's run."""

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the page, and return the figures."""
        if self.runs is None:
            raise RefusedError(
                f"no repository was chosen, so nothing was done. {first_failure(self, context)}"
            )
        ti: Any = context["ti"]
        options = storage_options(self.aws_conn_id)
        outcomes = [self._outcome(ti, run, options) for part in self.runs for run in part]
        skipped: Mapping[str, str] = ti.xcom_pull(task_ids=_FIRST, key=LEFT_OUT) or {}
        outcomes += [left_out(name, why) for name, why in skipped.items()]
        summary = summarize(outcomes, utc_now())
        for line in summary_lines(summary):
            self.log.info("%s", line)
        figures = {**summary["counts"], REPORT: self._save(context, summary, options)}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = figures
        return figures

    def _outcome(self, ti: Any, run: Mapping[str, Any], options: StorageOptions) -> Outcome:
        def pulled(task_id: str, **key: str) -> Any:
            where = {"dag_id": self.collect_dag_id, "run_id": run["trigger_run_id"]}
            return ti.xcom_pull(task_ids=task_id, map_indexes=None, **where, **key)

        plan = pulled(self.plans) or {}
        failures = (pulled(task_id, key=FAILURE) for task_id in self.tells)
        why = next(filter(None, failures), "")
        repository = run["conf"][self.what]
        return self.outcome_of(repository, plan.get("run_uri", ""), why, options)

    def _save(self, context: Context, summary: Mapping[str, Any], options: StorageOptions) -> str:
        """Write the page where the first task said; "" when no repository was asked for."""
        ti: Any = context["ti"]
        root = ti.xcom_pull(task_ids=_FIRST, key=SUMMARY_ROOT)
        if not root:
            return ""
        name = "".join(letter if letter.isalnum() else "-" for letter in context["run_id"])
        page = save_summary(summary, root, f"{self.dag_id}-{name}", options)
        ti.xcom_push(REPORT, page)
        return page


class AllCollectedOperator(BaseOperator):
    """Fail where not every chosen repository was collected.

    Make this task a teardown with ``on_failure_fail_dagrun``: it then decides about the state of the DAG run whatever
    happened, also when a person marked the run as failed.

    :param runs: what the task ``choose_repositories`` returned (templated)
    :param collected: what each task ``collect_repository`` returned (templated)
    """

    template_fields: Sequence[str] = ("runs", "collected")

    def __init__(self, *, runs: Any, collected: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.collected = collected

    @reported
    def execute(self, context: Context) -> int:
        """Return how many repositories were collected.

        :raises RefusedError: not all
        """
        if self.runs is None:
            raise RefusedError(f"no repository was chosen. {first_failure(self, context)}")
        chosen = {run["trigger_run_id"] for part in self.runs for run in part}
        missing = chosen.difference(*(self.collected or ()))
        if missing:
            raise RefusedError(
                f"{len(missing):,} of {len(chosen):,} repositories were not collected; the page of save_summary tells"
                f" of each. Their runs: {', '.join(sorted(missing)[:5])}"
            )
        return len(chosen)
