"""The step that has one repository collected by its own run, and waits for it without a worker slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.triggers.external_task import DagStateTrigger
from airflow.utils.state import DagRunState

if TYPE_CHECKING:
    from airflow.sdk import Context

_ASK_EVERY_SECONDS = 30


class LakeFSCollectRepositoryOperator(TriggerDagRunOperator):
    """Start a run of the DAG that collects a repository, and wait for its end in the triggerer.

    A try that died after it had started the run is followed by one that waits for the same run. A run that failed is
    done again when this task is cleared.

    :param trigger_run_id: id of the run; the same in every try (templated)

    Further parameters are those of ``TriggerDagRunOperator``.
    """

    def __init__(self, *, trigger_dag_id: str = "lakefs_gc", **kwargs: Any) -> None:
        kwargs = {
            "wait_for_completion": True,
            "deferrable": True,
            "fail_when_dag_is_paused": True,
            "poke_interval": _ASK_EVERY_SECONDS,
            "logical_date": None,
        } | kwargs
        super().__init__(trigger_dag_id=trigger_dag_id, **kwargs)

    def execute(self, context: Context) -> None:
        """Start the run, unless an earlier try did."""
        state = self._state(context)
        if state in self.allowed_states:
            self.log.info("run %s has ended before: %s", self.trigger_run_id, state)
            return
        if state is not None and state not in self.failed_states:
            self.log.info("run %s goes on: an earlier try started it", self.trigger_run_id)
            self.defer(
                trigger=DagStateTrigger(
                    dag_id=self.trigger_dag_id,
                    states=[*self.allowed_states, *self.failed_states],
                    run_ids=[str(self.trigger_run_id)],
                    poll_interval=self.poke_interval,
                ),
                method_name="execute_complete",
            )
        self.reset_dag_run = state is not None
        super().execute(context)

    def execute_complete(self, context: Context, event: Any) -> None:
        """End as the run did; there is nothing to be gained by another try of this task."""
        try:
            super().execute_complete(context, event)
        except AirflowException as error:
            raise AirflowFailException(str(error)) from None

    def _state(self, context: Context) -> DagRunState | None:
        ti: Any = context["ti"]
        run_id = str(self.trigger_run_id)
        if not ti.get_dr_count(dag_id=self.trigger_dag_id, run_ids=[run_id]):
            return None
        return DagRunState(ti.get_dagrun_state(dag_id=self.trigger_dag_id, run_id=run_id))
