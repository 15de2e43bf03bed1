"""Tasks for a step on Spark, with spark-submit or a Spark Connect server."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.sdk import BaseOperator

from airflow_dredge.operators.application import SparkApplication, end_applications
from airflow_dredge.operators.hooks.connections import need_connection
from airflow_dredge.operators.params import is_given
from airflow_dredge.operators.spark_master import (
    TOKEN,
    check_answers,
    check_deploy_mode,
    check_kubernetes,
    make_remote,
    python_conf,
)
from dredge import __version__
from dredge.errors import ConfigError, DredgeError, FormatError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary
from dredge.runs.preflight import Line, line_of, ok
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

log = logging.getLogger(__name__)

_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_CONF_SECONDS_MAX = 240
_JOBS = "airflow_dredge.spark_jobs"
_CONF_COMMAND = (sys.executable, "-m", f"{_JOBS}.session")
#: First version of Spark with a Connect server.
_CONNECT_SINCE = 4
#: Last line of a failed job; see spark_jobs/job.py.
_ENDED = re.compile(r"^dredge: (\w+): (.*)$")


class PlannedRun(Protocol):
    """A planned run of any collector."""

    @property
    def options(self) -> StorageOptions | None:
        """Options for access to the store; None if the environment has them already."""

    @property
    def folder(self) -> RunFolder:
        """The run's folder."""


