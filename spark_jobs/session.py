"""Spark sessions for the jobs: spark-submit, local, or Connect.

    python -m airflow_dredge.spark_jobs.session     print the settings for spark-submit as JSON, for the
    operators

The user's settings (spark-defaults, `--conf`, the Airflow connection) take precedence.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from airflow_dredge.spark_jobs import daemon
from airflow_dredge.spark_jobs.archive import ensure_archive, java_options
from dredge.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_PYTHON_CAUSE = re.compile(r"^(?:[\w.]*\.)?\w+(?:Error|Exception|Interrupt)(?:: .*)?$")
_REASON_LENGTH_MAX = 500

#: Settings for every job. No rows are shuffled, so few partitions suffice.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "8",
    # A second copy of a task would be safe, but would repeat its requests to the object store.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}
#: For a local master: independent of the machine's DNS name, and with workers that share their imports.
LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": daemon.MODULE,
}

LOG4J = Path(__file__).with_name("log4j2.properties")


def submit_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the defaults, and the settings that the driver's JVM needs at its start.

    Builds the class archive on first use. The paths are valid on this machine only, so the driver must run
    here (client mode).
    """
    options = java_options(ensure_archive(environ))
    conf_dir = environ.get("SPARK_CONF_DIR")
    if conf_dir is None or not (Path(conf_dir) / "log4j2.properties").exists():
        options += f' "-Dlog4j2.configurationFile={LOG4J.as_uri()}"'
    return {
        **DEFAULTS,
        "spark.driver.extraJavaOptions": options,
        "spark.pyspark.python": environ.get("PYSPARK_PYTHON", sys.executable),
        # PYSPARK_PYTHON is a path on the executors; without this setting the driver would use it, too.
        "spark.pyspark.driver.python": sys.executable,
    }


def open_session(name: str, remote: str | None = None, master: str | None = None) -> SparkSession:
    """Open a session of spark-submit, of a Connect server, or a local one.

    Args:
        name: application name, unless spark-submit has one.
        remote: `sc://host:port/;session_id=…` for Spark Connect. With a fixed session id all steps of a run
            share the server's Python workers.
        master: for a local session, unless spark-submit or spark-defaults name one.

    Raises:
        UnavailableError: Spark does not start, or the Connect server does not answer.
    """
    quiet_pandas_notice()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote is not None:
        return _open_remote(remote)
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.config(conf=session_conf(name, master)).getOrCreate()
    except Exception as error:  # of Py4J, of Spark, or another one if the JVM ended
        raise UnavailableError(
            f"Spark did not start: {spark_reason(error)}. Nothing was changed. See the log above; check that the"
            " cluster answers and can reach this machine."
        ) from error


def session_conf(name: str, master: str | None = None) -> SparkConf:
    """Return the settings of a local or spark-submit session: the user's settings over the defaults."""
    from pyspark import SparkConf, SparkContext

    if _inside_submit():
        SparkContext._ensure_initialized()  # loads spark-submit's settings for SparkConf
    conf = SparkConf()
    if master is not None:
        conf.setIfMissing("spark.master", master)
    wanted = {"spark.app.name": name} | (dict(DEFAULTS) if _inside_submit() else submit_conf())
    if re.match(r"local\b(?!-)", conf.get("spark.master") or "local"):
        wanted |= LOCAL_DEFAULTS
    for key, value in wanted.items():
        conf.setIfMissing(key, value)
    return conf


def close_session(spark: SparkSession, last: bool = False) -> None:
    """End a session.

    A local session stops with its JVM. A remote one stays on the server for the run's next step, and only
    this client's channel closes; after the `last` step it ends.
    """
    if is_remote(spark) and not last:
        spark.client.close()
    elif is_remote(spark) or not _inside_submit():
        spark.stop()
    # spark-submit's JVM is about to stop its context itself; an explicit stop costs another second.


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def with_session_id(remote: str, session_id: str) -> str:
    """Return a Connect URL with a session id; raises `ConfigError` for an invalid URL.

    Source: https://github.com/apache/spark/blob/master/sql/connect/docs/client-connection-string.md
    """
    match = re.fullmatch(r"(sc://[^/;]+)(?:/([^/]*))?", remote)
    if match is None:
        raise ConfigError(
            f"a Spark Connect URL has the form sc://host:15002/;key=value, not {_plain(remote)!r}"
        )
    settings = [item for item in (match[2] or "").split(";") if item and not item.startswith("session_id=")]
    return f"{match[1]}/;{';'.join([*settings, f'session_id={session_id}'])}"


def quiet_pandas_notice() -> None:
    """Ignore pyspark's warning about pandas 3: rows are Arrow data, without pandas."""
    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )


def _open_remote(remote: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    url = remote
    for _ in range(2):
        spark = None
        try:
            spark = RemoteSession.builder.remote(url).create()
            # Tasks of an earlier, killed try may still be running.
            spark.interruptAll()
            return cast("SparkSession", spark)
        except PySparkException as error:
            if spark is not None:
                with suppress(Exception):
                    spark.client.close()
            # A server drops a session after an idle hour, and then rejects its id permanently.
            if "SESSION_CLOSED" not in str(error) or url != remote:
                text = f"Spark Connect at {_plain(remote)} cannot be used: {spark_reason(error)}"
                raise UnavailableError(
                    f"{text}. Nothing was changed. Start the server, or correct the address."
                ) from error
            log.info("The run's Spark Connect session is closed; continuing in a new one")
            url = with_session_id(remote, str(uuid.uuid4()))
    raise AssertionError("unreachable")


def _inside_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _plain(remote: str) -> str:
    """Return the URL without settings, because they may contain a token."""
    return remote.partition(";")[0]


def spark_reason(error: BaseException) -> str:
    """Return one line of a Spark error: a worker's exception, else the reason of the abort, else the first line."""
    lines = [line.strip(" :.\t") for line in str(error).partition("JVM stacktrace")[0].splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    chosen = lines[:1] or [type(error).__name__]
    if any("Python worker" in line for line in lines) and any("Traceback" in line for line in lines):
        chosen = [line for line in lines if _PYTHON_CAUSE.match(line)][-1:] or chosen
    else:
        chosen = [line for line in lines if "Job aborted due to stage failure" in line][:1] or chosen
    return chosen[0][:_REASON_LENGTH_MAX].rstrip(" .:")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    print(json.dumps(submit_conf()))
