"""Partition functions: the part of a step that is spread, a call for each task.

    @partition_function
    def count_rows(run: WorkerRun, config: CountConfig, task: CountTask) -> CountResult: ...

    results = run.spread(runner, STEP, count_rows, CountConfig(...), tasks, unit="rows")

The three types are payloads (`dredge.runs.payload`). The decorator makes of the function what a `TaskRunner` calls:
JSON in, JSON out, in any process. It opens the run as the worker sees it, so that no function has to, and a result
holds counts and names, never rows: rows are written as parts whose names follow from the task. The keys of these parts
are each call's own, so that a task that runs twice overwrites nothing; what counts is the call whose result was taken.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_type_hints

from dredge.runs.folder import RunFolder
from dredge.runs.kept import keeping_parts
from dredge.runs.payload import from_json, to_json
from dredge.runs.progress import Progress
from dredge.runs.tasks import Json, TaskRunner
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Where a task finds its run.

    Attributes:
        run_uri: URI of the run folder.
        run_id: the run's id.
        attempt: the try that the task's results belong to, as `StepTry.named` gives it; None outside a step.
        store_uri: URI of the storage namespace (lakeFS) or the repository (Icechunk) that is collected.
        state_uri: URI of the folder with lease and index.
        progress: folder of progress files, relative to the run folder.
    """

    run_uri: str
    run_id: str
    attempt: tuple[str, int] | None
    store_uri: str
    state_uri: str
    progress: str


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A run as one task sees it.

    Attributes:
        stores: URIs.
        folder: the run folder; what is written belongs to the driver's try.
        progress: of this task.
        task: its name, among the tasks of the step.
    """

    stores: Stores
    folder: RunFolder
    progress: Progress
    task: str

    @classmethod
    def open(cls, stores: Stores, task: str) -> WorkerRun:
        """Open a run in a worker; stores are reached as this process's environment says.

        Args:
            stores: as the driver named them.
            task: name of the task, and of its progress file.
        """
        folder = RunFolder.of_task(stores.run_uri, stores.run_id, stores.attempt)
        return cls(stores, folder, Progress(folder, stores.progress, task), task)

    def open_store(self) -> ObjectReader:
        """Open what is collected, for reading."""
        return open_reader(self.stores.store_uri)

    def open_state(self) -> ObjectWriter:
        """Open the folder with lease and index."""
        return open_writer(self.stores.state_uri)


class PartitionFunction[C, T, R]:
    """What a `TaskRunner` calls for each task; made by `partition_function`.

    Args:
        body: the decorated function.
    """

    def __init__(self, body: Callable[[WorkerRun, C, T], R]) -> None:
        self.body = body
        functools.update_wrapper(self, body)

    @functools.cached_property
    def _types(self) -> tuple[type[C], type[T], type[R]]:
        hints = get_type_hints(self.body)
        _, config, task = inspect.signature(self.body).parameters
        return hints[config], hints[task], hints["return"]

    def __call__(self, config: Json, task: Json) -> Json:
        """Do one task, JSON in and JSON out."""
        config_type, task_type, _ = self._types
        run = WorkerRun.open(from_json(Stores, config["stores"]), task["name"])
        with keeping_parts(run.folder.uri):
            return to_json(
                self.body(run, from_json(config_type, config["config"]), from_json(task_type, task["task"]))
            )

    def spread(self, runner: TaskRunner, step: str, stores: Stores, config: C, tasks: Sequence[T]) -> list[R]:
        """Run the function over tasks.

        Args:
            runner: spreads the tasks.
            step: name of the step, for logs and the engine's own pages.
            stores: where the tasks find the run.
            config: the same for all tasks.
            tasks: one a call.

        Returns:
            The results in the order of the tasks.
        """
        _, _, result_type = self._types
        common = {"stores": to_json(stores), "config": to_json(config)}
        items = [{"name": f"{number:05d}", "task": to_json(task)} for number, task in enumerate(tasks)]
        return [from_json(result_type, result) for result in runner.run(step, self, common, items)]

    def __reduce__(self) -> str:
        # By name, as functions are: workers import the module and find this object in it.
        return self.__qualname__  # type: ignore[attr-defined, no-any-return]


def partition_function[C, T, R](body: Callable[[WorkerRun, C, T], R]) -> PartitionFunction[C, T, R]:
    """Make a partition function of a function at module level with payloads for types."""
    return PartitionFunction(body)
