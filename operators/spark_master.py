"""Spark's address and environment: connection checks, Connect URL, Python of the executors."""

import hashlib
import importlib
import re
import socket
import uuid

from airflow_dredge.operators.params import is_given
from dredge.errors import ConfigError, UnavailableError

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

#: Environment of Spark drivers, clients and Connect servers, inherited by their workers. By default glibc has eight
#: arenas a processor and keeps freed memory: a third of the peak of two workers. Arrow's own allocator keeps 100 MiB of
#: a listing.
SMALL_MALLOC = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}


def make_remote(url: str, run_uri: str) -> tuple[str, str | None]:
    """Return the Connect URL of a run, with one session id for all steps, and the token separately.

    :return: the URL without token, and the token
    """
    place, _, settings = url.partition("/;")
    kept, token = [], None
    for item in filter(None, settings.split(";")):
        name, _, value = item.partition("=")
        if name == "token":
            token = value
        elif name != "session_id":
            kept.append(item)
    # The same id in every step and retry, so that the server keeps the session's Python workers.
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
    """Check that Airflow's Kubernetes provider is installed for a master on Kubernetes.

    :raises ConfigError: the provider is missing; Airflow's hook would fail with a NameError
    """
    if "k8s" not in host:
        return
    try:
        importlib.import_module("airflow.providers.cncf.kubernetes.kube_client")
    except ImportError:
        raise ConfigError(
            f"the Spark master {host} is on Kubernetes, and Airflow's provider for it is not installed. Nothing was"
            " changed. Install apache-airflow-providers-cncf-kubernetes where Airflow's workers run."
        ) from None


def check_deploy_mode(asked: str | None) -> None:
    """Check that the Spark driver runs in the worker."""
    if asked == "cluster":
        raise ConfigError(
            "deploy mode cluster is refused: a driver in the cluster has no credentials from Airflow's connections,"
            " and would continue to delete after its task was killed. Nothing was changed. Set deploy-mode to client"
            " in the connection (spark.submit.deployMode in conf): the executors still run in the cluster."
        )


def check_answers(master: str, seconds_max: float = _SECONDS_MAX) -> None:
    """Check that a standalone master listens, because Spark itself would try for a minute. Other masters have
    no single address.
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


def python_conf(given: str | None, master: str) -> dict[str, str]:
    """Return the Spark settings for the Python of the executors.

    :param given: the Param ``spark_python``: a path on the executors, a packed environment, or ``image:NAME``
    """
    if given is None or not is_given(given):
        return {}
    if master.startswith("local") and not master.startswith("local-cluster"):
        raise ConfigError(
            f"spark_python is {given!r}, but the master {master} uses the Python of the Airflow worker. Nothing"
            " was changed. Leave spark_python empty."
        )
    if given.startswith(_IMAGE):
        if not master.startswith("k8s://"):
            raise ConfigError(
                f"spark_python is {given!r}, but the master {master} is not on Kubernetes. Nothing was changed. Set a"
                " path or a packed environment."
            )
        image = given.removeprefix(_IMAGE)
        return {"spark.kubernetes.container.image": image, "spark.pyspark.python": "python3"}
    if given.endswith(_ARCHIVES):
        return {"spark.archives": f"{given}#{_FOLDER}", "spark.pyspark.python": f"./{_FOLDER}/bin/python3"}
    if given.startswith("/"):
        return {"spark.pyspark.python": given}
    raise ConfigError(
        f"spark_python is {given!r}; valid are a path such as /opt/dredge/bin/python, an environment packed by `dredge"
        f" spark-env` ({', '.join(_ARCHIVES)}), or image:NAME. Nothing was changed."
    )
