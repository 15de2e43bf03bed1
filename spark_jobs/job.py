"""Common parts of all jobs: arguments, logging, sessions, exit codes.

    spark-submit spark_jobs/step.py --step STEP --run URI
    python spark_jobs/step.py --step STEP --run URI --remote 'sc://host:15002/;session_id=…'
    spark-submit spark_jobs/step.py --serve SOCKET        every step of a run; see spark_jobs/application.py

The folder at URI has `plan.json` with everything else. Credentials come from the environment only (`AWS_…`,
`LAKECTL_…`). The exit code is that of the error's family in `dredge.errors`, and the last line on stderr is

    dredge: <kind>: <message>
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_dredge.spark_jobs.daemon import use_installed_spark
from airflow_dredge.spark_jobs.rows import SparkRunner
from airflow_dredge.spark_jobs.session import close_session, open_session
from dredge.errors import ConfigError, DredgeError
from dredge.runs.failures import defect
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Prefix of the last line of a failed job.
MARK = "dredge: "
_STOP_SECONDS_MAX = 10

type StepFunction = Callable[[str, StorageOptions, TaskRunner], Any]
"""Runs a step and returns its summary: takes the run folder's URI, the store's options, and the task runner."""


@dataclass(frozen=True, slots=True)
class Job:
    """A step as a program.

    Attributes:
        last: whether it is the run's last step on Spark, whose success ends a Connect session.
    """

    do: StepFunction
    last: bool = False

    def ending(self) -> Job:
        """Return this job as the last one of its run."""
        return replace(self, last=True)

    def run(self, spark: SparkSession, run_uri: str, options: StorageOptions | None = None) -> Any:
        """Run the step in a session and return its summary.

        Args:
            spark: classic or Connect session.
            run_uri: URI of the run folder.
            options: access to the object store, for driver and workers; None reads the environment.
        """
        check_run_uri(run_uri)
        options = options or StorageOptions.from_env()
        return self.do(run_uri, options, SparkRunner(spark, environment_of_child(options)))


def check_run_uri(run_uri: str) -> None:
    """Raise `ConfigError` unless the text is a URI."""
    if "://" not in run_uri:
        raise ConfigError(
            "--run must be the URI of a run folder such as s3://bucket/repo/_lakefs/…/<run id>,"
            f" not {run_uri!r}"
        )


def job_main(
    jobs: Mapping[str, Job],
    argv: Sequence[str] | None = None,
    serve: Callable[[Mapping[str, Job], str, str | None], None] | None = None,
) -> NoReturn:
    """Run a job as a program; `serve` runs jobs for clients of a socket."""
    arguments = _arguments(jobs, argv)
    use_installed_spark()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    for name in ("dredge", "airflow_dredge"):
        logging.getLogger(name).setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, _stop)
    if arguments.serve is None or arguments.remote is None:
        _end_with_parent()  # a serving Connect client outlives the task that started it
    if arguments.serve is None or serve is None:
        _exit(_run(arguments.step, jobs[arguments.step], arguments))
    with suppress(SystemExit):
        serve(jobs, arguments.serve, arguments.remote)
    _exit(0)


def outcome(step: str, run_uri: str, do: Callable[[], object]) -> tuple[int, str]:
    """Run a step and print its error on stderr; returns the family's exit code and the printed line, or 0 and ""."""
    try:
        do()
        return 0, ""
    except DredgeError as error:
        code, said = error.exit_code, f"{error.kind}: {' '.join(str(error).split())}"
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
        said = f"stopped: {step} received a signal; run the step again to continue"
    except KeyboardInterrupt:
        code, said = 130, f"stopped: {step} was interrupted; run the step again to continue"
    except Exception as error:
        logging.getLogger(__package__).exception("%s failed", step)
        found = defect(f"the job {step}", error, run_uri)
        code, said = found.exit_code, f"{found.kind}: {' '.join(str(found).split())}"
    print(f"{MARK}{said}", file=sys.stderr)
    return code, f"{MARK}{said}"


def _run(step: str, job: Job, arguments: argparse.Namespace) -> int:
    opened: list[SparkSession] = []

    def do() -> None:
        check_run_uri(arguments.run)  # first, because opening a session takes seconds
        opened.append(open_session(f"dredge {step}", arguments.remote, arguments.master))
        job.run(opened[0], arguments.run)

    code, _ = outcome(step, arguments.run, do)
    for spark in opened:
        with suppress(Exception):
            close_session(spark, job.last and code == 0)
    return code


def _arguments(jobs: Mapping[str, Job], argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One step of a collection, spread over Spark.")
    parser.add_argument("--step", choices=sorted(jobs), help="the step")
    parser.add_argument("--run", metavar="URI", help="folder of the run, with its plan.json")
    parser.add_argument("--serve", metavar="SOCKET", help="run the steps that clients of this socket request")
    parser.add_argument("--remote", metavar="URL", help="Spark Connect server, sc://host:port/;session_id=…")
    parser.add_argument("--master", metavar="MASTER", help="Spark master without spark-submit")
    arguments = parser.parse_args(argv)
    if arguments.serve is None and (arguments.step is None or arguments.run is None):
        parser.error("give --step and --run, or --serve")
    return arguments


def _stop(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _end_with_parent() -> None:
    """End this process with its parent: a driver without its task must not continue to delete."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        stop_this_process()

    if parent > 1:  # init, in a container, never ends
        threading.Thread(target=watch, name="parent", daemon=True).start()


def stop_this_process() -> None:
    """Ask this process to stop; after a timeout end it with its threads. Called from another thread."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS_MAX)
    os._exit(128 + signal.SIGTERM)


def _exit(code: int) -> NoReturn:
    """Exit without waiting for the threads of storage and gRPC clients."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
