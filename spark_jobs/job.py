"""What every job has in common: arguments, logging, sessions, and how a run ends.

    spark-submit spark_jobs/step.py --step STEP --run URI
    python spark_jobs/step.py --step STEP --run URI --remote 'sc://host:15002/;session_id=…'
    spark-submit spark_jobs/step.py --serve SOCKET        every step of a run; see spark_jobs/application.py

The folder at URI holds `plan.json`, which says everything else. Credentials come by the environment only
(`AWS_…`, `LAKECTL_…`). Exit codes are those of `dredge.errors`, one a family, and the last line on stderr is

    dredge: <kind>: <message>

so that whoever started the job can tell a safety stop from a busy store without reading a stack trace.
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

from airflow_dredge.spark_jobs.rows import SparkRunner
from airflow_dredge.spark_jobs.session import close_session, open_session
from dredge.errors import ConfigError, DredgeError
from dredge.runs.failures import defect
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: First word of the line that says why a job ended.
MARK = "dredge: "
_STOP_SECONDS_MAX = 10

type StepFunction = Callable[[str, StorageOptions, TaskRunner], Any]
"""Does a step and gives its summary: takes the URI of the run folder, how to reach the object store, and the runner
that spreads tasks."""


@dataclass(frozen=True, slots=True)
class Job:
    """A step that can be run as a program.

    Attributes:
        do: the step.
        last: it is the last of its run on Spark, so a Connect session may end when it succeeded.
    """

    do: StepFunction
    last: bool = False

    def ending(self) -> Job:
        """The same job, as the last of its run on Spark."""
        return replace(self, last=True)

    def run(self, spark: SparkSession, run_uri: str, options: StorageOptions | None = None) -> Any:
        """Do the step over a session, and return its summary.

        Args:
            spark: classic or Connect session.
            run_uri: URI of the run folder, whose plan says everything else.
            options: how to reach the object store, for the driver and (inside the task functions) for the workers;
                None reads the environment.

        Raises:
            ConfigError: not such a URI.
            DredgeError: as the step says.
        """
        check_run_uri(run_uri)
        options = options or StorageOptions.from_env()
        return self.do(run_uri, options, SparkRunner(spark, environment_of_child(options)))


def check_run_uri(run_uri: str) -> None:
    """Look whether something can be the URI of a run folder.

    Raises:
        ConfigError: it cannot.
    """
    if "://" not in run_uri:
        raise ConfigError(
            "--run wants the URI of a run folder such as s3://bucket/repo/_lakefs/…/<run id>,"
            f" not {run_uri!r}"
        )


def job_main(
    jobs: Mapping[str, Job],
    argv: Sequence[str] | None = None,
    serve: Callable[[Mapping[str, Job], str, str | None], None] | None = None,
) -> NoReturn:
    """Run a job as a program.

    Args:
        jobs: those that can be asked for, by step.
        argv: arguments; defaults to the program's.
        serve: does jobs for whoever asks on a socket; it is given its path, and the URL of a Connect server or None.
    """
    arguments = _arguments(jobs, argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr, force=True)
    for name in ("dredge", "airflow_dredge"):
        logging.getLogger(name).setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, _stop)
    if arguments.serve is None or arguments.remote is None:
        _end_with_parent()  # a client of Connect that serves was started by a task, and serves those after it
    if arguments.serve is None or serve is None:
        _exit(_run(arguments.step, jobs[arguments.step], arguments))
    with suppress(SystemExit):
        serve(jobs, arguments.serve, arguments.remote)
    _exit(0)


def outcome(step: str, run_uri: str, do: Callable[[], object]) -> tuple[int, str]:
    """Do a step, and say on stderr how it ended.

    Args:
        step: its name.
        run_uri: folder of the run.
        do: does it.

    Returns:
        The exit code of its error's family, 0 without an error; and the line that was said, "" without an error.
    """
    try:
        do()
        return 0, ""
    except DredgeError as error:
        code, said = error.exit_code, f"{error.kind}: {' '.join(str(error).split())}"
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
        said = f"stopped: {step} was asked to stop; the run can be resumed"
    except KeyboardInterrupt:
        code, said = 130, f"stopped: {step} was interrupted; the run can be resumed"
    except Exception as error:
        logging.getLogger(__package__).exception("%s failed", step)
        found = defect(f"the job {step}", error, run_uri)
        code, said = found.exit_code, f"{found.kind}: {' '.join(str(found).split())}"
    print(f"{MARK}{said}", file=sys.stderr)
    return code, f"{MARK}{said}"


def _run(step: str, job: Job, arguments: argparse.Namespace) -> int:
    opened: list[SparkSession] = []

    def do() -> None:
        check_run_uri(arguments.run)  # before a session is opened, which takes seconds
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
    parser.add_argument("--serve", metavar="SOCKET", help="do every step that is asked for on this socket")
    parser.add_argument("--remote", metavar="URL", help="Spark Connect server, sc://host:port/;session_id=…")
    parser.add_argument("--master", metavar="MASTER", help="Spark master when started without spark-submit")
    arguments = parser.parse_args(argv)
    if arguments.serve is None and (arguments.step is None or arguments.run is None):
        parser.error("--step and --run are wanted, or --serve")
    return arguments


def _stop(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone: a driver nobody watches must not go on
    deleting.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        stop_this_process()

    if parent > 1:  # started by init in a container: there is nobody to lose
        threading.Thread(target=watch, name="parent", daemon=True).start()


def stop_this_process() -> None:
    """Ask this process to stop, and end it when it does not, with all that is its own; for a thread beside it."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS_MAX)
    os._exit(128 + signal.SIGTERM)


def _exit(code: int) -> NoReturn:
    """Leave without waiting for the threads of storage and gRPC clients."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
