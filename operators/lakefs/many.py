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
from airflow_dredge.operators.many import SaveSummaryOperator, make_conf, split_runs
from dredge.gc.many import ManyConfig, choose_repositories

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSChooseRepositoriesOperator(LakeFSOperator):
    """Choose the repositories of a server, each with the settings of its run.

    Settings come from the Variable ``dredge_gc_schedules``, and otherwise from the Params. A run is a dry run
    if either says so.

    :param which: settings of ``ManyConfig`` by name, such as ``{"repositories": "team-*"}`` (templated)
    """

    template_fields: Sequence[str] = ("which",)

    def __init__(self, *, which: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.which = which

    @reported
    def execute(self, context: Context) -> list[list[dict[str, Any]]]:
        """Return ``conf`` and ``trigger_run_id`` of each run, in parts."""
        config = ManyConfig.from_params(self.which)
        params = {name: context["params"][name] for name in FORM_OF_A_RUN}
        ours, conflicts = repository_settings()
        options = storage_options(self.aws_conn_id)
        chosen = choose_repositories(config, self.hook.client, options, params["run_root"])
        left_out = chosen.left_out | {
            name: conflicts[name] for name in chosen.repositories if name in conflicts
        }
        confs = [
            make_conf("repository", name, params, ours.get(name))
            for name in chosen.repositories
            if name not in left_out
        ]
        return split_runs(context, confs, left_out, chosen.summary_root)


_POLL_SECONDS = 30
_CHECK_EVERY = timedelta(minutes=3)
_WAITS_FOR = "waits_for"
"""XCom key: index of the run that the task waits for."""


class LakeFSCollectRepositoryOperator(TriggerDagRunOperator):
    """Start the DAG run of each repository in turn, and wait for it in the triggerer.

    A retry waits for the run that an earlier try started. Clearing the task repeats failed runs. A failed run
    does not stop the others; the task fails at its end. Returns the runs' ids if all succeeded.

    :param runs: ``conf`` and ``trigger_run_id`` of each run, the same in every try

    Further parameters are those of ``TriggerDagRunOperator``.
    """

    # The settings come from rendered Params, and are not rendered again.
    template_fields: Sequence[str] = ()

    def __init__(
        self, *, runs: Sequence[Mapping[str, Any]], trigger_dag_id: str = "lakefs_gc", **kwargs: Any
    ) -> None:
        kwargs = {
            "wait_for_completion": True,
            "deferrable": True,
            "fail_when_dag_is_paused": True,
            "poke_interval": _POLL_SECONDS,
            "logical_date": None,
            # Airflow's own wait has no timeout: it ends at once, and ours begins.
            "allowed_states": [*DagRunState],
            "failed_states": [],
        } | kwargs
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)
        self.runs = runs

    @property
    def label(self) -> str:
        """Label of the mapped task."""
        names = [str(run["conf"].get("repository") or run["conf"].get("storage")) for run in self.runs]
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"

    def execute(self, context: Context) -> Any:
        """Start each run that has not succeeded yet in turn."""
        return self._go_on(context, 0)

    def execute_complete(self, context: Context, event: Any) -> Any:
        """Check the run that the task waited for, and continue with the next one."""
        return self._check(context, self._ids.index(event[1]["run_ids"][0]))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Continue; after a timeout check that the run still exists."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            ti: Any = context["ti"]
            where = {"task_ids": ti.task_id, "map_indexes": ti.map_index}
            return self._check(context, int(ti.xcom_pull(key=_WAITS_FOR, **where)))

    def _go_on(self, context: Context, first: int) -> list[str]:
        for number in range(first, len(self.runs)):
            state = self._state(context, number)
            if state in (DagRunState.QUEUED, DagRunState.RUNNING):
                self.log.info("waiting for run %s of an earlier try", self._ids[number])
                self._wait(context, number)
            if state is not DagRunState.SUCCESS:
                self.conf, self.trigger_run_id = dict(self.runs[number]["conf"]), self._ids[number]
                self.reset_dag_run = state is not None
                # Parks the task. A run deleted in the second before the triggerer's first look is not noticed:
                # Airflow's trigger then waits until the task's `execution_timeout`.
                super().execute(context)
        states = {name: self._state(context, number) for number, name in enumerate(self._ids)}
        bad = [name for name, state in states.items() if state is not DagRunState.SUCCESS]
        if bad:
            # A retry would not change the runs.
            raise AirflowFailException(f"unsuccessful runs of {self.trigger_dag_id}: {', '.join(bad)}")
        return self._ids

    def _check(self, context: Context, number: int) -> list[str]:
        name, state = self._ids[number], self._state(context, number)
        if state in (DagRunState.QUEUED, DagRunState.RUNNING):
            self._wait(context, number)
        if state is None:
            self.log.error("run %s of %s was deleted", name, self.trigger_dag_id)
        else:
            self.log.info("run %s ended: %s", name, state)
        return self._go_on(context, number + 1)

    def _wait(self, context: Context, number: int) -> None:
        """Defer the task until the run ends, at most some minutes."""
        context["ti"].xcom_push(_WAITS_FOR, number)
        self.defer(
            trigger=DagStateTrigger(
                dag_id=self.trigger_dag_id,
                states=[DagRunState.SUCCESS, DagRunState.FAILED],
                run_ids=[self._ids[number]],
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=_CHECK_EVERY,
        )

    @property
    def _ids(self) -> list[str]:
        return [str(run["trigger_run_id"]) for run in self.runs]

    def _state(self, context: Context, number: int) -> DagRunState | None:
        ti: Any = context["ti"]
        name = self._ids[number]
        if not ti.get_dr_count(dag_id=self.trigger_dag_id, run_ids=[name]):
            return None
        return DagRunState(ti.get_dagrun_state(dag_id=self.trigger_dag_id, run_id=name))


class LakeFSSaveSummaryOperator(SaveSummaryOperator):
    """Write the summary page for the repositories of a server; see ``SaveSummaryOperator``."""

    collects, plans, what = "lakefs_gc", "plan", "repository"
    tells = ("save_report", "plan", "acquire_lease")
