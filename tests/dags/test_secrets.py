"""Secrets of connections in whole DAG runs: in no XCom value, rendered field, log, plan, report or ledger, whether the
run succeeds or fails. What a single hook tells of each field is in tests/unit/operators/hooks/test_secrets.py."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lakefs_embedded.kv import open_store
from tests.support.airflow import FILTERS, Airflow, DagRun, StepsHere, no_retries
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.secrets import SECRET, files_with_secret

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]

CONF: dict[str, Any] = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 0,
    "spark_rows_min": 0,
    "kv_conn_id": "planted_kv",
}
_NAMES = {
    "lakefs": "lakefs_default",
    "aws": "aws_default",
    "spark": "spark_default",
    "sqlite": "planted_kv",
    "postgres": "planted_kv",
}
_EXTRA = dict.fromkeys(
    ("aws_session_token", "sas_token", "keyfile_dict", "sslpassword", "secret_key", "token"), SECRET
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    whole = {"login": SECRET, "password": SECRET, "extra": _EXTRA}
    key_pair = {"login": KEY_PAIR.access_key_id, "password": KEY_PAIR.secret_access_key}
    with open_store(f"sqlite://{tmp_path}/kv.db") as kv, lakefs_server(tmp_path / "lake", kv=kv) as found:
        main = found.repository().branch("main")
        main.object("a").upload(b"kept")
        main.commit("first")
        found.writer().put("data/orphan", b"orphan")
        values = {
            "lakefs": whole | key_pair | {"host": found.server.endpoint},
            "aws": whole,
            "spark": whole | {"host": "local[1]"},
            "sqlite": whole | {"host": f"{tmp_path}/kv.db"},
        }
        variables = {
            f"AIRFLOW_CONN_{_NAMES[kind].upper()}": json.dumps({"conn_type": kind, **value})
            for kind, value in values.items()
        }
        with mock.patch.dict(os.environ, variables):
            yield found


def assert_untold(
    airflow: Airflow, run: DagRun, lake: Lake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run.xcom
    assert SECRET not in json.dumps(run.xcom) + json.dumps(run.rendered)
    assert files_with_secret(airflow.home) == []
    assert files_with_secret(tmp_path / "lake") == []
    said = "".join(capfd.readouterr())
    assert [line for line in said.splitlines() if SECRET in line] == []


def test_a_run_that_succeeds_tells_no_secret(
    airflow: Airflow,
    lake: Lake,
    jobs: StepsHere,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = airflow.run("lakefs_gc", CONF)
    assert run.state == "success"
    folder = Path(run.returned["plan"]["run_uri"].partition("://")[2])
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"plan.json", "report.json", "report.html"} <= names
    assert any(folder.glob("bulk_delete/**/*.parquet"))
    assert_untold(airflow, run, lake, tmp_path, capfd)


def test_a_run_whose_step_fails_tells_no_secret(
    airflow: Airflow,
    lake: Lake,
    jobs: StepsHere,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(step: str, _secrets: object) -> None:
        if step == "subtract":
            raise OSError("the worker fell over")

    jobs.before = fail
    with no_retries():
        run = airflow.run("lakefs_gc", CONF)
    assert run.tasks["subtract"] == "failed"
    assert_untold(airflow, run, lake, tmp_path, capfd)


def _broken(kind: str) -> list[str]:
    whole = {"conn_type": kind, "login": SECRET, "password": SECRET, "schema": SECRET}
    return [
        json.dumps(whole | {"host": f"http://me:{SECRET}@127.0.0.1:1", "extra": _EXTRA}),
        json.dumps(whole | {"host": "127.0.0.1", "port": SECRET, "extra": f"{{broken {SECRET}"}),
        f"{kind}://me:{SECRET}@127.0.0.1:{SECRET}/db?a={SECRET}",
        f'{{"conn_type": "{kind}", "password": "{SECRET}',
    ]


@pytest.mark.parametrize(
    ("kind", "form"),
    [("lakefs", 1), ("aws", 2), ("spark", 3), ("postgres", 0)],
)
def test_a_run_with_a_wrong_connection_tells_no_secret(
    airflow: Airflow,
    lake: Lake,
    jobs: StepsHere,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    kind: str,
    form: int,
) -> None:
    """Where the store is a folder, what is wrong with the cloud's connection may not matter."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{_NAMES[kind].upper()}", _broken(kind)[form])
    with no_retries():
        run = airflow.run("lakefs_gc", CONF)
    assert run.state == "failed" or kind in ("aws", "spark")
    assert_untold(airflow, run, lake, tmp_path, capfd)
