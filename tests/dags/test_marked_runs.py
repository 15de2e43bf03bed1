"""A person marks a run as failed: Airflow skips what has not begun, and what is skipped is good."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.airflow import Airflow, load_dag

DONE = "success"
"""Of a task that ended well."""


def marked(
    airflow: Airflow, dag_id: str, conf: Mapping[str, Any], states: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The state of a run with tasks in some states that a person marks as failed, where each task that still runs
    fails, and these tasks."""
    from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
    from airflow.models.dagrun import DagRun
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    airflow.run(dag_id, conf)  # refused at once; its rows serve as those of a run at work
    dag = DagSerialization.from_dict(DagSerialization.to_dict(load_dag(dag_id)))
    with create_session() as session:
        run = session.scalars(
            select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc())
        ).first()
        assert run is not None
        run.dag = dag
        for task in run.get_task_instances(session=session):
            task.state = states.get(task.task_id)
        run._state = DagRunState.RUNNING
        session.flush()
        set_dag_run_state_to_failed(dag=dag, run_id=run.run_id, commit=True, session=session)
        ran: list[str] = []
        while run.state == DagRunState.RUNNING:
            ready, _ = run.update_state(session=session, execute_callbacks=False)
            for task in ready:
                ran.append(task.task_id)
                task.state = "failed"
            session.flush()
        return str(run.state), ran


@pytest.mark.parametrize(
    "states",
    [
        {},
        {"check": DONE, "acquire_lease": "up_for_reschedule"},
        {"check": DONE, "acquire_lease": DONE, "plan": DONE, "slice_listing": "running"},
    ],
    ids=["not begun", "lease", "work"],
)
def test_a_run_that_a_person_marks_as_failed_is_red_and_has_its_page(
    airflow: Airflow, states: dict[str, str]
) -> None:
    state, ran = marked(airflow, "lakefs_gc", {"repository": "lake", "dry_runs": True}, states)
    assert (state, ran[0]) == ("failed", "save_report")
    assert ("release_lease" in ran) == (states.get("acquire_lease") == DONE)


def test_a_run_for_many_that_a_person_marks_as_failed_is_red_and_has_its_page(airflow: Airflow) -> None:
    state, ran = marked(airflow, "lakefs_gc_all", {"dry_runs": True}, {"choose_repositories": "running"})
    assert (state, ran) == ("failed", ["save_summary", "all_collected"])
