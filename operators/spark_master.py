"""Spark's address and environment: connection checks, Connect URL, Python of the executors."""

from __future__ import annotations

import hashlib
import importlib
import re
import socket
import uuid

from dredge.errors import ConfigError, UnavailableError

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

#: For whoever starts a driver, a client or a Connect server, whose workers have it from there: glibc would have eight
#: arenas for each processor, and keep what a task gave back. A third of what two workers hold at their peak.
SMALL_MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}


def remote_of_run(url: str, run_uri: str) -> tuple[str, str | None]:
    """Give the Connect address for a run: one session id for all its steps, and the token apart.

    :param url: ``sc://host:port/;key=value;…``
    :param run_uri: names the run
    :return: the address without token, and the token
    """
    place, _, settings = url.partition("/;")
    kept, token = [], None
    for item in filter(None, settings.split(";")):
        name, _, value = item.partition("=")
        if name == "token":
            token = value
        elif name != "session_id":
            kept.append(item)
    # The same id in every step and every retry: the server keeps the session's Python workers warm.
    session_id = uuid.UUID(bytes=hashlib.sha256(run_uri.encode()).digest()[:16], version=4)
    return f"{place.rstrip('/')}/;{';'.join([*kept, f'session_id={session_id}'])}", token


_SECONDS_MAX = 10.0
_STANDALONE = re.compile(r"spark://(.+)")
_PORT = 7077
#: The folder of an unpacked environment in an executor's working folder.
_FOLDER = "dredge-env"
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
_IMAGE = "image:"


def check_kubernetes(host: str) -> None:
    """Look whether what Airflow needs for a master on Kubernetes is installed.

    :param host: of the connection
    :raises ConfigError: it is not; Airflow's own hook would say no more than that a name is not defined
    """
    if "k8s" not in host:
        return
    try:
        importlib.import_module("airflow.providers.cncf.kubernetes.kube_client")
    except ImportError:
        raise ConfigError(
            f"the Spark master {host} is on Kubernetes, and Airflow's provider for it is not installed. Nothing was"
            " touched. Install apache-airflow-providers-cncf-kubernetes where Airflow's workers run."
        ) from None


def check_deploy_mode(asked: str | None) -> None:
    """Look whether the driver is to run beside the task.

    :param asked: deploy mode that the connection or a setting asks for
    :raises ConfigError: it is to run elsewhere
    """
    if asked == "cluster":
        raise ConfigError(
            "the deploy mode cluster is refused: a driver elsewhere has no credentials of Airflow's connections, and"
            " would go on deleting when its task is gone. Nothing was touched. Set deploy-mode to client in the"
            " connection (spark.submit.deployMode in conf): the executors are in the cluster all the same."
        )


def check_answers(master: str, seconds_max: float = _SECONDS_MAX) -> None:
    """Look whether a standalone master listens; Spark itself would try for a minute. Other kinds have no one address.

    :param master: URL, such as ``spark://first:7077,second:7077``, of which one must answer
    :param seconds_max: for each address
    :raises UnavailableError: none does
    """
    found = _STANDALONE.fullmatch(master)
    if found is None:
        return
    problems = []
    for address in found[1].split(","):
        host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_PORT))
        try:
            socket.create_connection((host.strip("[]"), int(port)), seconds_max).close()
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {error}")
        else:
            return
    raise UnavailableError(
        f"the Spark master {master} does not answer ({'; '.join(problems)}). Spark was not started. Start the"
        " master, or correct host and port of the Spark connection."
    )


def is_given(spark_python: str | None) -> bool:
    """Say whether there is a value.

    :param spark_python: as rendered
    """
    return spark_python not in (None, "", "None")


def python_conf(given: str | None, master: str) -> dict[str, str]:
    """Return the Spark settings by which executors get their Python.

    :param given: the Param ``spark_python``: a path on the executors, a packed environment, or ``image:NAME``
    :param master: URL of the master
    :raises ConfigError: it is none of these, or not for this master
    """
    if given is None or not is_given(given):
        return {}
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise ConfigError(
            f"spark_python is {given!r}, and tasks of the master {master} run the Python of the Airflow worker. Nothing"
            " was touched. Leave spark_python empty."
        )
    if given.startswith(_IMAGE):
        if not master.startswith("k8s://"):
            raise ConfigError(
                f"spark_python is {given!r}, and the master {master} is not on Kubernetes. Nothing was touched. Give a"
                " path or a packed environment."
            )
        image = given.removeprefix(_IMAGE)
        return {"spark.kubernetes.container.image": image, "spark.pyspark.python": "python3"}
    if given.endswith(_ARCHIVES):
        return {"spark.archives": f"{given}#{_FOLDER}", "spark.pyspark.python": f"./{_FOLDER}/bin/python3"}
    if given.startswith("/"):
        return {"spark.pyspark.python": given}
    raise ConfigError(
        f"spark_python is {given!r}; it is a path such as /opt/dredge/bin/python, an environment packed by `dredge"
        f" spark-env` ({', '.join(_ARCHIVES)}), or image:NAME. Nothing was touched."
    )
