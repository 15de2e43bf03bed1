"""One Spark application for all steps of a run. Tasks request steps on a socket.

    spark-submit spark_jobs/step.py --serve /tmp/dredge-1000/spark-….sock
    python spark_jobs/step.py --serve /tmp/dredge-1000/spark-….sock --remote 'sc://host:15002'

Starting Spark, or a Spark Connect client, takes longer than most steps, so a run has only one application.
Messages, one JSON object each:

    application   {"free": true, "group": 4711}                 or {"free": false}: busy with another task
    task          {"step": …, "run": URI, "environment": {…}}   or {"end": true}
    application   {"code": 0, "said": ""}                       exit code and last line, as of a job

A driver without its task must not continue to delete, so the application stops the step and ends if the task
disconnects. It also ends after a failed step, so that a retry starts a new one; after the last step of a run;
and after some idle minutes. The plan's task starts it while the next task is being scheduled.

The folder of the socket belongs to this user only. Secrets are sent over the socket and are in the
environment during their step, never in arguments, settings or files.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from multiprocessing.connection import Connection, Listener
from typing import TYPE_CHECKING, Any

from airflow_dredge.spark_jobs.daemon import load_common
from airflow_dredge.spark_jobs.job import Job, check_run_uri, outcome, stop_this_process
from airflow_dredge.spark_jobs.rows import SparkRunner
from airflow_dredge.spark_jobs.session import close_session, open_session, quiet_pandas_notice
from dredge.gc import steps
from dredge.process import environment, is_of_this_user, trim_memory
from dredge.runs.payload import Json
from dredge.runs.tasks import TaskFunction, TaskRunner
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
"""Idle time before the application ends: a run that waits for an approval must not occupy a cluster."""
UNUSED_SECONDS = 90.0
"""Idle time before the first step, which may run on another machine than the plan, which starts Spark."""
_BACKLOG = 8


class Application:
    """Runs the requested steps, one at a time; ends after `idle_seconds` without a request.

    Attributes:
        is_over: whether the run has no further step on Spark.
    """

    def __init__(
        self, jobs: Mapping[str, Job], session: Future[SparkSession], idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._jobs = jobs
        self._session = session
        self._idle_seconds = idle_seconds
        self._wait_seconds = min(UNUSED_SECONDS, idle_seconds)
        self._in_use = threading.Lock()
        self._ending = False
        self.is_over = False
        self._tasks: queue.SimpleQueue[Connection] = queue.SimpleQueue()

    def serve(self, listener: Listener) -> None:
        """Serve tasks until the application ends."""
        threading.Thread(target=self._accept, args=(listener,), name="accept", daemon=True).start()
        try:
            while not self._ending:
                self._serve_one()
        finally:
            self._ending = True

    def _accept(self, listener: Listener) -> None:
        """Greet every client at once, even when busy."""
        while True:
            try:
                with listener.accept() as task:
                    # A client without a greeting starts another application.
                    if not self._ending and is_of_this_user(task):
                        self._greet(task)
            except OSError:
                if self._ending:  # the socket is closed
                    return

    def _greet(self, task: Connection) -> None:
        is_free = self._in_use.acquire(blocking=False)
        try:
            _say(task, {"free": is_free, "group": os.getpgid(0)})
            if is_free:
                self._tasks.put(_kept(task))
        except OSError:  # the client disconnected
            if is_free:
                self._in_use.release()

    def _serve_one(self) -> None:
        """Serve the next task."""
        try:
            task = self._tasks.get(timeout=self._wait_seconds)
        except queue.Empty:
            log.info("No step for %.0f s: stopping Spark; the next step starts it again", self._wait_seconds)
            self._ending = True
            return
        with task:
            try:
                asked = json.loads(task.recv_bytes()) if task.poll(self._idle_seconds) else None
            except (EOFError, OSError):  # the client only tested the connection
                asked = None
            if asked is None or "end" in asked:
                self.is_over = asked is not None
                self._settle(goes_on=asked is None)
            else:
                self._do(task, asked)

    def _settle(self, goes_on: bool) -> None:
        if goes_on:
            self._in_use.release()
        else:
            self._ending = True

    def _do(self, task: Connection, asked: Json) -> None:
        step, run_uri, done = asked["step"], asked["run"], threading.Event()
        self._wait_seconds = self._idle_seconds
        # A duplicate: after `task` is closed, its descriptor number may belong to the next task.
        threading.Thread(target=_stop_when_gone, args=(_kept(task), done), name="watch", daemon=True).start()
        with environment(asked["environment"]):
            code, said = outcome(step, run_uri, lambda: self._step(step, run_uri))
        done.set()
        trim_memory()
        # Before the answer, because the next step may follow at once.
        self.is_over = code == 0 and self._jobs[step].last
        self._settle(goes_on=code == 0 and not self.is_over)
        with suppress(OSError):
            _say(task, {"code": code, "said": said})
        if not self._ending and hasattr(steps, step):
            # The tasks in between run elsewhere: the next steps find their modules imported.
            for name in self._jobs:
                getattr(steps, name, None)

    def _step(self, step: str, run_uri: str) -> None:
        check_run_uri(run_uri)
        options = StorageOptions.from_env()
        self._jobs[step].do(run_uri, options, LateRunner(self._session, environment_of_child(options)))


class LateRunner:
    """Runs tasks on a Spark session that may still be opening; a `dredge.runs.tasks.TaskRunner`."""

    def __init__(self, session: Future[SparkSession], environ: Mapping[str, str]) -> None:
        self._session = session
        self._environ = environ

    @cached_property
    def _runner(self) -> TaskRunner:
        return SparkRunner(self._session.result(), self._environ)

    @property
    def default_parallelism(self) -> int:
        """Number of parallel tasks of the cluster."""
        return self._runner.default_parallelism

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run the tasks; see `SparkRunner.run`."""
        return self._runner.run(name, fn, config, tasks)


