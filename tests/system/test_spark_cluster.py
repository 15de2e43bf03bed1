"""A standalone cluster of two workers, whose machines have neither Python nor Dredge of ours."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dredge.operators.lakefs.run import LakeFSCheckOperator
from airflow_dredge.operators.spark import check_spark
from dredge.commands.spark_env import pack
from dredge.runs.preflight import Line
from tests.support.airflow import FILTERS, Airflow, connections
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.planted import PlantedLake
from tests.support.spark import SparkCluster

pytestmark = [pytest.mark.system, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

CONF = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "keep_unnamed_days": 0,
    "spark_rows_min": 0,
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("packed") / "dredge.tar.gz"
    assert pack(made) > 1000
    return made


@pytest.fixture(scope="module", autouse=True)
def of_the_driver() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="module")
def cluster(of_the_driver: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def checked(spark: dict[str, object], python: str, seconds_max: float = 300.0) -> Line:
    operator = LakeFSCheckOperator(task_id="check", config={}, spark_python=python)
    operator.run_uri = "check://test"
    with connections(spark_default=spark):
        return check_spark(operator, seconds_max)


def test_executors_take_their_python_from_a_packed_environment(
    airflow: Airflow, cluster: SparkCluster, packed: Path, tmp_path: Path
) -> None:
    with lakefs_server(tmp_path) as server:
        lakefs = {
            "conn_type": "lakefs",
            "host": server.server.endpoint.removesuffix("/api/v1"),
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        planted = PlantedLake.plant(server.client, server.namespace("lake"))
        planted.age(2)
        with connections(lakefs_default=lakefs, aws_default=None, spark_default=cluster.connection):
            run = airflow.run("lakefs_gc", CONF | {"spark_python": str(packed)})
        assert run.tasks == dict.fromkeys(run.tasks, "success")
        planted.assert_swept()
    assert all(cluster.pythons()), "tasks ran on both workers"


def test_the_preflight_says_what_executors_lack(cluster: SparkCluster) -> None:
    absent = checked(cluster.connection, "/nowhere/python")
    assert (absent.level, absent.kind) == ("error", "config")
    assert "/nowhere/python" in absent.text


@pytest.mark.long
def test_the_preflight_says_that_a_python_lacks_dredge(cluster: SparkCluster) -> None:
    bare = checked(cluster.connection, "/usr/bin/python3")  # or is of another version
    assert (bare.level, bare.kind) == ("error", "config")


@pytest.mark.long
def test_a_cluster_without_workers_does_not_keep_the_preflight(tmp_path: Path) -> None:
    with SparkCluster(tmp_path, workers=0) as empty:
        found = checked(empty.connection, "/usr/bin/python3", seconds_max=12)
    assert (found.level, found.kind) == ("error", "unavailable")
    assert found.todo


@pytest.mark.long
def test_something_that_listens_and_is_no_master_ends_the_step(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        spark = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": mute.getsockname()[1]}
        found = checked(spark, "/usr/bin/python3")
    assert (found.level, found.kind) == ("error", "unavailable")
