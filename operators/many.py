"""Tasks for many repositories, of both collectors: settings of each run, summary page."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import batched
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import conf as airflow_config
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import FAILURE, first_failure, reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.reporting import REPORT, ReportLink
from dredge.errors import RefusedError
from dredge.runs.clock import utc_now
from dredge.runs.report import Outcome, left_out, outcome_of, save_summary, summarize, summary_lines

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions

#: XComs of the first task: reasons by skipped repository, and the folder of the summary.
LEFT_OUT, SUMMARY_ROOT = "left_out", "summary_root"
_FIRST = "choose_repositories"
_TASKS_MAX = 1024


def split_runs(
    context: Context, confs: Sequence[Mapping[str, Any]], skipped: Mapping[str, str], summary_root: str
) -> list[list[dict[str, Any]]]:
    """Return the settings of each run in parts for mapped tasks, and push XComs for the summary."""
    context["ti"].xcom_push(LEFT_OUT, dict(skipped))
    context["ti"].xcom_push(SUMMARY_ROOT, summary_root)
    runs = [{"conf": conf, "trigger_run_id": run_id(context, conf)} for conf in confs]
    # Airflow limits the mapped tasks of one list; beyond the limit each task gets several runs.
    tasks_max = airflow_config.getint("core", "max_map_length", fallback=_TASKS_MAX)
    return [[*part] for part in batched(runs, max(1, -(-len(runs) // tasks_max)))]


def make_conf(
    what: str, repository: str, params: Mapping[str, Any], own: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings of a repository's run. It is a dry run if the form or the Variable says so."""
    # An entry without dry_run is a dry run in its own DAG, too.
    dry_run = params["dry_run"] or (own is not None and own.get("dry_run", True))
    return {**params, **(own or {}), what: repository, "dry_run": dry_run}


def run_id(context: Context, conf: Mapping[str, Any]) -> str:
    """Return the id of a repository's run, the same in every try.

    Airflow clears an existing run and reuses its old settings. So the id contains a hash of the settings, and
    changed settings start another run.
    """
    settings = hashlib.sha256(json.dumps(conf, sort_keys=True, default=str).encode()).hexdigest()
    name = str(conf.get("repository") or conf["storage"]).rstrip("/").rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64]
    return f"{context['dag_run'].dag_id}__{context['run_id']}__{plain}__{settings[:16]}"


class SaveSummaryOperator(BaseOperator):
    """Write a summary page about the runs of all repositories, including failed and skipped ones.

    Make this task a teardown, so that it runs after failures too. Its outlet events have the counts.

    :param runs: XCom of the task ``choose_repositories`` (templated)
    :param collect_dag_id: DAG of the runs
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
    """

    collects: ClassVar[str]
    """DAG that collects one repository."""
    plans: ClassVar[str]
    """Plan task of that DAG."""
    tells: ClassVar[tuple[str, ...]]
    """Tasks whose errors explain a run without a report, last task first."""
    what: ClassVar[str]
    """Param with the repository."""
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

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Write the page and return the counts."""
        if self.runs is None:
            raise RefusedError(f"no repository was chosen; nothing was done. {first_failure(self, context)}")
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
        return outcome_of(repository, plan.get("run_uri", ""), why, options)

    def _save(self, context: Context, summary: Mapping[str, Any], options: StorageOptions) -> str:
        """Write the page to the folder of the first task; return "" without repositories."""
        ti: Any = context["ti"]
        root = ti.xcom_pull(task_ids=_FIRST, key=SUMMARY_ROOT)
        if not root:
            return ""
        name = "".join(letter if letter.isalnum() else "-" for letter in context["run_id"])
        page = save_summary(summary, root, f"{self.dag_id}-{name}", options)
        ti.xcom_push(REPORT, page)
        return page


class AllCollectedOperator(BaseOperator):
    """Fail unless every chosen repository was collected.

    Make this task a teardown with ``on_failure_fail_dagrun``: it then sets the state of the DAG run, also
    after a person marked the run as failed.

    :param runs: XCom of the task ``choose_repositories`` (templated)
    :param collected: XComs of the tasks ``collect_repository`` (templated)
    """

    template_fields: Sequence[str] = ("runs", "collected")

    def __init__(self, *, runs: Any, collected: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.runs = runs
        self.collected = collected

    @reported
    def execute(self, context: Context) -> int:
        """Return the number of collected repositories."""
        if self.runs is None:
            raise RefusedError(f"no repository was chosen. {first_failure(self, context)}")
        chosen = {run["trigger_run_id"] for part in self.runs for run in part}
        missing = chosen.difference(*(self.collected or ()))
        if missing:
            raise RefusedError(
                f"{len(missing):,} of {len(chosen):,} repositories were not collected; see the page of save_summary."
                f" Runs: {', '.join(sorted(missing)[:5])}"
            )
        return len(chosen)
