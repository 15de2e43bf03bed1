"""What Dredge's pages make of Airflow's answers."""

from typing import Any

import pytest

from airflow_dredge.operators.pages_airflow import _blocking


def run(day: int, state: str) -> dict[str, Any]:
    date = None if day == 0 else f"2026-03-{day:02}T00:00:00Z"
    return {"dag_id": "gc_lake", "dag_run_id": f"run/{day}", "logical_date": date, "state": state}


@pytest.mark.parametrize(
    ("states", "blocking"),
    [
        (["success", "failed", "running", "queued"], [("run/2", "run/3")]),
        (["failed", "queued"], [("run/1", "run/2")]),
        (["failed", "success", "running"], []),
        (["success", "running", "failed"], []),
        (["failed", "failed"], []),
        ([], []),
    ],
)
def test_a_run_that_failed_holds_up_the_one_after_it_by_date(
    states: list[str], blocking: list[tuple[str, str]]
) -> None:
    runs = [run(day, state) for day, state in enumerate(states, 1)]
    by_hand = [run(0, "failed"), run(0, "running")]
    found = list(_blocking([*reversed(runs), *by_hand]))
    assert [(item.run, item.next) for item in found] == blocking
    assert [item.address for item in found] == [
        f"dags/gc_lake/runs/{item.run.replace('/', '%2F')}" for item in found
    ]
