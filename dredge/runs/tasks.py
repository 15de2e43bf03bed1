"""How the work of a step is spread: a plain function over many small task descriptions.

    @partition_function
    def count_rows(run: WorkerRun, config: CountConfig, task: CountTask) -> CountResult: ...

    results = run.spread(runner, STEP, count_rows, CountConfig(...), tasks, unit="rows")

The three types are payloads (`dredge.runs.payload`). The decorator makes of the function what a `TaskRunner` calls:
`fn(config, task) -> result`, JSON in and JSON out, in any process. It opens the run as the worker sees it, and a result
holds counts and names, never rows: rows are written as parts whose names follow from the task. It can therefore run in
this process, in another one, or in a Spark worker, and again after a failure: the keys of parts are each call's own,
and what counts is the call whose result was taken.

Who runs it is the caller's choice:

    LocalRunner()             in this process; tests, small repositories, the floor of the benchmarks
    LocalRunner(processes=4)  in fresh processes
    a Spark runner            in the workers of a cluster (spark_jobs)

Tasks leave a small file every few seconds that says how far they are. The driver reads them, logs one line and leaves
it in the run folder, for pages.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import logging
import multiprocessing
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, get_type_hints

from dredge.errors import DredgeError, FormatError, NotFoundError, UnavailableError
from dredge.runs.clock import running_seconds, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.parts import keeping_parts
from dredge.runs.payload import Json, from_json, to_json
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer

type TaskFunction = Callable[[Json, Json], Json]


class TaskRunner(Protocol):
    """Runs a partition function over tasks."""

    @property
    def default_parallelism(self) -> int:
        """How many tasks can run at once."""

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run `fn(config, task)` for every task.

        Args:
            name: of the step, for logs and the engine's own pages.
            fn: module-level function.
            config: the same for all tasks; JSON, no secrets.
            tasks: one a call; JSON, no secrets.

        Returns:
            The results in the order of the tasks. An exception of any task is raised after all have stopped.
        """


class LocalRunner:
    """Runs tasks on this machine. Close it, or use it as a context manager, when it has processes.

    Args:
        processes: 0 runs every task in this process, one after the other; n runs n at once in other
            processes, which stay for the next step.
    """

    def __init__(self, processes: int = 0) -> None:
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    @property
    def default_parallelism(self) -> int:
        """How many tasks run at once."""
        return max(1, self.processes)

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run the tasks; see `TaskRunner.run`."""
        if self.processes == 0:
            return [fn(config, task) for task in tasks]
        if self._pool is None:
            # Spawned, not forked: the storage clients own threads and must not be inherited.
            self._pool = ProcessPoolExecutor(self.processes, mp_context=multiprocessing.get_context("spawn"))
        futures = [self._pool.submit(fn, config, task) for task in tasks]
        done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        wait(futures)
        for future in sorted(futures, key=lambda future: future not in done):  # those that failed first
            if not future.cancelled() and (error := future.exception()) is not None:
                raise self._ended(error)
        return [future.result() for future in futures]

    def _ended(self, error: BaseException) -> BaseException:
        """The error to raise for a task's; a process that was killed takes all of them with it."""
        if not isinstance(error, BrokenProcessPool):
            return error
        self._pool = None
        return UnavailableError(
            "a process that ran tasks ended all of a sudden: it was killed, or out of memory. What was written so far"
            " is kept. Run the step again, with fewer processes if it repeats."
        )

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def round_robin[T](items: Iterable[T], num_lists: int) -> list[list[T]]:
    """Spread items over at most `num_lists` lists, none empty: neighbours go to different lists.

    Args:
        items: in any order.
        num_lists: at least 1.
    """
    everything = list(items)
    count = max(1, min(num_lists, len(everything)))
    return [everything[first::count] for first in range(count)] if everything else []