def serve(jobs: Mapping[str, Job], address: str, remote: str | None) -> None:
    """Run the application of a run on a socket; `remote` is the URL of a Spark Connect server, or None for
    Spark's driver.
    """
    if remote is not None:
        # Before a step imports its own modules beside it: the first tasks wait for the session, and then for workers.
        quiet_pandas_notice()
        import_module("pyspark.sql.connect.session")
    session = opening(lambda: open_session("dredge", remote))
    with Listener(address, "AF_UNIX", backlog=_BACKLOG) as listener:
        application = Application(jobs, session)
        application.serve(listener)
    if session.done():
        with suppress(Exception):  # the server drops the session after a while
            close_session(session.result(), application.is_over)


def opening(start: Callable[[], SparkSession]) -> Future[SparkSession]:
    """Open a session and warm up its workers, while the first step reads and plans."""
    session: Future[SparkSession] = Future()

    def work() -> None:
        try:
            spark = start()
        except BaseException as error:
            session.set_exception(error)
            return
        session.set_result(spark)
        with suppress(Exception):  # the step will report the error
            runner = SparkRunner(spark)
            runner.run("warm-up", load_modules, {}, [{}] * runner.default_parallelism)

    threading.Thread(target=work, name="session", daemon=True).start()
    return session


def load_modules(config: Json, task: Json) -> Json:
    """Import the common modules of tasks in a worker. A partition function."""
    load_common()
    return {}


def _kept(task: Connection) -> Connection:
    """Return a duplicate of a connection, independent of the caller's `with`."""
    return Connection(os.dup(task.fileno()))


def _say(task: Connection, message: Mapping[str, Any]) -> None:
    task.send_bytes(json.dumps(message).encode())


def _stop_when_gone(task: Connection, done: threading.Event) -> None:
    """Wait for the task to disconnect; if its step is unfinished then, stop this process."""
    with task, suppress(EOFError, OSError):
        task.recv_bytes()
    if not done.is_set():
        log.warning("The task of this step disconnected: Spark is stopped")
        stop_this_process()
