"""The task that decides about a run for many repositories."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_dredge.operators.many import AllCollectedOperator
from dredge.errors import RefusedError
from tests.support.lakefs_operators import Pushed

PARTS = [[{"trigger_run_id": "a"}, {"trigger_run_id": "b"}], [{"trigger_run_id": "c"}]]


def decide(runs: Any, collected: Any) -> int:
    ti = Pushed()
    ti.task_id = "all_collected"
    context: Any = {"ti": ti}
    return AllCollectedOperator(task_id="all_collected", runs=runs, collected=collected).execute(context)


def test_a_run_is_good_where_each_repository_was_collected() -> None:
    assert decide(PARTS, [["a", "b"], ["c"]]) == 3
    assert decide([], None) == 0, "a server without repositories"


@pytest.mark.parametrize("collected", [None, [], [["a", "b"]], [["a"], ["c"]]])
def test_a_run_is_not_good_where_one_was_not(collected: Any) -> None:
    with pytest.raises(RefusedError):
        decide(PARTS, collected)


def test_a_run_is_not_good_where_none_was_chosen() -> None:
    with pytest.raises(RefusedError):
        decide(None, None)
