"""The DAG with real Spark jobs, on S3, by spark-submit and over Spark Connect."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow import FILTERS, Airflow, connections
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.objectstore import make_bucket, moto_server
from tests.support.planted import PlantedLake
from tests.support.spark import ConnectServer

pytestmark = [pytest.mark.system, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

CONF: dict[str, Any] = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "keep_unnamed_days": 0,  # the files of expired commits are just written
    "spark_rows_min": 0,
}


@pytest.fixture(autouse=True)
def no_credentials_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "LAKECTL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[PlantedLake]:
    """A lake in a bucket, known to Airflow by its connections only: its secrets have to find their way, too."""
    with ExitStack() as stack:
        options = stack.enter_context(moto_server())
        bucket = make_bucket(options)
        aws = {
            "conn_type": "aws",
            "login": options.access_key_id,
            "password": options.secret_access_key,
            "extra": {"endpoint_url": options.endpoint_url, "region_name": options.region},
        }
        server = stack.enter_context(lakefs_server(tmp_path, bucket=bucket))
        lakefs = {
            "conn_type": "lakefs",
            "host": server.server.endpoint.removesuffix("/api/v1"),
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        master = {"conn_type": "spark", "host": "local[2]"}
        stack.enter_context(connections(lakefs_default=lakefs, aws_default=aws, spark_default=master))
        yield PlantedLake.plant(server.client, server.namespace("lake"), options=bucket.options)


def test_spark_submit_deletes_the_garbage_and_every_live_object_reads_back(
    airflow: Airflow, planted: PlantedLake
) -> None:
    planted.age(2)
    run = airflow.run("lakefs_gc", CONF)
    assert run.tasks == dict.fromkeys(run.tasks, "success")
    assert run.state == "success"
    planted.assert_swept()


def test_spark_connect_deletes_the_garbage_and_every_live_object_reads_back(
    airflow: Airflow, planted: PlantedLake, spark_connect: ConnectServer
) -> None:
    planted.age(2)
    connect = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": spark_connect.port}
    with connections(spark_connect_default=connect, spark_default=None):
        run = airflow.run("lakefs_gc", CONF | {"spark_engine": "connect"})
    assert run.tasks == dict.fromkeys(run.tasks, "success")
    assert run.state == "success"
    planted.assert_swept()
