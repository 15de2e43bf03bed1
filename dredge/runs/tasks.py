"""How a step's work is spread: a partition function is called for each of many small tasks.

    @partition_function
    def count_rows(run: WorkerRun, config: CountConfig, task: CountTask) -> CountResult: ...

    results = run.spread(runner, STEP, count_rows, CountConfig(...), tasks, unit="rows")

The three types are payloads (`dredge.runs.payload`). The decorator makes a function with JSON arguments and result,
which a `TaskRunner` calls in any process: `LocalRunner` in this process or in fresh ones, a Spark runner (spark_jobs)
in the workers of a cluster. A result has counts and names, never rows: rows are written as parts with names that follow
from the task. A task may run twice: each call has its own keys, and only the call with the accepted result counts.

Tasks write a small progress file every few seconds. The driver reads them, logs one line and writes it to the run
folder for pages.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, BrokenExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Self, get_type_hints

from msgspec import Struct

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.runs.clock import running_seconds, utc_now
from dredge.runs.folder import RunFolder
from dredge.runs.parts import cache_parts
from dredge.runs.payload import Json, from_json, to_json
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer
from dredge.storage.parallel import ordered_map

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

type TaskFunction = Callable[[Json, Json], Json]


class TaskRunner(Protocol):
    """Runs a function over tasks."""

    @property
    def default_parallelism(self) -> int:
        """Number of parallel tasks."""

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run `fn(config, task)` for every task. `config`: the same for all tasks; JSON, no secrets. `tasks`: one for
        each call; JSON, no secrets. Returns the results in the order of the tasks. An exception of a task is raised
        after all have stopped."""


class TooManyRowsError(RefusedError):
    """A step has more rows than its runner accepts; another runner starts the step again."""


