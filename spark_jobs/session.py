"""Spark sessions for the jobs: small and quick to start, the same through spark-submit, in process and over
Connect.

    python -m airflow_dredge.spark_jobs.session     print the configuration for spark-submit as JSON (operators ask it)

A setting that the user made (spark-defaults, `--conf`, the Airflow connection) always wins.
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
from airflow_dredge.spark_jobs.failures import spark_reason
from dredge.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: Settings for every job. No rows are shuffled through the JVM, so a handful of partitions is plenty.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "8",
    # A second copy of a task would only ask the object store twice; results are safe, the requests are
    # wasted.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}
#: For a driver that is the whole cluster: no dependence on how the machine's name resolves, and workers that share
#: what they have loaded.
LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": daemon.MODULE,
}

LOG4J = Path(__file__).with_name("log4j2.properties")


def submit_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings that must be known before the driver's JVM starts, and the defaults.

    Builds the class archive on first use. The paths in it are this machine's, so it fits a driver that runs
    here (client mode) only.
    """
    options = java_options(ensure_archive(environ))
    conf_dir = environ.get("SPARK_CONF_DIR")
    if conf_dir is None or not (Path(conf_dir) / "log4j2.properties").exists():
        options += f' "-Dlog4j2.configurationFile={LOG4J.as_uri()}"'
    return {
        **DEFAULTS,
        "spark.driver.extraJavaOptions": options,
        "spark.pyspark.python": environ.get("PYSPARK_PYTHON", sys.executable),
        # PYSPARK_PYTHON is a path on the executors' machines; without this one the driver would be started with it.
        "spark.pyspark.driver.python": sys.executable,
    }


def open_session(name: str, remote: str | None = None, master: str | None = None) -> SparkSession:
    """Return a session: the one of spark-submit, a remote one, or a local one started here.

    Args:
        name: application name, shown in cluster pages, unless spark-submit was given one.
        remote: `sc://host:port/;session_id=…` for Spark Connect. A fixed session id lets all steps of a run
            share the server's warm Python workers.
        master: for a session started here, when neither spark-submit nor spark-defaults names one.

    Raises:
        UnavailableError: Spark does not start, or the Connect server cannot be reached.
    """
    quiet_pandas_notice()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if remote is not None:
        return _open_remote(remote)
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.config(conf=session_conf(name, master)).getOrCreate()
    except Exception as error:  # Py4J's, Spark's, or none of both where the JVM ended
        raise UnavailableError(
            f"Spark did not start: {spark_reason(error)}. Nothing was touched. The log above says more; see whether the"
            " cluster answers and can reach this machine."
        ) from error


def session_conf(name: str, master: str | None = None) -> SparkConf:
    """Return the configuration of a session that is no remote one: the user's settings, and ours where there are none.

    Args:
        name: application name.
        master: where neither spark-submit nor spark-defaults names one.
    """
    from pyspark import SparkConf, SparkContext

    if _inside_submit():
        SparkContext._ensure_initialized()  # before that, a SparkConf has none of spark-submit's settings
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

    Args:
        spark: a local one stops, with its JVM. A remote one stays on the server, its workers warm for the
            run's next step, and only this client's channel closes.
        last: no step of the run will come back for it, so the server may let go of it too.
    """
    if is_remote(spark) and not last:
        spark.client.close()
    elif is_remote(spark) or not _inside_submit():
        spark.stop()
    # spark-submit's JVM stops its context when it ends, which is now; asking for it costs another second.


def is_remote(spark: SparkSession) -> bool:
    """Say whether a session is a Spark Connect one."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def with_session_id(remote: str, session_id: str) -> str:
    """Return a Connect URL with its session id set.

    Args:
        remote: `sc://host:port/;key=value;…`; the part after the port may be missing.
        session_id: a UUID.

    Raises:
        ConfigError: not such a URL.

    Source: https://github.com/apache/spark/blob/master/sql/connect/docs/client-connection-string.md
    """
    match = re.fullmatch(r"(sc://[^/;]+)(?:/([^/]*))?", remote)
    if match is None:
        raise ConfigError(
            f"a Spark Connect URL looks like sc://host:15002/;key=value, not like {_plain(remote)!r}"
        )
    settings = [item for item in (match[2] or "").split(";") if item and not item.startswith("session_id=")]
    return f"{match[1]}/;{';'.join([*settings, f'session_id={session_id}'])}"


def quiet_pandas_notice() -> None:
    """Silence pyspark's notice that pandas 3 is new to it: rows pass as Arrow, pandas takes no part."""
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
            # An earlier attempt of this run may have been killed while its tasks went on.
            spark.interruptAll()
            return cast("SparkSession", spark)
        except PySparkException as error:
            if spark is not None:
                with suppress(Exception):
                    spark.client.close()
            # A server forgets a session after an hour without a call, and then refuses its id for good.
            if "SESSION_CLOSED" not in str(error) or url != remote:
                text = f"Spark Connect at {_plain(remote)} cannot be used: {spark_reason(error)}"
                raise UnavailableError(
                    f"{text}. Nothing was touched; start the server or correct the address."
                ) from error
            log.info("The run's Spark Connect session is closed; going on in a new one")
            url = with_session_id(remote, str(uuid.uuid4()))
    raise AssertionError("unreachable")


def _inside_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _plain(remote: str) -> str:
    """The address without settings, one of which may be a token."""
    return remote.partition(";")[0]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    print(json.dumps(submit_conf()))
