"""Task runners: results in order, errors raised after all have stopped, work dealt fairly."""

import os
import pickle
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from dredge.errors import FormatError, RefusedError, UnavailableError
from dredge.gc.verify import find_in_ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import Json, PartInfo, to_json
from dredge.runs.tasks import LocalRunner, Stores, WorkerRun, partition_function, waiting_function
from dredge.runs.tries import StepTry
from dredge.storage import open_writer


def die(config: Json, task: Json) -> Json:
    os._exit(9)


def double(config: Json, task: Json) -> Json:
    if task["value"] == config.get("poison"):
        raise RefusedError("poisoned")
    return {"value": task["value"] * config["by"]}


def meet(config: Json, task: Json) -> Json:
    folder = Path(config["folder"])
    own, other = ("failed", "begun") if task["fails"] else ("begun", "failed")
    if not task["fails"]:
        (folder / own).touch()
    while not (folder / other).exists():
        time.sleep(0.001)
    if task["fails"]:
        (folder / own).touch()
        raise RefusedError("poisoned")
    time.sleep(0.2)
    (folder / "ended").touch()
    return {}


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


def test_an_error_is_raised_when_no_task_is_at_work_any_more(tmp_path: Path) -> None:
    with LocalRunner(2) as runner:
        with pytest.raises(RefusedError):
            runner.run("step", meet, {"folder": str(tmp_path)}, [{"fails": True}, {"fails": False}])
        assert (tmp_path / "ended").exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    since: datetime
    shards: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    words: list[str]
    part: PartInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    text: str
    where: str


@partition_function
def join_words(run: WorkerRun, config: Config, task: Task) -> Result:
    run.folder.write_bytes(f"joined/{task.words[0]}.txt", b"x", 1)
    return Result(
        text=f"{config.shards[2]} {' '.join(task.words)} {config.since.year}", where=run.folder.label
    )


CONFIG = Config(since=datetime(2026, 1, 2, tzinfo=UTC), shards={2: "two"})


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    folder = RunFolder(open_writer(f"file://{tmp_path}/run"), "r1")
    return Stores(
        run_uri=folder.uri,
        run_id="r1",
        attempt=StepTry.claim(folder.writer, "joined").named,
        store_uri=f"file://{tmp_path}",
        state_uri=f"file://{tmp_path}/state",
        progress="joined/_progress/x",
    )


MET = threading.Barrier(2)


@waiting_function
def meet_another(run: WorkerRun, config: int, task: int) -> int:
    MET.wait(20)
    return config * task


def test_tasks_that_wait_run_at_once_in_this_process_with_results_in_order(stores: Stores) -> None:
    assert meet_another.spread(LocalRunner(), "joined", stores, 2, [1, 2, 3, 4]) == [2, 4, 6, 8]


def test_another_process_finds_the_function_by_its_name(stores: Stores) -> None:
    assert pickle.loads(pickle.dumps(find_in_ledger)) is find_in_ledger
    with LocalRunner(processes=1) as runner:
        folder = RunFolder(open_writer(stores.run_uri), stores.run_id)
        living = folder.write_table("verify", 0, pa.table({"address": pa.array([], pa.string())}), "living")
        (found,) = find_in_ledger.spread(runner, "verify", stores, living, [[]])
    assert found == []


@pytest.mark.parametrize(
    "task", [{}, {"words": "a"}, {"words": [1]}, {"words": ["a"], "part": {"name": "n"}}], ids=str
)
def test_a_task_of_another_shape_is_refused_before_it_begins(stores: Stores, task: Json) -> None:
    config = {"stores": to_json(stores), "config": to_json(CONFIG)}
    with pytest.raises(FormatError):
        join_words(config, {"name": "0", "task": task})
