"""The DAG with a connection of lakeFS's key-value store: where the connection goes, and where not."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dredge.gc.mark_uncommitted.kv_store import URL
from lakefs_embedded.kv import open_store
from tests.support.airflow import Airflow, StepsHere, connections
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

CONF: dict[str, Any] = {
    "repository": "lake",
    "dry_run": False,
    "unsafe_min_age_seconds": 0,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "spark_rows_min": 0,
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    # The folder's name stands for a secret in the URL: it may be seen by the store's door alone.
    (tmp_path / "hunter2").mkdir()
    url = f"sqlite://{tmp_path}/hunter2/kv.db"
    with open_store(url) as kv, lakefs_server(tmp_path / "lake", kv=kv) as found:
        lakefs = {
            "conn_type": "lakefs",
            "host": found.server.endpoint,
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        store = {"conn_type": "sqlite", "host": f"{tmp_path}/hunter2/kv.db"}
        with connections(
            lakefs_default=lakefs, aws_default=None, spark_default=None, lakefs_kv_default=store
        ):
            yield found


def test_trap_06_records_keep_an_identical_upload_and_the_store_goes_where_it_is_needed_only(
    airflow: Airflow, lake: Lake, jobs: StepsHere
) -> None:
    seen: dict[str, bool] = {}
    jobs.before = lambda step, secrets: seen.update({step: URL in secrets})
    main = lake.repository().branch("main")
    main.object("a").upload(b"same")
    main.commit("first")
    twin = main.object("a").upload(b"same").stat().physical_address.partition("/data/")[2]
    lake.writer().put("data/orphan", b"same")
    run = airflow.run("lakefs_gc", {**CONF, "kv_conn_id": "lakefs_kv_default"})
    assert run.state == "success"
    present = {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}
    assert f"data/{twin}" in present
    assert "data/orphan" not in present
    assert main.object("a").reader(mode="rb").read() == b"same"
    counts = run.returned["mark_uncommitted"]["counts"]
    assert (counts["kv_unseen_addresses"], counts["scans"]) == (1, 0)
    assert seen == {"slice_listing": False, "list_committed": True, "subtract": False, "bulk_delete": True}
    assert URL not in os.environ
    assert "hunter2" not in json.dumps(run.rendered)
    assert "hunter2" not in json.dumps(run.returned)
    folder = Path(run.returned["plan"]["run_uri"].partition("://")[2])
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["config"]["read_kv"] is True
    assert "hunter2" not in json.dumps(plan)


def test_a_wrong_store_fails_the_run_with_nothing_deleted(
    airflow: Airflow, lake: Lake, jobs: StepsHere, tmp_path: Path
) -> None:
    lake.repository()
    lake.writer().put("data/orphan", b"orphan")
    with open_store(f"sqlite://{tmp_path}/empty.db"):
        pass
    store = {"conn_type": "sqlite", "host": f"{tmp_path}/empty.db"}
    with connections(lakefs_kv_default=store):
        run = airflow.run("lakefs_gc", {**CONF, "kv_conn_id": "lakefs_kv_default"})
    assert run.state == "failed"
    assert lake.writer().get("data/orphan") == b"orphan"
