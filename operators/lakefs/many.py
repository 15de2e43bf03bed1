"""Collection of all repositories of a lakeFS server: choose, start a run for each, summarize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.utils.state import DagRunState

from airflow_dredge.operators.airflow_versions import TaskDeferralTimeout
from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from airflow_dredge.operators.lakefs.params import FORM_OF_A_RUN, repository_settings
from airflow_dredge.operators.many import SaveSummaryOperator, conf_of, started_with
from dredge.gc.many.choose import ManyConfig, choose_repositories
from dredge.gc.many.collect import outcome_of
from dredge.runs.many import Outcome

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dredge.storage import StorageOptions


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


_ASK_EVERY_SECONDS = 30
_LOOK_EVERY = timedelta(minutes=3)
_WAITS_FOR = "waits_for"
"""XCom: the number of the run that the task waits for."""


class LakeFSCollectRepositoryOperator(TriggerDagRunOperator):
    """Start a run of the DAG that collects a repository, and wait for its end in the triggerer; then the next one.

    A try that died after it had started a run is followed by one that waits for the same run. A run that failed is
    done again when this task is cleared. A run that fails, or that a person deletes meanwhile, stops no other; the task
    fails at its end. Returns the ids of the runs where all ended well.

    :param runs: for each run its ``conf`` and its ``trigger_run_id``, the same in every try

    Further parameters are those of ``TriggerDagRunOperator``.
    """

    # What runs are started with comes from Params, and is never rendered once more.
    template_fields: Sequence[str] = ()

    def __init__(
        self, *, runs: Sequence[Mapping[str, Any]], trigger_dag_id: str = "lakefs_gc", **kwargs: Any
    ) -> None:
        kwargs = {
            "wait_for_completion": True,
            "deferrable": True,
            "fail_when_dag_is_paused": True,
            "poke_interval": _ASK_EVERY_SECONDS,
            "logical_date": None,
            # Airflow's own wait, which knows no end, ends as soon as the run is there; ours begins.
            "allowed_states": [*DagRunState],
            "failed_states": [],
        } | kwargs
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)
        self.runs = runs

    @property
    def label(self) -> str:
        """What the task is about, for the list of mapped tasks."""
        names = [str(run["conf"].get("repository") or run["conf"].get("storage")) for run in self.runs]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"

    def execute(self, context: Context) -> Any:
        """Start the runs that have not ended well, one after the other, unless an earlier try did."""
        return self._go_on(context, 0)

    def execute_complete(self, context: Context, event: Any) -> Any:
        """Look what became of the run that the task waited for, and go on."""
        return self._look(context, self._ids.index(event[1]["run_ids"][0]))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Go on; every few minutes the task looks whether the run is still there."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            ti: Any = context["ti"]
            where = {"task_ids": ti.task_id, "map_indexes": ti.map_index}
            return self._look(context, int(ti.xcom_pull(key=_WAITS_FOR, **where)))

    def _go_on(self, context: Context, first: int) -> list[str]:
        for number in range(first, len(self.runs)):
            state = self._state(context, number)
            if state in (DagRunState.QUEUED, DagRunState.RUNNING):
                self.log.info("run %s goes on: an earlier try started it", self._ids[number])
                self._wait(context, number)
            if state is not DagRunState.SUCCESS:
                self.conf, self.trigger_run_id = dict(self.runs[number]["conf"]), self._ids[number]
                self.reset_dag_run = state is not None
                super().execute(context)  # parks the task
        bad = [name for number, name in enumerate(self._ids) if not self._is_good(context, number)]
        if bad:
            # There is nothing to be gained by another try of this task.
            raise AirflowFailException(
                f"runs of {self.trigger_dag_id} that did not end well: {', '.join(bad)}"
            )
        return self._ids

    def _look(self, context: Context, number: int) -> list[str]:
        name, state = self._ids[number], self._state(context, number)
        if state in (DagRunState.QUEUED, DagRunState.RUNNING):
            self._wait(context, number)
        if state is None:
            self.log.error("run %s of %s is gone: a person deleted it", name, self.trigger_dag_id)
        else:
            self.log.info("run %s has ended: %s", name, state)
        return self._go_on(context, number + 1)

    def _wait(self, context: Context, number: int) -> None:
        """Park the task until the run ends, some minutes at most."""
        context["ti"].xcom_push(_WAITS_FOR, number)
        self.defer(
            trigger=DagStateTrigger(
                dag_id=self.trigger_dag_id,
                states=[DagRunState.SUCCESS, DagRunState.FAILED],
                run_ids=[self._ids[number]],
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=_LOOK_EVERY,
        )

    @property
    def _ids(self) -> list[str]:
        return [str(run["trigger_run_id"]) for run in self.runs]

    def _is_good(self, context: Context, number: int) -> bool:
        return self._state(context, number) is DagRunState.SUCCESS

    def _state(self, context: Context, number: int) -> DagRunState | None:
        ti: Any = context["ti"]
        name = self._ids[number]
        if not ti.get_dr_count(dag_id=self.trigger_dag_id, run_ids=[name]):
            return None
        return DagRunState(ti.get_dagrun_state(dag_id=self.trigger_dag_id, run_id=name))


class LakeFSSaveSummaryOperator(SaveSummaryOperator):
    """Write one page about the runs of all repositories of a server; see ``SaveSummaryOperator``."""

    collects, plans, what = "lakefs_gc", "plan", "repository"
    tells = ("save_report", "plan", "acquire_lease")

    def outcome_of(self, repository: str, run_uri: str, why: str, options: StorageOptions | None) -> Outcome:
        """Tell what became of a repository's run, by its report."""
        return outcome_of(repository, run_uri, why, options)
