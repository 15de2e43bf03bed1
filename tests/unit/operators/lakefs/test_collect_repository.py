"""A repository's run is started once, whatever becomes of the task that starts it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    DagRunTriggerException,
    TaskDeferred,
)

from airflow_dredge.operators.lakefs.collect_repository import LakeFSCollectRepositoryOperator

RUN = "lakefs_gc_all__manual__1__lake"


class Runs:
    """A task instance that knows of runs, by id."""

    def __init__(self, **states: str) -> None:
        self.states = states

    def get_dr_count(self, dag_id: str, run_ids: list[str]) -> int:
        assert dag_id == "lakefs_gc"
        return sum(run_id in self.states for run_id in run_ids)

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return self.states[run_id]

    def get_dag(self, dag_id: str) -> Any:
        class Dag:
            is_paused = "paused" in self.states

        return Dag()

    def xcom_push(self, key: str, value: Any) -> None:
        pass


def execute(**states: str) -> Any:
    operator = LakeFSCollectRepositoryOperator(
        task_id="collect_repository", trigger_run_id=RUN, conf={"repository": "lake"}
    )
    context: Any = {"ti": Runs(**states)}
    return operator.execute(context)


def test_the_first_try_starts_the_run_and_waits_in_the_triggerer() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute()
    started = asked.value
    assert (started.trigger_dag_id, started.dag_run_id) == ("lakefs_gc", RUN)
    assert started.conf == {"repository": "lake"}
    assert started.wait_for_completion
    assert started.deferrable
    assert not started.reset_dag_run


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_try_that_died_is_followed_by_one_that_waits_for_the_same_run(state: str) -> None:
    with pytest.raises(TaskDeferred) as waiting:
        execute(**{RUN: state})
    assert waiting.value.method_name == "execute_complete"
    assert waiting.value.trigger.run_ids == [RUN]


def test_a_run_that_has_ended_well_is_not_started_again() -> None:
    assert execute(**{RUN: "success"}) is None


def test_a_run_that_failed_is_done_again_when_the_task_is_cleared() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute(**{RUN: "failed"})
    assert asked.value.reset_dag_run


def test_a_run_that_failed_is_not_tried_again_by_itself() -> None:
    operator = LakeFSCollectRepositoryOperator(task_id="collect_repository", trigger_run_id=RUN)
    context: Any = {}
    with pytest.raises(AirflowFailException):
        operator.execute_complete(context, ("", {"run_ids": [RUN], RUN: "failed"}))
    operator.execute_complete(context, ("", {"run_ids": [RUN], RUN: "success"}))


def test_nothing_is_started_of_a_dag_that_is_paused() -> None:
    with pytest.raises(AirflowException):
        execute(paused="yes")