class LocalRunner:
    """Runs tasks on this machine. With processes it must be closed, or used as a context manager. `processes`: 0 runs
    tasks one after the other in this process; n runs n at once in other processes, which stay for the next step.
    `rows_max`: a step with more rows raises TooManyRowsError before its tasks."""

    def __init__(self, processes: int = 0, rows_max: int | None = None) -> None:
        self.processes = processes
        self.rows_max = rows_max
        self._pool: ProcessPoolExecutor | None = None

    @property
    def default_parallelism(self) -> int:
        """Number of parallel tasks."""
        return max(1, self.processes)

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run the tasks; see `TaskRunner.run`."""
        if self.processes == 0:
            return list(ordered_map(functools.partial(fn, config), tasks, getattr(fn, "at_once", 1)))
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            # Spawned, not forked: the storage clients own threads and must not be inherited.
            self._pool = ProcessPoolExecutor(self.processes, mp_context=get_context("spawn"))
        futures = [self._pool.submit(fn, config, task) for task in tasks]
        done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        wait(futures)
        for future in sorted(futures, key=lambda future: future not in done):  # first the first failures
            if not future.cancelled() and (error := future.exception()) is not None:
                raise self._ended(error)
        return [future.result() for future in futures]

    def _ended(self, error: BaseException) -> BaseException:
        """Return the error to raise for a task's; a killed process ends all tasks."""
        if not isinstance(error, BrokenExecutor):
            return error
        self._pool = None
        return UnavailableError(
            "a worker process was killed, or ran out of memory. Written parts are kept. Run the step again; if this"
            " repeats, with fewer processes."
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
    """Spread items over at most `num_lists` lists, none empty; neighbours are in different lists."""
    everything = list(items)
    count = max(1, min(num_lists, len(everything)))
    return [everything[first::count] for first in range(count)] if everything else []


def in_chunks[T](items: Sequence[T], num_chunks: int) -> list[list[T]]:
    """Split items into at most `num_chunks` chunks of neighbours of nearly equal length, none empty."""
    count = max(1, min(num_chunks, len(items)))
    bounds = [len(items) * chunk // count for chunk in range(count + 1)]
    return [list(items[low:high]) for low, high in itertools.pairwise(bounds) if high > low]


log = logging.getLogger("dredge")

EVERY_SECONDS = 5.0
_WAITING_AT_ONCE = 4
# Progress of a step, below its folder; written by the driver.
NOW = "_progress/now.json"

# Attribute of the log records of `log_progress`: step, unit, done, total (None if unknown) and seconds.
PROGRESS = "dredge_progress"


class Progress:
    """Progress of a task. `where`: folder of progress files, from `log_progress`. `task`: name of this task's file."""

    def __init__(self, folder: RunFolder, where: str, task: str) -> None:
        self._folder = folder
        self._name = f"{where}/{task}.json"
        self._done = 0
        self._next = running_seconds() + EVERY_SECONDS
        self._lock = threading.Lock()

    def add(self, done: int) -> None:
        """Count finished work, and write it at most every few seconds. Thread-safe."""
        with self._lock:
            self._done += done
            now = running_seconds()
            if now < self._next:
                return
            self._next = now + EVERY_SECONDS
            value = self._done
        self._folder.writer.put(self._name, json.dumps({"done": value}).encode())


def line(step: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Format a line of progress, with the remaining time if the total is known."""
    rate = done / seconds if seconds > 0 else 0.0
    text = f"{step}: {done:,}" + (f" of {total:,}" if total else "") + f" {unit}, {rate:,.0f}/s"
    if total and rate > 0:
        left = max(0, total - done) / rate
        text += f", {left / 60:.0f} min left" if left >= 120 else f", {left:.0f} s left"
    return text


@contextmanager
def log_progress(folder: RunFolder, step: str, unit: str, total: int | None) -> Iterator[str]:
    """Log the progress of tasks during a block. `step`: name, and folder of the progress files. `total`: None if
    unknown. Yields the folder for `Progress` in the tasks."""
    # A folder for each try: progress files of an earlier try must not count.
    where = f"{step}/_progress/{uuid.uuid4().hex[:8]}"
    stop = threading.Event()
    started = running_seconds()

    def poll() -> None:
        while not stop.wait(EVERY_SECONDS):
            try:
                keys = [item.key for item in folder.writer.list_level(f"{where}/").objects]
                done = sum(json.loads(data)["done"] for _, data in folder.writer.get_many(keys))
                seconds = running_seconds() - started
                text = line(step, unit, done, total, seconds)
                progress = {"step": step, "unit": unit, "done": done, "total": total, "seconds": seconds}
                log.info("%s", text, extra={PROGRESS: progress})
                now = {"text": text, "done": done, "total": total, "at": utc_now().isoformat()}
                folder.write_json(f"{step}/{NOW}", now)
            except DredgeError as error:
                log.debug("%s: progress cannot be read or written: %s", step, error)

    thread = threading.Thread(target=poll, name=f"progress-{step}", daemon=True)
    thread.start()
    try:
        yield where
    finally:
        stop.set()
        thread.join()


def read_progress(folder: RunFolder, step: str) -> dict[str, Any] | None:
    """Read the last progress of a step's driver; None if absent; returns `text` for people, `done`, `total` (None if
    unknown) and `at`, the driver's time."""
    try:
        found: dict[str, Any] = folder.read_json(f"{step}/{NOW}")
    except (NotFoundError, FormatError):
        return None
    return found


class Stores(Struct, frozen=True, kw_only=True):
    """URIs of a run, for its tasks."""

    run_uri: str
    run_id: str
    attempt: tuple[str, int] | None  # the try, from `StepTry.named`; None outside a step
    store_uri: str  # the collected storage namespace (lakeFS) or repository (Icechunk)
    state_uri: str  # the folder with lease and index
    progress: str  # folder of progress files, relative to the run folder


class WorkerRun(Struct, frozen=True):
    """A run in a task."""

    stores: Stores
    folder: RunFolder  # the run folder; files belong to the driver's try
    progress: Progress
    task: str  # name among the tasks of the step

    @classmethod
    def open(cls, stores: Stores, task: str) -> WorkerRun:
        """Open a run in a worker, with the store settings of this process's environment."""
        folder = RunFolder.of_task(stores.run_uri, stores.run_id, stores.attempt)
        return cls(stores, folder, Progress(folder, stores.progress, task), task)

    def open_store(self) -> ObjectReader:
        """Open the collected store for reading."""
        return open_reader(self.stores.store_uri)

    def open_state(self) -> ObjectWriter:
        """Open the folder with lease and index."""
        return open_writer(self.stores.state_uri)


class PartitionFunction[C, T, R]:
    """A function for a `TaskRunner`; made by `partition_function`. `at_once`: number of tasks that one process may run
    at once."""

    def __init__(self, body: Callable[[WorkerRun, C, T], R], at_once: int = 1) -> None:
        self.body = body
        self.at_once = at_once
        functools.update_wrapper(self, body)

    @functools.cached_property
    def _types(self) -> tuple[type[C], type[T], type[R]]:
        hints = get_type_hints(self.body)
        _, config, task = inspect.signature(self.body).parameters
        return hints[config], hints[task], hints["return"]

    def __call__(self, config: Json, task: Json) -> Json:
        """Run a task, with JSON arguments and result."""
        config_type, task_type, _ = self._types
        run = WorkerRun.open(from_json(Stores, config["stores"]), task["name"])
        with cache_parts(run.folder.uri):
            return to_json(
                self.body(run, from_json(config_type, config["config"]), from_json(task_type, task["task"]))
            )

    def spread(self, runner: TaskRunner, step: str, stores: Stores, config: C, tasks: Sequence[T]) -> list[R]:
        """Run the function over tasks; returns the results in the order of the tasks."""
        _, _, result_type = self._types
        common = {"stores": to_json(stores), "config": to_json(config)}
        items = [{"name": f"{number:05d}", "task": to_json(task)} for number, task in enumerate(tasks)]
        return [from_json(result_type, result) for result in runner.run(step, self, common, items)]

    def __reduce__(self) -> str:
        # By name, as functions are: workers import the module and find this object in it.
        return self.__qualname__  # type: ignore[attr-defined, no-any-return]


def partition_function[C, T, R](body: Callable[[WorkerRun, C, T], R]) -> PartitionFunction[C, T, R]:
    """Make a partition function of a module-level function; its types are payloads."""
    return PartitionFunction(body)


def waiting_function[C, T, R](body: Callable[[WorkerRun, C, T], R]) -> PartitionFunction[C, T, R]:
    """Make a partition function whose tasks need little memory and mostly wait for the store."""
    return PartitionFunction(body, at_once=_WAITING_AT_ONCE)
