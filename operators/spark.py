"""The steps that run on Spark: through spark-submit, or over a Spark Connect server."""

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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from dredge.errors import ConfigError, DredgeError, FormatError, UnavailableError
from dredge.runs.folder import RunFolder
from dredge.runs.summary import StepSummary
from operators.connect import ConnectJob
from operators.failures import reported
from operators.hooks.lakefs import LakeFSHook
from operators.lakefs.base import HasOptions, open_run, told

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_CONF_SECONDS_MAX = 240
_CONF_COMMAND = (sys.executable, "-m", "spark_jobs.session")
#: The line by which a job says why it ended; see spark_jobs/job.py.
_ENDED = re.compile(r"^dredge: (\w+): (.*)$")


class PlannedRun(HasOptions, Protocol):
    """A run of any collection."""

    @property
    def folder(self) -> RunFolder:
        """Its folder."""


class SparkJobOperator(SparkSubmitOperator):
    """Do one step of a planned run on Spark.

    The job is a file of ``spark_jobs`` that reads everything from the run's folder. Credentials reach it
    through its environment only, never through arguments, Spark settings or rendered fields. Killing the task
    ends the job; the step can then be run again and goes on where it stopped.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    :param spark_conn_id: connection that names the Spark master; must exist
    :param spark_connect_conn_id: connection that names the Spark Connect server
    :param conf: Spark settings on top of our defaults (templated)

    Further parameters are those of ``SparkSubmitOperator``.
    """

    step: ClassVar[str]
    folder: ClassVar[str]
    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "run_uri", "spark_engine")

    def __init__(
        self,
        *,
        run_uri: str,
        spark_engine: str = "submit",
        aws_conn_id: str | None = "aws_default",
        spark_conn_id: str = "spark_default",
        spark_connect_conn_id: str = SparkConnectHook.default_conn_name,
        conf: dict[Any, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs = {"application": str(job_file(self.step)), "name": f"dredge-{self.step}"} | kwargs
        super().__init__(conn_id=spark_conn_id, conf=conf, **kwargs)
        self.run_uri = run_uri
        self.spark_engine = spark_engine
        self.aws_conn_id = aws_conn_id
        self.spark_connect_conn_id = spark_connect_conn_id
        self._connect_job: ConnectJob | None = None

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables that let the job reach the object store."""
        return run.options.to_env() if run.options is not None else {}

    def run_job(self, context: Context, run: PlannedRun) -> StepSummary:
        """Run the job and return the summary that its step left."""
        match self.spark_engine:
            case "submit":
                self.submit(context, self.secrets(run))
            case "connect":
                self.connect(self.secrets(run))
            case other:
                raise ConfigError(f"spark_engine is {other!r}; it may be submit or connect")
        summary = run.folder.read_summary(self.folder)
        if summary is None:
            raise FormatError(
                f"run {run.folder.run_id}: the job {self.step} left no summary in {run.folder.uri}."
                " Nothing may be concluded from it; clear the task."
            )
        return summary

    def submit(self, context: Context, secrets: Mapping[str, str]) -> None:
        """Run the job through spark-submit."""
        # The provider takes a connection that does not exist for "yarn", so it is looked up first.
        require_connection(self._conn_id, '{"conn_type": "spark", "host": "local[*]"}')
        self.application_args = ["--run", self.run_uri]
        extra_variables, self.env_vars = self.env_vars or {}, None
        hook = self._hook = self._get_hook()
        if hook._connection["deploy_mode"] == "cluster":
            # The hook would put variables into settings, which anyone on the machine can list.
            log.warning("In cluster mode the driver must bring its own credentials; none are handed over.")
            hook._env_vars = extra_variables
        else:
            hook._conf = merged_conf(submit_conf(), self.conf or {})
            hook._env = self._environment(hook._connection["master"]) | extra_variables | dict(secrets)
        log.info(
            "Starting Spark for step %s: usually 5 to 15 seconds until its first line here, a minute the first time"
            " on a machine",
            self.step,
        )
        try:
            super().execute(context)
        except DredgeError:
            raise
        except FileNotFoundError as error:
            raise ConfigError(f"{error.filename} is not on the PATH of the Airflow worker") from None
        except Exception as error:
            code = hook._submit_sp.returncode if hook._submit_sp is not None else None
            raise job_error(self.step, code, hook._last_submit_log_lines) or error from None
        finally:
            if hook._submit_sp is not None and hook._submit_sp.stdout is not None:
                hook._submit_sp.stdout.close()  # the hook leaves it to the garbage collector

    def connect(self, secrets: Mapping[str, str]) -> None:
        """Run the job in a child process that drives a Spark Connect server."""
        require_connection(
            self.spark_connect_conn_id, '{"conn_type": "spark_connect", "host": "localhost", "port": 15002}'
        )
        url = SparkConnectHook(self.spark_connect_conn_id).get_connection_url()
        env = {**{name: str(value) for name, value in (self.env_vars or {}).items()}, **secrets}
        self._connect_job = ConnectJob(Path(self.application), self.run_uri, url, env)
        code = self._connect_job.run()
        if code:
            text = (
                f"the job {self.step} ended with code {code} and did not say why; it may have been killed, or out of"
                " memory. Its last lines are in the log above. Run the task again; it goes on where it stopped."
            )
            raise job_error(self.step, code, self._connect_job.last_lines) or UnavailableError(text)

    def on_kill(self) -> None:
        """End the job. What it wrote stays, and the step can be run again."""
        if self._connect_job is not None:
            self._connect_job.kill()
        elif self._hook is not None:
            super().on_kill()

    @staticmethod
    def _environment(master: str) -> dict[str, Any]:
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        # This Python's folder has a spark-submit of the right version; one already on the PATH wins.
        path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"
        env = {"PYSPARK_PYTHON": python, "PATH": path, **own_spark_home(path)}
        return env | {"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else env


class LakeFSSparkOperator(SparkJobOperator):
    """Do one step of a planned lakeFS collection on Spark, and return its figures.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server

    Further parameters are those of ``SparkJobOperator``.
    """

    def __init__(self, *, lakefs_conn_id: str = LakeFSHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id

    @cached_property
    def hook(self) -> LakeFSHook:
        """The lakeFS hook."""
        return LakeFSHook(self.lakefs_conn_id)

    @reported
    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job and return the figures of its step."""
        run = open_run(self.run_uri, self.aws_conn_id, self.hook)
        return told(self.step, self.run_job(context, run), run.plan.repository)

    def secrets(self, run: PlannedRun) -> dict[str, str]:
        """Return the variables that let the job reach the lakeFS server and the object store."""
        return self.hook.env() | super().secrets(run)


def own_spark_home(path: str) -> dict[str, str]:
    """Return SPARK_HOME when spark-submit is this environment's own; its search for it breaks on a space.

    :param path: where spark-submit will be looked for
    """
    found, spec = shutil.which("spark-submit", path=path), importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or found is None or spec is None or spec.origin is None:
        return {}
    own = Path(found).parent == Path(sys.executable).parent
    return {"SPARK_HOME": str(Path(spec.origin).parent)} if own else {}


def job_file(step: str) -> Path:
    """Return the file of a job; jobs are started, never imported."""
    spec = importlib.util.find_spec("spark_jobs")
    if spec is None or spec.origin is None:
        raise ConfigError("the package spark_jobs is not installed beside operators")
    return Path(spec.origin).with_name(f"{step}.py")


def submit_conf(command: Sequence[str] = _CONF_COMMAND) -> dict[str, str]:
    """Ask the jobs' code for their settings on this machine; {} when it cannot tell, which costs speed.

    What it says meanwhile is logged as it is said, because it may build the class archive first.

    :param command: prints the settings as JSON, and on stderr what it does
    """
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            too_long = threading.Timer(_CONF_SECONDS_MAX, process.kill)
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
        log.warning("Spark starts with its own settings: %s", error)
        return {}


def merged_conf(defaults: Mapping[str, str], conf: Mapping[Any, Any]) -> dict[str, str]:
    """Put a user's settings over the defaults; JVM options of both count, the user's last."""
    merged = dict(defaults) | {str(key): str(value) for key, value in conf.items()}
    if _JVM_OPTIONS in defaults and _JVM_OPTIONS in conf:
        merged[_JVM_OPTIONS] = f"{defaults[_JVM_OPTIONS]} {conf[_JVM_OPTIONS]}"
    return merged


def require_connection(conn_id: str, example: str) -> None:
    """Raise unless a connection exists.

    :param conn_id: its id
    :param example: JSON for the message
    """
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"the Spark connection {conn_id!r} does not exist. Make it in the UI or set"
            f" AIRFLOW_CONN_{conn_id.upper()}, for example to {example}"
        ) from None


def job_error(step: str, code: int | None, lines: Iterable[str]) -> DredgeError | None:
    """Make a job's error again from its exit code and its last words; None when it died without any."""
    families = {family.exit_code: family for family in _families(DredgeError) if family is not DredgeError}
    said = next((match for line in reversed(list(lines)) if (match := _ENDED.match(line.strip()))), None)
    family = families.get(code or 0)
    if family is None or said is None:
        return None
    return family(f"{step}: {said[2]}")


def _families(base: type[DredgeError]) -> Iterable[type[DredgeError]]:
    for child in base.__subclasses__():
        if child.__module__ == DredgeError.__module__ and "exit_code" in vars(child):
            yield child
            yield from _families(child)
