"""A real Airflow: scheduler, DAG processor and API server as processes, on PostgreSQL."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from tests.support.postgres import PostgresServer
from tests.support.spark import free_port

FILES = Path(__file__).parent / "airflow_files"
COMPONENTS = ("api-server", "dag-processor", "scheduler")


@dataclass
class LiveAirflow:
    """A running Airflow; make it with `live_airflow`."""

    port: int  # of the API server
    database: str  # URL of its database
    logs: Path  # folder with a log of each component
    components: tuple[str, ...] = COMPONENTS  # names of what runs
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the public API; returns the JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None

    def log_in(self) -> None:
        self._token = self.call("GET", "/auth/token")["access_token"]

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(statement, values).fetchall()  # type: ignore[arg-type]

    def trigger(self, dag_id: str, logical_date: datetime | None, conf: Mapping[str, Any]) -> str:
        """Start a manual run; returns its id."""
        date = None if logical_date is None else logical_date.isoformat()
        body = {"logical_date": date, "conf": dict(conf)}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def wait(self, what: str, done: Callable[[], Any], seconds: float) -> Any:
        """Wait until a condition is true; returns its value."""
        deadline = time.monotonic() + seconds
        while not (found := done()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds:.0f} s for {what}:\n{self.story()}")
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise AssertionError(f"{name} ended:\n{self._tail(name)}")
            time.sleep(0.5)
        return found

    def story(self) -> str:
        """The outcome of each task, and the log's end and the stacks of those that have not ended, for messages."""
        rows = self.rows(
            "select dag_id, run_id, task_id, state, try_number, start_date, end_date from task_instance"
            " where start_date is not null or state is not null order by start_date"
        )
        logs = [
            f"{path}:\n{_tail(path)}"
            for _, run_id, task_id, *_, end in rows
            if end is None
            for path in sorted((self.logs / "logs").glob(f"dag_id=*/run_id={run_id}/task_id={task_id}/*.log"))
        ]
        outcomes = [" ".join(str(cell) for cell in row) for row in rows]
        return "\n".join([*outcomes, *logs, self._stacks(), self._tail("scheduler")])

    def _stacks(self) -> str:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_worker = (entry / "cmdline").read_bytes().startswith(b"airflow worker")
                if is_worker and os.fsencode(f"AIRFLOW_HOME={self.logs}") in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGUSR1)
        time.sleep(2)
        return (self.logs / "stacks.log").read_text(errors="replace")

    def _tail(self, name: str) -> str:
        return _tail(self.logs / f"{name}.log")

    def start(self, env: Mapping[str, str]) -> None:
        for name in self.components:
            with (self.logs / f"{name}.log").open("wb") as sink:
                command = [str(Path(sys.executable).with_name("airflow")), name]
                if name == "api-server":
                    command += ["--workers", "1"]
                self._processes[name] = subprocess.Popen(
                    command, env=dict(env), stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
                )

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes.values():
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and any(p.poll() is None for p in self._processes.values()):
                time.sleep(0.1)

    def answers(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}/api/v2/monitor/health"
            with urllib.request.urlopen(url, timeout=5) as answer:
                health = json.loads(answer.read())
        except OSError:
            return False
        return all(health[name]["status"] == "healthy" for name in ("scheduler", "dag_processor"))


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:]


@contextmanager
def live_airflow(
    home: Path, postgres: PostgresServer, environ: Mapping[str, str], *more_components: str
) -> Iterator[LiveAirflow]:
    """Run Airflow with the DAGs of `airflow_files`, until the end of the block."""
    home.mkdir()
    database = postgres.new_database()
    port = free_port()
    airflow = LiveAirflow(port, database, home, (*COMPONENTS, *more_components))
    base = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(FILES / "dags"),
        "AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(FILES / "plugins"),
        "AIRFLOW__CORE__LAZY_LOAD_PLUGINS": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace("postgresql://", "postgresql+psycopg2://", 1),
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__API_AUTH__JWT_SECRET": uuid.uuid4().hex + uuid.uuid4().hex,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        # Often enough not to be waited for, and seldom enough to leave the processor to the tasks.
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # they do not change meanwhile
        **environ,
    }
    command = [str(Path(sys.executable).with_name("airflow")), "db", "migrate"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    try:
        airflow.start(env)
        airflow.wait("Airflow", airflow.answers, 240)
        airflow.log_in()
        yield airflow
    finally:
        airflow.stop()