class SparkJobOperator(BaseOperator):
    """Run one step of a planned run on Spark.

    The job ``spark_jobs/step.py`` gets the step's name, and reads the rest from the run folder. Credentials
    are passed in its environment only, never in arguments, Spark settings or rendered fields. Killing the
    task stops the job; a retry continues where it stopped.

    :param run_uri: folder of the run, from the plan task (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)
    :param spark_python: Python of the executors; see `SparkSettings` (templated)
    :param aws_conn_id: connection of the object store; None, or a missing ``aws_default``, for local folders
        and machine roles
    :param spark_conn_id: connection of the Spark master; must exist
    :param spark_connect_conn_id: connection of the Spark Connect server
    :param conf: Spark settings that replace the defaults (templated)
    :param env_vars: further environment variables of Spark (templated)
    :param submit_arguments: further arguments of ``SparkSubmitHook``, such as ``{"executor_memory": "4g"}``
        (templated)
    :param application: the job's program
    """

    step: ClassVar[str]
    template_fields: Sequence[str] = (
        "run_uri",
        "spark_engine",
        "spark_python",
        "conf",
        "env_vars",
        "submit_arguments",
    )

    def __init__(
        self,
        *,
        run_uri: str,
        spark_engine: str = "submit",
        spark_python: str | None = None,
        aws_conn_id: str | None = "aws_default",
        spark_conn_id: str = "spark_default",
        spark_connect_conn_id: str = "spark_connect_default",
        conf: Mapping[str, Any] | None = None,
        env_vars: Mapping[str, Any] | None = None,
        submit_arguments: Mapping[str, Any] | None = None,
        application: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri
        self.spark_engine = spark_engine
        self.spark_python = spark_python
        self.aws_conn_id = aws_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_connect_conn_id = spark_connect_conn_id
        self.conf = conf
        self.env_vars = env_vars
        self.submit_arguments = submit_arguments
        self.application = application or str(job_file())
        self._application_of_run: SparkApplication | None = None

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables of the object store."""
        return environment_of_child(run.options) if run.options is not None else {}

    def read_summary(self, run: PlannedRun) -> StepSummary | None:
        """Return the job's summary in the run folder; None if missing."""
        return run.folder.read_summary(self.step)

    def run_job(self, run: PlannedRun) -> StepSummary:
        """Run the job and return its step's summary."""
        self.do_step(self.secrets(run))
        summary = self.read_summary(run)
        if summary is None:
            raise FormatError(
                f"run {run.folder.run_id}: the job {self.step} left no summary in {run.folder.uri}. Clear the task."
            )
        return summary

    def begin_spark(self) -> None:
        """Start Spark for the next tasks of the run. An error is only logged, because these tasks start Spark too."""
        try:
            self.do_step(None)
        except Exception as error:
            self.log.warning("Spark was not started in advance; a later task starts it: %s", error)

    def do_step(self, secrets: Mapping[str, str] | None) -> None:
        """Run the step with the configured engine; None only starts the engine."""
        match self.spark_engine:
            case "submit":
                self.submit(secrets)
            case "connect":
                self.connect(secrets)
            case other:
                raise ConfigError(f"spark_engine is {other!r}; valid are submit and connect")

    def submit(self, secrets: Mapping[str, str] | None) -> None:
        """Run the step with spark-submit; see `do_step`."""
        # Not at module level, and not as the base class: with OpenLineage's provider beside it, the import of Spark's
        # takes 0.5 s, also for a step that runs in the worker.
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        # The provider uses "yarn" for a missing connection, so look it up first.
        found = need_connection(self.spark_conn_id, "Spark", '{"conn_type": "spark", "host": "local[*]"}')
        check_kubernetes(found.host or "")
        more = dict(self.submit_arguments or {})
        try:
            hook = SparkSubmitHook(conf=dict(self.conf or {}), conn_id=self.spark_conn_id, **more)
        except TypeError as error:
            raise ConfigError(f"submit_arguments: {error}") from None
        check_deploy_mode(hook._connection["deploy_mode"] or hook._conf.get("spark.submit.deployMode"))
        master = hook._connection["master"]
        check_answers(master)
        defaults = submit_conf() | python_conf(self.spark_python, master)
        hook._conf = merged_conf(defaults, self.conf or {})
        self._ask_application(hook, self._environment(master) | dict(self.env_vars or {}), secrets)

    def _ask_application(
        self, hook: SparkSubmitHook, env: Mapping[str, Any], secrets: Mapping[str, str] | None
    ) -> None:
        hook._name = f"dredge {self.run_uri.rstrip('/').rpartition('/')[2]}"
        command = hook._build_spark_submit_command(self.application)
        variables = {name: str(value) for name, value in env.items()}
        try:
            self._do_in(SparkApplication(self.run_uri, command, variables), secrets)
        except FileNotFoundError as error:
            raise ConfigError(f"{error.filename} is not on the PATH of the Airflow worker") from None
        finally:
            hook._run_post_submit_commands()

    def _do_in(self, application: SparkApplication, secrets: Mapping[str, str] | None) -> None:
        if secrets is None:
            application.begin()
            return
        self._application_of_run = application
        code, said = application.do(self.step, secrets)
        if code != 0:
            how = "ended" if code is None else f"ended with code {code}"
            raise job_error(self.step, code, [said]) or UnavailableError(
                f"the job {self.step} {how} without an error message; it may have been killed, or out of memory. Its"
                " last lines are in the log above. Clear the task to continue the step."
            )

    def connect(self, secrets: Mapping[str, str] | None) -> None:
        """Run the step on a Spark Connect server; see `do_step`."""
        need_connection(
            self.spark_connect_conn_id,
            "Spark",
            '{"conn_type": "spark_connect", "host": "localhost", "port": 15002}',
        )
        if is_given(self.spark_python):
            raise ConfigError(
                f"spark_python is {self.spark_python!r}, but with spark_engine connect the server sets the Python"
                " of the executors. Nothing was changed. Leave spark_python empty."
            )
        if int(version("pyspark").partition(".")[0]) < _CONNECT_SINCE:
            raise ConfigError(
                f"spark_engine connect needs PySpark {_CONNECT_SINCE} or newer, not {version('pyspark')}. Set"
                " spark_engine to submit."
            )
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        url = SparkConnectHook(self.spark_connect_conn_id).get_connection_url()
        env = {name: str(value) for name, value in (self.env_vars or {}).items()}
        remote, token = make_remote(url, self.run_uri)
        command = [sys.executable, self.application, "--remote", remote]
        self._do_in(SparkApplication(self.run_uri, command, env, {TOKEN: token} if token else {}), secrets)

    def on_kill(self) -> None:
        """Stop the job. Its output is kept, and the step can run again."""
        if self._application_of_run is not None:
            self._application_of_run.kill()

    @staticmethod
    def _environment(master: str) -> dict[str, Any]:
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        # This Python's folder has a spark-submit of the right version; one on the PATH takes precedence.
        path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
        env = {
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,  # the driver runs in this task's Python
            "PATH": path,
            **own_spark_home(path),
        }
        return env | {"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else env


def own_spark_home(path: str) -> dict[str, str]:
    """Return SPARK_HOME for this environment's spark-submit, which cannot find it in a path with a space."""
    found, spec = shutil.which("spark-submit", path=path), importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or found is None or spec is None or spec.origin is None:
        return {}
    own = Path(found).parent == Path(sys.executable).parent
    return {"SPARK_HOME": str(Path(spec.origin).parent)} if own else {}


def job_file() -> Path:
    """Return the path of the job's program, which is started and never imported."""
    spec = importlib.util.find_spec(_JOBS)
    if spec is None or spec.origin is None:
        raise ConfigError(f"the package {_JOBS} is not installed beside the operators")
    return Path(spec.origin).with_name("step.py")


def submit_conf(
    command: Sequence[str] = _CONF_COMMAND, seconds_max: float = _CONF_SECONDS_MAX
) -> dict[str, str]:
    """Return Spark's settings for this machine from the jobs' code; {} (slower) after an error.

    The program's stderr is logged line by line, because the first build of the class archive takes minutes.
    """
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            too_long = threading.Timer(seconds_max, process.kill)
            too_long.start()
            try:
                for line in process.stderr:
                    log.info("%s", line.rstrip())
                said = process.stdout.read()
            finally:
                too_long.cancel()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        conf: dict[str, str] = json.loads(said)
        return conf
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("Spark starts with its default settings: %s", error)
        return {}


def merged_conf(defaults: Mapping[str, str], conf: Mapping[Any, Any]) -> dict[str, str]:
    """Return the user's settings over the defaults; JVM options are concatenated, the user's last."""
    merged = dict(defaults) | {str(key): str(value) for key, value in conf.items()}
    if _JVM_OPTIONS in defaults and _JVM_OPTIONS in conf:
        merged[_JVM_OPTIONS] = f"{defaults[_JVM_OPTIONS]} {conf[_JVM_OPTIONS]}"
    return merged


def job_error(step: str, code: int | None, lines: Iterable[str]) -> DredgeError | None:
    """Return a job's error from its exit code and last line; None if that is no error line."""
    families = {
        family.exit_code: family
        for family in DredgeError.__subclasses__()
        if family.__module__ == DredgeError.__module__
    }
    said = next((match for line in reversed(list(lines)) if (match := _ENDED.match(line.strip()))), None)
    family = families.get(code or 0)
    if family is None or said is None:
        return None
    return family(f"{step}: {said[2]}")


SECONDS_MAX = 120.0
"""Timeout for starting Spark, unpacking an environment, and one round of tasks."""
_CHECK = "spark"


def check_spark(operator: SparkJobOperator, seconds_max: float = SECONDS_MAX) -> Line:
    """Run a Spark job on the executors in a separate application, and return the preflight's line."""
    late = threading.Event()

    def end() -> None:
        late.set()
        operator.on_kill()

    timer = threading.Timer(seconds_max, end)
    timer.start()
    try:
        operator.do_step({})
    except DredgeError as error:
        if not late.is_set():
            return line_of(_CHECK, error)
        todo = "Check in Spark's UI that executors are free and can reach this machine."
        text = f"no executor finished its task within {seconds_max:.0f} s"
        return Line(_CHECK, "error", text, todo, UnavailableError.kind)
    finally:
        timer.cancel()
        end_applications(operator.run_uri)
    return ok(_CHECK, f"executors run tasks with the driver's Python and Dredge {__version__}")