def in_chunks[T](items: Sequence[T], num_chunks: int) -> list[list[T]]:
    """Split items into at most `num_chunks` chunks of neighbours of nearly equal length, none empty.

    Args:
        items: in the order that neighbours keep.
        num_chunks: at least 1.
    """
    count = max(1, min(num_chunks, len(items)))
    bounds = [len(items) * chunk // count for chunk in range(count + 1)]
    return [list(items[low:high]) for low, high in itertools.pairwise(bounds) if high > low]


log = logging.getLogger("dredge")

EVERY_SECONDS = 5.0
NOW = "_progress/now.json"
"""Below the folder of a step: how far it is, by its driver."""

PROGRESS = "dredge_progress"
"""Attribute of the log records of `log_progress`: step, unit, done, total (None where nobody knows) and seconds."""


class Progress:
    """One task's side.

    Args:
        folder: the run folder.
        where: the folder for progress files that `log_progress` gave to the tasks.
        task: name of this task's file.
    """

    def __init__(self, folder: RunFolder, where: str, task: str) -> None:
        self._folder = folder
        self._name = f"{where}/{task}.json"
        self._done = 0
        self._next = running_seconds() + EVERY_SECONDS
        self._lock = threading.Lock()

    def add(self, done: int) -> None:
        """Note work done; writes at most every few seconds. Safe to call from threads."""
        with self._lock:
            self._done += done
            now = running_seconds()
            if now < self._next:
                return
            self._next = now + EVERY_SECONDS
            value = self._done
        self._folder.writer.put(self._name, json.dumps({"done": value}).encode())


def line(step: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Word one line of progress.

    Args:
        step: name.
        unit: what is counted, such as "objects".
        done: so far.
        total: of how many; None when nobody knows.
        seconds: since the start.
    """
    rate = done / seconds if seconds > 0 else 0.0
    text = f"{step}: {done:,}" + (f" of {total:,}" if total else "") + f" {unit}, {rate:,.0f}/s"
    if total and rate > 0:
        left = max(0, total - done) / rate
        text += f", {left / 60:.0f} min left" if left >= 120 else f", {left:.0f} s left"
    return text


@contextmanager
def log_progress(folder: RunFolder, step: str, unit: str, total: int | None) -> Iterator[str]:
    """Log the progress of tasks while they run.

    Args:
        folder: the run folder.
        step: name, and the folder below which progress files lie.
        unit: what is counted.
        total: of how many; None when nobody knows.

    Yields:
        The folder name to hand to `Progress` in the tasks.
    """
    # A name of its own for each attempt: files of an earlier one must not count.
    where = f"{step}/_progress/{uuid.uuid4().hex[:8]}"
    stop = threading.Event()
    started = running_seconds()

    def poll() -> None:
        while not stop.wait(EVERY_SECONDS):
            try:
                done = _done(folder, where)
            except DredgeError as error:
                log.debug("%s: progress cannot be read: %s", step, error)
                continue
            seconds = running_seconds() - started
            text = line(step, unit, done, total, seconds)
            told = {"step": step, "unit": unit, "done": done, "total": total, "seconds": seconds}
            log.info("%s", text, extra={PROGRESS: told})
            _leave(folder, step, {"text": text, "done": done, "total": total, "at": utc_now().isoformat()})

    thread = threading.Thread(target=poll, name=f"progress-{step}", daemon=True)
    thread.start()
    try:
        yield where
    finally:
        stop.set()
        thread.join()


def _done(folder: RunFolder, where: str) -> int:
    keys = [item.key for item in folder.writer.list_level(f"{where}/").objects]
    return sum(json.loads(data)["done"] for _, data in folder.writer.get_many(keys))


def read_progress(folder: RunFolder, step: str) -> dict[str, Any] | None:
    """Read how far a step was when its driver last looked; None where it left no word.

    Args:
        folder: the run folder.
        step: name.

    Returns:
        `text` for people, `done`, `total` (None where nobody knows) and `at`, the time of the driver's machine.
    """
    try:
        found: dict[str, Any] = folder.read_json(f"{step}/{NOW}")
    except (NotFoundError, FormatError):
        return None
    return found


def _leave(folder: RunFolder, step: str, value: dict[str, Any]) -> None:
    try:
        folder.write_json(f"{step}/{NOW}", value)
    except DredgeError as error:
        log.debug("%s: progress cannot be written: %s", step, error)


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
