"""How the work of a step is spread: a plain function over many small task descriptions.

A *partition function* has the shape `fn(config, task) -> result`: a module-level function, JSON in and JSON
out. It opens its own stores, writes its rows itself as parts with names that follow from the task, and gives
back counts and names, never rows. It can therefore run in this process, in another one, or in a Spark worker,
and again after a failure.

Who runs it is the caller's choice:

    LocalRunner()             in this process; tests, small repositories, the floor of the benchmarks
    LocalRunner(processes=4)  in fresh processes
    a Spark runner            in the workers of a cluster (spark_jobs)
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, Self

from dredge.errors import UnavailableError

type Json = dict[str, Any]
type PartitionFunction = Callable[[Json, Json], Json]


class TaskRunner(Protocol):
    """Runs a partition function over tasks."""

    @property
    def default_parallelism(self) -> int:
        """How many tasks can run at once."""

    def run(self, name: str, fn: PartitionFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
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

    def run(self, name: str, fn: PartitionFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
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
