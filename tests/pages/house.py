"""A whole Airflow with Dredge's pages, and something of each kind to collect: a lake, an Icechunk repository, a store.

python -m tests.pages.house          keeps it, for a look by hand; Ctrl-C ends it
"""

import json
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from demo.kinds import plant_all
from demo.lake import Lake as PlantedLake
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from lakefs_embedded.kv import open_store
from tests.support.icechunk import build, graph_of, local_storage, scenarios
from tests.support.kv_world import World
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.postgres import PostgresServer, postgres_server

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "<script>window.stolen = 1</script>"
HOSTILE = (
    f"data/hostile/{SCRIPT}",
    "data/hostile/\"double\" 'single' & %2e%2e?#",
    "data/hostile/emoji-😀-umlaut-ü",
    "data/hostile/" + "/".join(["long" * 25] * 9),
)
"""Addresses of garbage that nobody should be fooled by; the last one has 1,000 characters or so."""
SCALE = 0.05
BY_HAND = ("lakefs_gc", "lakefs_gc_restore", "icechunk_expiration", "kv_trash_cleaner")
SCHEDULED = "demo_daily"
"""Switched off at first: its first run would come in between."""
MIN_AGE_SECONDS = 2


@dataclass(frozen=True)
class House:
    """What runs; `expires` is a time in the middle of the Icechunk repository's history, in ISO 8601."""

    airflow: LiveAirflow
    lake: Lake
    planted: PlantedLake
    icechunk: Path
    expires: str
    trash: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.airflow.port}"


@contextmanager
def house(folder: Path, postgres: PostgresServer) -> Iterator[House]:
    """Run everything in an empty folder, until the end of the block."""
    with lakefs_server(folder / "lakefs") as lake:
        planted = PlantedLake.create(lake.client, "demo", f"local://{folder / 'lakefs' / 'objects' / 'demo'}")
        plant_all(planted, SCALE)
        for address in HOSTILE:
            planted.store.put(address, b"hostile")
        expires = _build_icechunk(folder / "icechunk")
        environ = _environ(lake, folder, _key_values(postgres))
        with live_airflow(folder / "airflow", postgres, environ, "triggerer") as airflow:
            for name in (*BY_HAND, SCHEDULED):
                airflow.wait(name, lambda name=name: _is_known(airflow, name), 120)  # type: ignore[misc]
            for name in BY_HAND:
                airflow.call("PATCH", f"/api/v2/dags/{name}", {"is_paused": False})
            yield House(airflow, lake, planted, folder / "icechunk", expires, folder / "trash")


def _build_icechunk(folder: Path) -> str:
    """Build the sample of the design, and give a time between two of its snapshots."""
    ids = build(local_storage(folder), graph_of(scenarios()[0]), 2)
    snapshots = read_history(open_reader(f"file://{folder}")).snapshots
    middle = (snapshots[ids["7"]].flushed_at + snapshots[ids["8"]].flushed_at) // 2
    return instant(middle).isoformat()


def _is_known(airflow: LiveAirflow, name: str) -> bool:
    return bool(airflow.rows("select 1 from serialized_dag where dag_id = %s", name))


def _environ(lake: Lake, folder: Path, kv: dict[str, Any]) -> dict[str, str]:
    server = {
        "conn_type": "lakefs",
        "host": lake.server.endpoint,
        "login": KEY_PAIR.access_key_id,
        "password": KEY_PAIR.secret_access_key,
    }
    schedules = {
        SCHEDULED: {
            "schedule": "@daily",
            "repository": "demo",
            "unsafe_min_age_seconds": MIN_AGE_SECONDS,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
        }
    }
    places = [{"uri": f"file://{folder / 'icechunk'}"}, {"uri": f"file://{folder / 'trash'}"}]
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(server),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_LAKEFS_KV_DEFAULT": json.dumps(kv),
        "AIRFLOW_VAR_DREDGE_GC_SCHEDULES": json.dumps(schedules),
        "AIRFLOW_VAR_DREDGE_PAGES": json.dumps(places),
    }


def _key_values(postgres: PostgresServer) -> dict[str, Any]:
    """A store with a live repository and an orphan, and the fields of the connection to it."""
    url = postgres.new_database()
    world = World(datetime.now(UTC) - timedelta(days=3))
    _, token = world.repository("lake")
    world.stage(token)
    world.stage(world.token("lake", "main"))
    open_store(url).close()
    with psycopg.connect(url) as connection:
        rows = [tuple(row) for row in world.store.all_rows()]
        connection.cursor().executemany("INSERT INTO kv VALUES (%s, %s, %s)", rows)
    database = url.partition("@/")[2].partition("?")[0]
    return {
        "conn_type": "postgres",
        "host": str(postgres.folder),
        "schema": database,
        "login": "postgres",
        "password": "any",
    }


def main() -> None:
    warnings.simplefilter("ignore")
    folder = ROOT / ".dredge" / "house"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with postgres_server(fsync=False) as postgres, house(folder, postgres) as found:
        print(found.url, flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
