"""A private Airflow for the demo: its home, its connections, and one run of the DAG."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dredge.storage import StorageOptions

ROOT = Path(__file__).resolve().parent.parent


def environment(
    home: Path,
    endpoint: str,
    access_key_id: str,
    secret_access_key: str,
    options: StorageOptions | None = None,
    master: str = "local[2]",
) -> dict[str, str]:
    """Return the environment of an Airflow process with connections to the lake.

    Args:
        home: folder of the Airflow home.
        endpoint: URL of the lakeFS server.
        access_key_id: lakeFS key.
        secret_access_key: lakeFS secret.
        options: access to the object store, for its connection; None for local folders.
        master: Spark master of the `spark_default` connection.
    """
    bin_folder = str(Path(sys.executable).parent)
    connections: dict[str, dict[str, Any]] = {
        "LAKEFS_DEFAULT": {
            "conn_type": "lakefs",
            "host": endpoint,
            "login": access_key_id,
            "password": secret_access_key,
        },
        "SPARK_DEFAULT": {"conn_type": "spark", "host": master},
    }
    if options is not None:
        connections |= store_connections(options)
    return os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **_endpoint(options),
        **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
    }


def store_connections(options: StorageOptions) -> dict[str, dict[str, Any]]:
    """Return the connections of a store by id in upper case."""
    found: dict[str, dict[str, Any]] = {}
    if options.access_key_id:
        extra = {"endpoint_url": options.endpoint_url, "region_name": options.region or "us-east-1"}
        found["AWS_DEFAULT"] = {
            "conn_type": "aws",
            "login": options.access_key_id,
            "password": options.secret_access_key,
            "extra": extra,
        }
    if options.azure.key:
        found["WASB_DEFAULT"] = {
            "conn_type": "wasb",
            "host": options.azure.endpoint_url,
            "login": options.azure.account,
            "password": options.azure.key,
        }
    if options.gcs.credentials_json:
        found["GOOGLE_CLOUD_DEFAULT"] = {
            "conn_type": "google_cloud_platform",
            "extra": {"keyfile_dict": json.loads(options.gcs.credentials_json)},
        }
    return found


def _endpoint(options: StorageOptions | None) -> dict[str, str]:
    """Return the environment variable for Google's endpoint, which its connections have no field for."""
    url = None if options is None else options.gcs.endpoint_url
    return {} if url is None else {"STORAGE_EMULATOR_HOST": url}


def migrate(env: dict[str, str]) -> None:
    """Create or upgrade the metadata database."""
    done = subprocess.run(["airflow", "db", "migrate"], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def run_dag(env: dict[str, str], dag_id: str, conf: dict[str, Any], log: Path) -> bool:
    """Run a DAG once in the foreground, with its log in a file.

    Args:
        env: from `environment`.
        dag_id: name of the DAG.
        conf: values of its Params.
        log: file for all output of Airflow and Spark.

    Returns:
        Whether every task succeeded.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as sink:
        command = ["airflow", "dags", "test", dag_id, "-c", json.dumps(conf)]
        done = subprocess.run(command, env=env, stdout=sink, stderr=subprocess.STDOUT, check=False)
    said = log.read_text(encoding="utf-8", errors="replace")
    return done.returncode == 0 and "state=failed" not in said.lower()
