"""What several kinds of tests share. Nothing here costs anything until a test asks for it."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dredge.process import NO_SYNC
from tests.support import memory_store  # noqa: F401 (memory:// is a store)
from tests.support.depth import IS_LONG, load_profile
from tests.support.stand_ins import standing_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.storage import StorageOptions
    from tests.support.airflow import Airflow
    from tests.support.postgres import PostgresServer
    from tests.support.spark import ConnectServer

ROOT = Path(__file__).resolve().parent.parent
# Folders of tests are thrown away; tests/unit/storage/local/test_durable.py is not.
os.environ.setdefault(NO_SYNC, "1")


def _airflow_environment() -> None:
    """Point Airflow at a folder of this test process. Airflow reads these when it is first imported."""
    home = Path(tempfile.gettempdir()) / f"dredge-test-airflow-{os.getpid()}"
    os.environ.update(
        {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # No test may reach for the credentials of the machine it runs on.
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    )
    atexit.register(shutil.rmtree, home, ignore_errors=True)


_airflow_environment()
load_profile()
gc.set_threshold(50_000)  # looks for garbage took a tenth of the time


def pytest_collection_finish() -> None:
    """Leave modules and tests out of each look for garbage."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `long` to `./run test long`."""
    if IS_LONG:
        return
    left = [item for item in items if item.get_closest_marker("long")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture
def stand_in() -> Iterator[Callable[[Callable[..., Any], Callable[..., Any]], None]]:
    """Puts a function in the place of a method of all stores in memory; see `tests.support.stand_ins`."""
    with ExitStack() as stack:
        yield lambda method, instead: stack.enter_context(standing_in(method, instead))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.fixture(scope="session")
def azure_options() -> Iterator[StorageOptions]:
    from tests.support.azure import azurite

    with azurite() as options:
        yield options


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one local Spark session of the test run, two cores."""
    from airflow_dredge.spark_jobs.session import open_session

    logging.getLogger("py4j").setLevel(logging.WARNING)  # it has a word to say at the very end
    session = open_session("dredge tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    from tests.support.spark import ConnectServer

    environ = {"PYTHONPATH": str(ROOT)}  # of its workers, for functions of tests
    with ConnectServer(tmp_path_factory.mktemp("spark-connect"), environ) as server:
        yield server


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    from airflow_dredge.spark_jobs.session import close_session, open_session, with_session_id

    if request.param == "classic":
        yield request.getfixturevalue("spark")
        return
    url = request.getfixturevalue("spark_connect").url
    opened = open_session("tests", with_session_id(url, str(uuid.uuid4())))
    yield opened
    close_session(opened)


@pytest.fixture(scope="session")
def airflow() -> Iterator[Airflow]:
    from tests.support.airflow import Airflow

    yield Airflow.prepare(Path(os.environ["AIRFLOW_HOME"]))
    gc.collect()  # what Airflow left open is told off here, where it is expected


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The one PostgreSQL server of the test process; each test makes a database of its own."""
    from tests.support.postgres import postgres_server

    with postgres_server(fsync=False) as running:
        yield running


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[str]:
    """The endpoint of the one DynamoDB of the test process; each test makes a table of its own."""
    from tests.support.dynamodb import dynamodb_server

    with dynamodb_server() as endpoint:
        yield endpoint
