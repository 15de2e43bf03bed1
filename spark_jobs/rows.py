"""Tasks and results between the driver and Spark's workers.

A step is a partition function over small task descriptions (`dredge.runs.tasks`). Each task is one partition
of a Spark job. The worker opens the stores, writes the rows, and returns one JSON row:

    driver   spark.range(0, n, 1, numPartitions=n).mapInArrow(work, "result string")
    worker   id 3 -> fn(config, tasks[3]) -> '{"index": 3, "result": {…}}' or '{"index": 3, "error": {…}}'

DataFrame API only, so the code runs in a classic session and over Spark Connect.

A task's error is also a row, so that Spark does not cancel the job: when `run` raises, no task is running,
and the error has its original class. Only lost workers fail the job itself, after Spark's retries.

The workers' Python needs Dredge in the driver's version, without Airflow and extras. A worker with another
version refuses its task, because its rules for garbage may differ.

Credentials of the object store are inside the pickled function, not in arguments, settings, logs or pages.
They are in the worker's environment only during a task.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from airflow_dredge.spark_jobs.session import is_remote, spark_reason
from dredge import __version__
from dredge.errors import ConfigError, DredgeError, FormatError, UnavailableError
from dredge.process import environment, trim_memory
from dredge.runs.failures import TaskDefect, places
from dredge.runs.payload import Json
from dredge.runs.tasks import TaskFunction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RESULT_SCHEMA = "result string"
#: Error of an executor's Python without Dredge, in a worker or a daemon.
_NOT_INSTALLED = re.compile(r"No module named '?((?:airflow_)?dredge\b[\w.]*)")
#: The JVM's error on an executor without Python.
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
#: Spark's error for executors with another minor version of Python.
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_NAME_ONE = (
    "Set the Param spark_python to a Python on the executors, or to an environment packed by `dredge spark-env`. Then"
    " run the step again; it continues."
)


class SparkRunner:
    """Runs tasks in the workers of a Spark session; a `dredge.runs.tasks.TaskRunner`.

    `environ` has the environment variables for the workers' access to the object store
    (`dredge.storage.environment_of_child`). If empty, workers use their own credentials.
    """

    def __init__(self, spark: SparkSession, environ: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._tags = _make_tags(spark)
        self._environ = dict(environ or {})

    @cached_property
    def default_parallelism(self) -> int:
        """Number of parallel tasks of the cluster."""
        if not is_remote(self._spark):
            return max(1, self._spark.sparkContext.defaultParallelism)
        local = re.fullmatch(r"local\[(\d+)\]", self._spark.conf.get("spark.master") or "")
        if local is not None:
            return max(1, int(local[1]))
        # Connect has no API for it; a range without a number of partitions gets one for each slot.
        from pyspark.sql.connect import functions

        ids = self._spark.range(0, 1 << 16).select(functions.spark_partition_id().alias("id"))
        return max(1, ids.distinct().count())

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run `fn(config, task)` for every task; see `TaskRunner.run`.

        Raises:
            DredgeError: the error of a task, or the gravest of several.
            TaskDefect: an unexpected error of a task.
            ConfigError: the executors' Python has no Dredge, another version of it, or another minor version.
            UnavailableError: Spark lost workers or could not finish.
        """
        if not tasks:
            return []
        started = time.monotonic()
        rows = self._collect(name, worker(fn, config, tasks, self._environ), len(tasks))
        results = _in_order(name, rows, len(tasks))
        log.info("%s: %d tasks in %.1f s", name, len(tasks), time.monotonic() - started)
        return results

    def _collect(self, name: str, work: Worker, count: int) -> list[str]:
        from pyspark.errors import PySparkException

        tag = f"dredge-{name}"
        frame = self._spark.range(0, count, 1, numPartitions=count)
        try:
            self._tags.add(tag)
            return [row[0] for row in frame.mapInArrow(work, RESULT_SCHEMA).collect()]
        except PySparkException as error:
            raise _spark_failed(name, error) from error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._tags.cancel(tag)  # stop the workers, too
            elif _is_py4j(error):
                raise _spark_failed(name, error) from error
            raise
        finally:
            with contextlib.suppress(Exception):  # the session may be closed
                self._tags.remove(tag)


class _Tags(NamedTuple):
    """Functions for the tags of this thread's jobs."""

    add: Callable[[str], None]
    cancel: Callable[[str], object]
    remove: Callable[[str], None]


def _make_tags(spark: SparkSession) -> _Tags:
    if is_remote(spark):
        return _Tags(spark.addTag, spark.interruptTag, spark.removeTag)
    # A classic session has tags from Spark 4.0 on; its context also in 3.5.
    context = spark.sparkContext
    return _Tags(context.addJobTag, context.cancelJobsWithTag, context.removeJobTag)


type Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def worker(fn: TaskFunction, config: Json, tasks: Sequence[Json], environ: Mapping[str, str]) -> Worker:
    """Return the pickled function of the workers: ids in, JSON rows out."""
    shipped = [zlib.compress(json.dumps(task).encode(), 1) for task in tasks]
    plain_config = json.dumps(config)
    variables, version = dict(environ), __version__

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = [
                other_version(index, version)
                or answer(index, fn, plain_config, zlib.decompress(shipped[index]), variables)
                for index in batch.column(0).to_pylist()
            ]
            yield pa.RecordBatch.from_pydict({"result": rows})

    return work


def other_version(index: int, wanted: str, found: str = __version__) -> str:
    """Return the error row for a worker with another version of Dredge; "" if the versions are equal."""
    if found == wanted:
        return ""
    message = (
        f"the executors' Python has Dredge {found}, the driver's has {wanted}. This task did not start."
        f" Install dredge=={wanted} for the executors ({sys.executable}), and run the step again."
    )
    failure = {"class": "ConfigError", "kind": "config", "message": message, "traceback": "", "places": []}
    return json.dumps({"index": index, "error": failure})


def answer(index: int, fn: TaskFunction, config: str, task: bytes, environ: Mapping[str, str]) -> str:
    """Run a task and return its row; does not raise."""
    try:
        # A worker process runs one task at a time, so no other task sees the variables.
        with environment(environ):
            result = fn(json.loads(config), json.loads(task))
        return json.dumps({"index": index, "result": result})
    except Exception as error:
        failure = {
            "class": type(error).__name__,
            "kind": getattr(error, "kind", None),
            "message": str(error),
            "traceback": traceback.format_exc(limit=-8),
            "places": places(error),
        }
        return json.dumps({"index": index, "error": failure})
    finally:
        trim_memory()


def _in_order(name: str, rows: Sequence[str], count: int) -> list[Json]:
    answers: dict[int, Json] = {}
    for row in rows:
        found = json.loads(row)
        answers[found["index"]] = found
    if len(rows) != count or sorted(answers) != list(range(count)):
        raise FormatError(
            f"{name}: Spark returned {len(rows)} results for {count} tasks, so all were ignored. Run the step again."
        )
    errors = [_restored(name, found["error"]) for found in answers.values() if "error" in found]
    if errors:
        # A refusal or a damaged file takes precedence over a transient error.
        raise min(errors, key=lambda error: isinstance(error, UnavailableError))
    return [answers[index]["result"] for index in range(count)]


def _restored(name: str, failure: Json) -> Exception:
    """Return a task's exception: of its own class if known, else of its family, else a `TaskDefect`."""
    families = {family.__name__: family for family in _families(DredgeError)}
    by_kind = {family.kind: family for family in reversed(families.values())}
    family = families.get(failure["class"]) or by_kind.get(failure["kind"])
    if family is None or family is DredgeError:
        log.error("%s: a task failed:\n%s", name, failure["traceback"])
        return TaskDefect(f"{name}: {failure['class']}: {failure['message']}", failure["places"])
    log.debug("%s: a task failed:\n%s", name, failure["traceback"])
    return family(failure["message"])


def _families(base: type[DredgeError]) -> Iterator[type[DredgeError]]:
    """Yield the classes of `dredge.errors`. Subclasses elsewhere may need more arguments, so their family
    replaces them.
    """
    if base.__module__ == DredgeError.__module__:
        yield base
        for child in base.__subclasses__():
            yield from _families(child)


def _is_py4j(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "py4j"


def _spark_failed(name: str, error: BaseException) -> ConfigError | UnavailableError:
    """Return the error of a failed job: `ConfigError` if a retry would fail, too."""
    # Search the whole text: if a daemon does not start, the cause is in the text of a lost task.
    missing = _NOT_INSTALLED.search(str(error))
    if missing is not None:
        return ConfigError(
            f"{name}: the executors' Python has no Dredge (No module named '{missing[1]}'); no task"
            f" started there. Install dredge=={__version__} for them (without Airflow). {_NAME_ONE}"
        )
    absent = _NO_PYTHON.search(str(error))
    if absent is not None:
        return ConfigError(f"{name}: executors have no Python at {absent[1]}; no task started. {_NAME_ONE}")
    reason = spark_reason(error)
    if _OTHER_PYTHON in str(error):
        return ConfigError(
            f"{name}: the executors have another Python than the driver ({sys.version.split()[0]}): {reason}."
            f" {_NAME_ONE}"
        )
    return UnavailableError(
        f"{name}: Spark could not finish: {reason}. Files written so far are kept, and a retry continues. If the error"
        " repeats, see the log of the executors."
    )
