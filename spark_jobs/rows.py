"""The only place where work and results cross between the driver and Spark's workers.

A step's work is a partition function over small task descriptions (`dredge.runs.tasks`). Here each task
becomes one partition of one Spark job; the worker opens its own stores, writes its rows itself, and one
JSON row a task comes back:

    driver   spark.range(0, n, 1, numPartitions=n).mapInArrow(work, "result string")
    worker   id 3 -> fn(config, tasks[3]) -> '{"index": 3, "result": {…}}' or '{"index": 3, "error": {…}}'

DataFrame API only, so the same lines run in a classic session and over Spark Connect.

An error of a task comes back as a row too, so that Spark does not cancel the job: when `run` raises, no
task is still running anywhere, and the error has its own class again. Only a lost worker fails the job
itself; Spark has then tried as often as the cluster is set to, and the step may be retried.

The workers' Python needs Dredge of the driver's version, without Airflow and without an extra. A worker that has
another one does nothing and says so: its rules of what is garbage may be others.

Credentials of the object store travel inside the pickled function, which is in no argument, setting, log or
page, and are in the worker's environment only while a task runs.
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

from airflow_dredge.spark_jobs.failures import spark_reason
from airflow_dredge.spark_jobs.session import is_remote
from dredge import __version__
from dredge.errors import ConfigError, DredgeError, FormatError, UnavailableError
from dredge.process import environment
from dredge.runs.failures import TaskDefect, places
from dredge.runs.payload import Json
from dredge.runs.tasks import TaskFunction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

RESULT_SCHEMA = "result string"
#: What an executor's Python says that has nothing of ours: a worker that unpickles one of our functions, or a daemon.
_NOT_INSTALLED = re.compile(r"No module named '?((?:airflow_)?dredge\b[\w.]*)")
#: What the JVM says of an executor where there is no Python.
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
#: What Spark says where the executors' Python has another minor version than the driver's.
_OTHER_PYTHON = "PYTHON_VERSION_MISMATCH"
_NAME_ONE = (
    "The Param spark_python names a Python that executors have, or an environment that `dredge spark-env` packed for"
    " them. Then run the step again; it goes on where it stopped."
)


class SparkRunner:
    """Runs tasks in the workers of a Spark session; a `dredge.runs.tasks.TaskRunner`.

    Args:
        spark: classic or Connect session.
        environ: variables that the workers need to reach the object store (`dredge.storage.environment_of_child`).
            Empty leaves them to their own (an instance role, the cluster's environment).
    """

    def __init__(self, spark: SparkSession, environ: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._tags = _tags_of(spark)
        self._environ = dict(environ or {})

    @cached_property
    def default_parallelism(self) -> int:
        """How many tasks the cluster runs at once."""
        if not is_remote(self._spark):
            return max(1, self._spark.sparkContext.defaultParallelism)
        local = re.fullmatch(r"local\[(\d+)\]", self._spark.conf.get("spark.master") or "")
        if local is not None:
            return max(1, int(local[1]))
        # Over Connect nobody tells; a range without a number of partitions gets as many as there are slots.
        from pyspark.sql.connect import functions

        ids = self._spark.range(0, 1 << 16).select(functions.spark_partition_id().alias("id"))
        return max(1, ids.distinct().count())

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run `fn(config, task)` for every task; see `TaskRunner.run`.

        Raises:
            DredgeError: of the family that a task raised; the gravest when several did.
            TaskDefect: a task raised something else.
            ConfigError: the executors' Python has no Dredge, another version of it, or is another Python.
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
                self._tags.cancel(tag)  # asked to stop: take the workers along
            elif _is_py4j(error):
                raise _spark_failed(name, error) from error
            raise
        finally:
            with contextlib.suppress(Exception):  # the session may be gone
                self._tags.remove(tag)


class _Tags(NamedTuple):
    """How jobs of this thread are marked, and cancelled by their mark."""

    add: Callable[[str], None]
    cancel: Callable[[str], object]
    remove: Callable[[str], None]


def _tags_of(spark: SparkSession) -> _Tags:
    if is_remote(spark):
        return _Tags(spark.addTag, spark.interruptTag, spark.removeTag)
    # Tags of a classic session came with Spark 4.0; those of its context are in 3.5 as well.
    context = spark.sparkContext
    return _Tags(context.addJobTag, context.cancelJobsWithTag, context.removeJobTag)


type Worker = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def worker(fn: TaskFunction, config: Json, tasks: Sequence[Json], environ: Mapping[str, str]) -> Worker:
    """Return the function that Spark ships: ids in, JSON rows out."""
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
    """Return the row of a task that is not done because this worker has another Dredge; "" when it has the same.

    Args:
        index: of the task.
        wanted: version of the driver's Dredge.
        found: version of the one here.
    """
    if found == wanted:
        return ""
    message = (
        f"the executors' Python has Dredge {found}, the driver's has {wanted}. This task was not begun."
        f" Install dredge=={wanted} for the executors ({sys.executable}), and run the step again."
    )
    failure = {"class": "ConfigError", "kind": "config", "message": message, "traceback": "", "places": []}
    return json.dumps({"index": index, "error": failure})


def answer(index: int, fn: TaskFunction, config: str, task: bytes, environ: Mapping[str, str]) -> str:
    """Run one task and return its row; never raises for an error of the task."""
    try:
        # A worker process runs one task at a time, so nobody else sees them.
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


def _in_order(name: str, rows: Sequence[str], count: int) -> list[Json]:
    answers: dict[int, Json] = {}
    for row in rows:
        found = json.loads(row)
        answers[found["index"]] = found
    if len(rows) != count or sorted(answers) != list(range(count)):
        raise FormatError(
            f"{name}: Spark gave back {len(rows)} results for {count} tasks. Nothing was concluded from them;"
            " run the step again."
        )
    errors = [_restored(name, found["error"]) for found in answers.values() if "error" in found]
    if errors:
        # A safety stop or bad bytes must not hide behind "try again later".
        raise min(errors, key=lambda error: isinstance(error, UnavailableError))
    return [answers[index]["result"] for index in range(count)]


def _restored(name: str, failure: Json) -> Exception:
    """Make the exception of a task again: its class if Dredge knows it, else its family, else one that the step
    reports as a defect.
    """
    families = {family.__name__: family for family in _families(DredgeError)}
    by_kind = {family.kind: family for family in reversed(families.values())}
    family = families.get(failure["class"]) or by_kind.get(failure["kind"])
    if family is None or family is DredgeError:
        log.error("%s: a task failed:\n%s", name, failure["traceback"])
        return TaskDefect(f"{name}: {failure['class']}: {failure['message']}", failure["places"])
    log.debug("%s: a task failed:\n%s", name, failure["traceback"])
    return family(failure["message"])


def _families(base: type[DredgeError]) -> Iterator[type[DredgeError]]:
    """Yield the classes of `dredge.errors`; subclasses elsewhere may want more than a message, so their
    family stands in.
    """
    if base.__module__ == DredgeError.__module__:
        yield base
        for child in base.__subclasses__():
            yield from _families(child)


def _is_py4j(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "py4j"


def _spark_failed(name: str, error: BaseException) -> ConfigError | UnavailableError:
    """Make the error of a job that Spark gave up: of wrong input where a retry would end the same."""
    # Not the chosen line alone: where a daemon does not start, the cause is in the text of a lost task.
    missing = _NOT_INSTALLED.search(str(error))
    if missing is not None:
        return ConfigError(
            f"{name}: the executors' Python has no Dredge (No module named '{missing[1]}'), so that no task"
            f" could begin there. Install dredge=={__version__} for them (Airflow does not come with it). {_NAME_ONE}"
        )
    absent = _NO_PYTHON.search(str(error))
    if absent is not None:
        return ConfigError(
            f"{name}: executors cannot start the Python {absent[1]}: there is none, so that no task could begin."
            f" {_NAME_ONE}"
        )
    reason = spark_reason(error)
    if _OTHER_PYTHON in str(error):
        return ConfigError(
            f"{name}: the executors have another Python than the driver ({sys.version.split()[0]}): {reason}."
            f" {_NAME_ONE}"
        )
    return UnavailableError(
        f"{name}: Spark could not finish: {reason}. What was written so far is kept, a retry goes on from there. If it"
        " repeats, look into the log of the executors."
    )
