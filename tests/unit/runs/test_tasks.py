"""Task runners: results in order, errors raised after all have stopped, work dealt fairly."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import RefusedError, UnavailableError
from dredge.runs.payload import Json
from dredge.runs.tasks import LocalRunner, in_chunks, round_robin


def die(config: Json, task: Json) -> Json:
    os._exit(9)


def double(config: Json, task: Json) -> Json:
    if task["value"] == config.get("poison"):
        raise RefusedError("poisoned")
    return {"value": task["value"] * config["by"]}


def tell(config: Json, task: Json) -> Json:
    return {"pid": os.getpid()}


def meet(config: Json, task: Json) -> Json:
    """The first one fails when the second has begun, which ends a while later."""
    folder = Path(config["folder"])
    own, other = ("failed", "begun") if task["fails"] else ("begun", "failed")
    if not task["fails"]:
        (folder / own).touch()
    while not (folder / other).exists():
        pass
    if task["fails"]:
        (folder / own).touch()
        raise RefusedError("poisoned")
    sum(range(10_000_000))
    (folder / "ended").touch()
    return {}


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize("processes", [0, 2])
def test_results_come_in_the_order_of_the_tasks(processes: int) -> None:
    with LocalRunner(processes) as runner:
        assert runner.default_parallelism == max(1, processes)
        found = runner.run("step", double, {"by": 2}, [{"value": number} for number in range(7)])
        assert [item["value"] for item in found] == [0, 2, 4, 6, 8, 10, 12]
        with pytest.raises(RefusedError):
            runner.run("step", double, {"by": 2, "poison": 3}, [{"value": number} for number in range(7)])
        assert runner.run("step", double, {"by": 3}, [{"value": 1}]) == [{"value": 3}]


def test_processes_that_are_killed_can_be_tried_again() -> None:
    with LocalRunner(1) as runner:
        with pytest.raises(UnavailableError):
            runner.run("step", die, {}, [{}])
        assert runner.run("step", double, {"by": 3}, [{"value": 1}]) == [{"value": 3}]


def test_processes_stay_for_the_next_step_and_end_with_their_runner() -> None:
    with LocalRunner(1) as runner:
        (first,), (second,) = (runner.run("step", tell, {}, [{}]) for _ in range(2))
        assert first == second
        runner.close()
        assert not is_there(first["pid"])
        (third,) = runner.run("step", tell, {}, [{}])
        assert third != first
    assert not is_there(third["pid"])


def test_an_error_is_raised_when_no_task_is_at_work_any_more(tmp_path: Path) -> None:
    with LocalRunner(2) as runner:
        with pytest.raises(RefusedError):
            runner.run("step", meet, {"folder": str(tmp_path)}, [{"fails": True}, {"fails": False}])
        assert (tmp_path / "ended").exists()


items = st.lists(st.integers(), max_size=60)
hands = st.integers(1, 20)


@given(items, hands)
def test_dealt_items_are_all_there_once_and_hands_are_even(values: list[int], count: int) -> None:
    dealt = round_robin(values, count)
    assert sorted(value for hand in dealt for value in hand) == sorted(values)
    assert all(dealt) or not dealt
    assert len(dealt) == min(count, len(values))
    assert not dealt or max(map(len, dealt)) - min(map(len, dealt)) <= 1


@given(items, hands)
def test_cut_items_keep_their_order(values: list[int], count: int) -> None:
    pieces = in_chunks(values, count)
    assert [value for piece in pieces for value in piece] == values
    assert len(pieces) == min(count, len(values))
    assert not pieces or max(map(len, pieces)) - min(map(len, pieces)) <= 1
