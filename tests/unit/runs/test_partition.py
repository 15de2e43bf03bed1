"""Partition functions: typed here, JSON between processes, found by name in each."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.gc.verify.deleted import VerifyTask, verify_parts
from dredge.runs.folder import RunFolder
from dredge.runs.payload import Json, to_json
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner, Stores, TaskFunction, WorkerRun, partition_function
from dredge.runs.tries import StepTry
from dredge.storage import open_writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What all tasks need."""

    since: datetime
    shards: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task."""

    words: list[str]
    part: PartInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What it found."""

    text: str
    where: str


@partition_function
def join_words(run: WorkerRun, config: Config, task: Task) -> Result:
    """Join the words of a task."""
    run.folder.write_bytes(f"joined/{task.words[0]}.txt", b"x", 1)
    return Result(
        text=f"{config.shards[2]} {' '.join(task.words)} {config.since.year}", where=run.folder.label
    )


CONFIG = Config(since=datetime(2026, 1, 2, tzinfo=UTC), shards={2: "two"})


class ThroughText:
    """Runs tasks as another process would see them: all there is, is text."""

    default_parallelism = 1

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: list[Json]) -> list[Json]:
        """Run them here."""
        return [json.loads(json.dumps(fn(*json.loads(json.dumps([config, task]))))) for task in tasks]


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


def test_types_go_in_and_come_out_and_only_text_lies_between(stores: Stores, tmp_path: Path) -> None:
    tasks = [Task(words=["a", "b"]), Task(words=["c"], part=PartInfo("n", 1, 2, "ab"))]
    found = join_words.spread(ThroughText(), "joined", stores, CONFIG, tasks)  # type: ignore[arg-type]
    assert found == [
        Result(text="two a b 2026", where="r1-t001"),
        Result(text="two c 2026", where="r1-t001"),
    ]
    assert {path.name.partition("-")[0] for path in (tmp_path / "run/joined/t001").iterdir()} == {"a", "c"}


def test_another_process_finds_the_function_by_its_name(stores: Stores) -> None:
    assert pickle.loads(pickle.dumps(verify_parts)) is verify_parts
    with LocalRunner(processes=1) as runner:
        folder = RunFolder(open_writer(stores.run_uri), stores.run_id)
        living = folder.write_table("verify", 0, pa.table({"address": pa.array([], pa.string())}), "living")
        config = verify_parts._types[0](threads=1, run_length=1, living=living)
        (found,) = verify_parts.spread(runner, "verify", stores, config, [VerifyTask(settled=[])])
    assert found.checked == 0


@pytest.mark.parametrize(
    "task", [{}, {"words": "a"}, {"words": [1]}, {"words": ["a"], "part": {"name": "n"}}], ids=str
)
def test_a_task_of_another_shape_is_refused_before_it_begins(stores: Stores, task: Json) -> None:
    config = {"stores": to_json(stores), "config": to_json(CONFIG)}
    with pytest.raises(FormatError):
        join_words(config, {"name": "0", "task": task})
