"""One Spark application for all steps of a run: it does each when it is asked to, on a socket.

    spark-submit spark_jobs/step.py --serve /tmp/dredge-1000/spark-….sock
    python spark_jobs/step.py --serve /tmp/dredge-1000/spark-….sock --remote 'sc://host:15002'

A start of Spark takes longer than most steps, and so does loading a client of Spark Connect: a run has one. What is
said, a JSON object a message:

    application   {"free": true, "group": 4711}                 or {"free": false}: it does somebody else's step
    task          {"step": …, "run": URI, "environment": {…}}   or {"end": true}
    application   {"code": 0, "said": ""}                       exit code and last line, as a job has them

A driver that nobody watches must not go on deleting: when the task that asked is gone, its step is stopped and the
application ends. It also ends after a step that failed, so that the next try starts afresh; after the last step of a
run; and when nobody has asked for anything for some minutes.

The socket lies in a folder that only its user can enter. Secrets come over it and are in the environment while their
step runs; they are in no argument, setting or file.
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
from multiprocessing.connection import Connection, Listener
from typing import TYPE_CHECKING, Any

from airflow_dredge.spark_jobs.daemon import load_common
from airflow_dredge.spark_jobs.job import Job, check_run_uri, outcome, stop_this_process
from airflow_dredge.spark_jobs.rows import SparkRunner
from airflow_dredge.spark_jobs.session import close_session, open_session
from dredge.process import environment, is_of_this_user
from dredge.runs.payload import Json
from dredge.runs.tasks import TaskFunction, TaskRunner
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
"""How long the application waits for the next step. A run that waits for a person does not keep a cluster."""
_BACKLOG = 8


class Application:
    """Does the steps that tasks ask for, one at a time.

    Args:
        jobs: what can be asked for, by step.
        session: Spark's, which may still be opening.
        idle_seconds: it ends when nobody has asked for anything for that long.

    Attributes:
        is_over: whether the run has no step left for Spark.
    """

    def __init__(
        self, jobs: Mapping[str, Job], session: Future[SparkSession], idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._jobs = jobs
        self._session = session
        self._idle_seconds = idle_seconds
        self._in_use = threading.Lock()
        self._ending = False
        self.is_over = False
        self._tasks: queue.SimpleQueue[Connection] = queue.SimpleQueue()

    def serve(self, listener: Listener) -> None:
        """Serve tasks until there is a reason to end.

        Args:
            listener: on the socket.
        """
        threading.Thread(target=self._accept, args=(listener,), name="accept", daemon=True).start()
        try:
            while not self._ending:
                self._serve_one()
        finally:
            self._ending = True

    def _accept(self, listener: Listener) -> None:
        """Greet everybody at once, so that nobody waits for an application that is busy."""
        while True:
            try:
                with listener.accept() as task:
                    # Who hears nothing starts another one.
                    if not self._ending and is_of_this_user(task):
                        self._greet(task)
            except OSError:
                if self._ending:  # the socket is closed, and would only say so again and again
                    return

    def _greet(self, task: Connection) -> None:
        is_free = self._in_use.acquire(blocking=False)
        try:
            _say(task, {"free": is_free, "group": os.getpgid(0)})
            if is_free:
                self._tasks.put(_kept(task))
        except OSError:  # it is gone already
            if is_free:
                self._in_use.release()

    def _serve_one(self) -> None:
        """Serve the next task."""
        try:
            task = self._tasks.get(timeout=self._idle_seconds)
        except queue.Empty:
            log.info("No step for %.0f s: Spark ends, the next step starts it again", self._idle_seconds)
            self._ending = True
            return
        with task:
            try:
                asked = json.loads(task.recv_bytes()) if task.poll(self._idle_seconds) else None
            except (EOFError, OSError):  # it only looked whether somebody is here
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
        # A line of its own: when this one is closed, its number is the next task's, who would lose a request to it.
        threading.Thread(target=_stop_when_gone, args=(_kept(task), done), name="watch", daemon=True).start()
        with environment(asked["environment"]):
            code, said = outcome(step, run_uri, lambda: self._step(step, run_uri))
        done.set()
        # Before it is told: who hears it may come with the next step at once.
        self.is_over = code == 0 and self._jobs[step].last
        self._settle(goes_on=code == 0 and not self.is_over)
        with suppress(OSError):
            _say(task, {"code": code, "said": said})

    def _step(self, step: str, run_uri: str) -> None:
        check_run_uri(run_uri)
        options = StorageOptions.from_env()
        self._jobs[step].do(run_uri, options, LateRunner(self._session, environment_of_child(options)))


class LateRunner:
    """Runs tasks on a Spark session that may still be opening; a `dredge.runs.tasks.TaskRunner`.

    Args:
        session: Spark's.
        environ: variables that the workers need, as for `SparkRunner`.
    """

    def __init__(self, session: Future[SparkSession], environ: Mapping[str, str]) -> None:
        self._session = session
        self._environ = environ

    @cached_property
    def _runner(self) -> TaskRunner:
        return SparkRunner(self._session.result(), self._environ)

    @property
    def default_parallelism(self) -> int:
        """How many tasks the cluster runs at once."""
        return self._runner.default_parallelism

    def run(self, name: str, fn: TaskFunction, config: Json, tasks: Sequence[Json]) -> list[Json]:
        """Run the tasks; see `SparkRunner.run`."""
        return self._runner.run(name, fn, config, tasks)


def serve(jobs: Mapping[str, Job], address: str, remote: str | None) -> None:
    """Be the application of a run; what `job_main` does with a socket.

    Args:
        jobs: what can be asked for, by step.
        address: path of the socket.
        remote: URL of a Spark Connect server; None where this is Spark's driver.
    """
    session = opening(lambda: open_session("dredge", remote))
    with Listener(address, "AF_UNIX", backlog=_BACKLOG) as listener:
        application = Application(jobs, session)
        application.serve(listener)
    if session.done():
        with suppress(Exception):  # a server lets go of it by itself after a while
            close_session(session.result(), application.is_over)


def opening(start: Callable[[], SparkSession]) -> Future[SparkSession]:
    """Open a session and get its workers ready, while the step that wants it reads and plans.

    Args:
        start: opens it.
    """
    session: Future[SparkSession] = Future()

    def work() -> None:
        try:
            spark = start()
        except BaseException as error:
            session.set_exception(error)
            return
        session.set_result(spark)
        with suppress(Exception):  # what is wrong with it, the step will say
            runner = SparkRunner(spark)
            runner.run("warm-up", load_modules, {}, [{}] * runner.default_parallelism)

    threading.Thread(target=work, name="session", daemon=True).start()
    return session


def load_modules(config: Json, task: Json) -> Json:
    """Let a worker load what the tasks of a run have in common. A partition function."""
    load_common()
    return {}


def _kept(task: Connection) -> Connection:
    """The same line, open when the block ends that was given it."""
    return Connection(os.dup(task.fileno()))


def _say(task: Connection, message: Mapping[str, Any]) -> None:
    task.send_bytes(json.dumps(message).encode())


def _stop_when_gone(task: Connection, done: threading.Event) -> None:
    """Wait until a task hangs up; end everything if its step is not done by then."""
    with task, suppress(EOFError, OSError):
        task.recv_bytes()
    if not done.is_set():
        log.warning("The task that asked for this step is gone: Spark ends")
        stop_this_process()
