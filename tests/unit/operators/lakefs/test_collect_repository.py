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

from airflow_dredge.operators.lakefs.many import LakeFSCollectRepositoryOperator

RUN, NEXT = "lakefs_gc_all__manual__1__lake", "lakefs_gc_all__manual__1__pond"
TIMED_OUT = {"error": "Trigger timeout"}


class Runs:
    """A task instance that knows of runs, by id."""

    task_id, map_index = "collect_repository", 7

    def __init__(self, **states: str) -> None:
        self.states = states
        self.xcoms: dict[str, Any] = {}

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
        self.xcoms[key] = value

    def xcom_pull(self, key: str, task_ids: str, map_indexes: int) -> Any:
        assert (task_ids, map_indexes) == (self.task_id, self.map_index), "those of this task alone"
        return self.xcoms[key]


def operator(*names: str) -> LakeFSCollectRepositoryOperator:
    runs = [{"trigger_run_id": name, "conf": {"repository": name[-4:]}} for name in names or (RUN,)]
    return LakeFSCollectRepositoryOperator(task_id="collect_repository", runs=runs)


def execute(*names: str, **states: str) -> Any:
    context: Any = {"ti": Runs(**states)}
    return operator(*names).execute(context)


def told(ti: Runs, name: str, *names: str) -> Any:
    """What the task does when the triggerer tells of a run."""
    context: Any = {"ti": ti}
    event = ("DagStateTrigger", {"run_ids": [name], name: ti.states.get(name)})
    return operator(*names).resume_execution("execute_complete", {"event": event}, context)


def test_the_first_try_starts_the_run_and_waits_in_the_triggerer() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute()
    started = asked.value
    assert (started.trigger_dag_id, started.dag_run_id) == ("lakefs_gc", RUN)
    assert started.conf == {"repository": "lake"}
    assert started.wait_for_completion
    assert started.deferrable
    assert not started.reset_dag_run
    assert {"queued", "running"} <= set(started.allowed_states), "else its wait knows no end"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_try_that_died_is_followed_by_one_that_waits_for_the_same_run(state: str) -> None:
    with pytest.raises(TaskDeferred) as waiting:
        execute(**{RUN: state})
    assert waiting.value.method_name == "execute_complete"
    assert waiting.value.trigger.run_ids == [RUN]


def test_a_run_that_has_ended_well_is_not_started_again() -> None:
    assert execute(**{RUN: "success"}) == [RUN]


def test_a_run_that_failed_is_done_again_when_the_task_is_cleared() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute(**{RUN: "failed"})
    assert asked.value.reset_dag_run


def test_a_run_that_failed_is_not_tried_again_by_itself() -> None:
    with pytest.raises(AirflowFailException):
        told(Runs(**{RUN: "failed"}), RUN)
    assert told(Runs(**{RUN: "success"}), RUN) == [RUN]


def test_nothing_is_started_of_a_dag_that_is_paused() -> None:
    with pytest.raises(AirflowException):
        execute(paused="yes")


def test_a_run_that_a_person_deleted_is_noticed_within_minutes() -> None:
    ti = Runs(**{RUN: "running"})
    with pytest.raises(TaskDeferred) as waiting:
        told(ti, RUN)
    assert waiting.value.timeout is not None
    assert waiting.value.timeout.total_seconds() <= 300
    context: Any = {"ti": ti}
    with pytest.raises(TaskDeferred):  # it is still at work
        operator().resume_execution("__fail__", dict(TIMED_OUT), context)
    del ti.states[RUN]
    with pytest.raises(AirflowFailException):
        operator().resume_execution("__fail__", dict(TIMED_OUT), context)


@pytest.mark.parametrize("became", ["success", "failed", None])
def test_the_next_run_of_a_part_begins_whatever_became_of_the_one_before(became: str | None) -> None:
    ti = Runs(**{} if became is None else {RUN: became})
    with pytest.raises(DagRunTriggerException) as asked:
        told(ti, RUN, RUN, NEXT)
    assert (asked.value.dag_run_id, asked.value.reset_dag_run) == (NEXT, False)
    assert asked.value.conf == {"repository": "pond"}


@pytest.mark.parametrize("became", ["failed", None])
def test_a_part_is_good_only_where_all_its_runs_are(became: str | None) -> None:
    ti = Runs(**{NEXT: "success"} | ({} if became is None else {RUN: became}))
    with pytest.raises(AirflowFailException):
        told(ti, NEXT, RUN, NEXT)
    ti.states[RUN] = "success"
    assert told(ti, NEXT, RUN, NEXT) == [RUN, NEXT]


def test_the_list_of_tasks_names_their_repositories() -> None:
    assert operator().label == "lake"
    assert operator(RUN, NEXT).label == "lake … pond (2)"
