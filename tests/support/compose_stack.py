"""The services of docker-compose.yaml, running without Docker.

PostgreSQL, an S3 server with signatures checked, the embedded lakeFS, a Spark master with its workers, and each
component of Airflow, all but the S3 server as separate processes. Airflow's, Spark's and lakeFS's commands and
settings are those of the file; every component has a separate home and working folder, like a container.
"""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyspark

from airflow_dredge.spark_jobs.archive import cache_dir
from dredge.storage import StorageOptions
from tests.support import installed
from tests.support.compose import Service, image_variables, read_services
from tests.support.objectstore import TestBucket, make_bucket, moto_server_for
from tests.support.postgres import PostgresServer
from tests.support.spark import free_port, listens

SPARK_HOME = Path(pyspark.__file__).parent
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
_SERVE = "from dredge.cli import main; main()"


@dataclass
class Stack:
    """A running stack; make it with `compose_stack`."""

    python: Path  # of the environment that has Dredge installed
    folder: Path  # homes, working folders and logs of all components
    services: dict[str, Service]  # as the file has them, at addresses of this machine
    bucket: TestBucket  # a bucket of the S3 server
    airflow_url: str  # of Airflow's API and pages
    lakefs_url: str  # of lakeFS
    master_url: str  # of the pages of Spark's master
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _token: str = ""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call Airflow's API as the user of the file; returns the JSON."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.airflow_url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from None

    def log_in(self) -> None:
        """Log in with the user's password from the api-server."""
        made = self.folder / "api-server" / "simple_auth_manager_passwords.json.generated"
        ((user, password),) = json.loads(made.read_text()).items()
        self._token = self.call("POST", "/auth/token", {"username": user, "password": password})[
            "access_token"
        ]

    def wait(self, what: str, done: Callable[[], Any], seconds: float) -> Any:
        """Wait until a condition is true; returns its value."""
        deadline = time.monotonic() + seconds
        while not (found := done()):
            late = time.monotonic() > deadline
            gone = [name for name, process in self._processes.items() if process.poll() is not None]
            if late or gone:
                ends = "\n".join(f"--- {name}\n{self.log(name)[-2500:]}" for name in gone or self._processes)
                raise AssertionError(f"no {what} after {seconds:.0f} s; ended: {gone}\n{ends}")
            time.sleep(0.5)
        return found

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start(self, name: str, service: str, **local: str) -> None:
        said = self.services[service]
        home = self.folder / name
        home.mkdir()
        self._spawn(name, self._command(said.command), variables(said, home, **local))

    def start_lakefs(self) -> None:
        """Start the embedded lakeFS with the settings of the real one in the file."""
        said = self.services["lakefs"].environment
        home = self.folder / "lakefs"
        home.mkdir()
        command = [
            str(self.python),
            "-c",
            _SERVE,
            "serve",
            "--listen",
            self.lakefs_url.removeprefix("http://"),
        ]
        command += ["--kv", said["LAKEFS_DATABASE_POSTGRES_CONNECTION_STRING"]]
        command += ["--blockstore", said["LAKEFS_BLOCKSTORE_TYPE"]]
        env = {
            "AWS_ACCESS_KEY_ID": said["LAKEFS_BLOCKSTORE_S3_CREDENTIALS_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": said["LAKEFS_BLOCKSTORE_S3_CREDENTIALS_SECRET_ACCESS_KEY"],
            "AWS_ENDPOINT_URL": said["LAKEFS_BLOCKSTORE_S3_ENDPOINT"],
            "AWS_REGION": "us-east-1",
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": said["LAKEFS_INSTALLATION_ACCESS_KEY_ID"],
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": said["LAKEFS_INSTALLATION_SECRET_ACCESS_KEY"],
            "DREDGE_SERVER_SIGNING_KEY": said["LAKEFS_BLOCKSTORE_SIGNING_SECRET_KEY"],
        }
        self._spawn("lakefs", command, installed.environment() | env)

    def migrate(self) -> None:
        """Run the commands of `airflow-init`."""
        self.start("airflow-init", "airflow-init")
        code = self._processes.pop("airflow-init").wait(timeout=300)
        assert code == 0, self.log("airflow-init")[-3000:]

    def stop(self) -> None:
        """End every component with its child processes."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes.values():
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + 8
            while time.monotonic() < deadline and any(p.poll() is None for p in self._processes.values()):
                time.sleep(0.1)

    def _command(self, words: list[str]) -> list[str]:
        programs = {
            "airflow": [str(self.python), "-m", "airflow"],
            "spark-class": [str(SPARK_HOME / "bin" / "spark-class")],
        }
        return [*programs[words[0]], *words[1:]]

    def _spawn(self, name: str, command: list[str], env: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as sink:
            self._processes[name] = subprocess.Popen(
                command,
                cwd=self.folder / name,
                env=dict(env),
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def variables(service: Service, home: Path, **local: str) -> dict[str, str]:
    """The variables of a component: from its image, from the file, and addresses on this machine."""
    here = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "HOME": str(home),
        "DREDGE_CACHE_DIR": str(cache_dir()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_WORKER_DIR": str(home / "work"),
        **local,
    }
    assert not here.keys() & service.environment.keys()
    return installed.environment() | image_variables() | service.environment | here


@contextmanager
def compose_stack(
    folder: Path, python: Path, postgres: PostgresServer, secrets: Mapping[str, str]
) -> Iterator[Stack]:
    """Run all services of the file until the end of the block."""
    api, lakefs, master, pages, logs = (free_port() for _ in range(5))
    with ExitStack() as held:
        options = StorageOptions(
            region="us-east-1",
            access_key_id=secrets["S3_ACCESS_KEY_ID"],
            secret_access_key=secrets["S3_SECRET_ACCESS_KEY"],
        )
        bucket = make_bucket(held.enter_context(moto_server_for(options)))
        places = {
            "airflow-db/airflow": _database(postgres, "airflow"),
            "lakefs-db/lakefs?sslmode=disable": _database(postgres, "lakefs"),
            "http://api-server:8080": f"http://127.0.0.1:{api}",
            "http://localhost:8080": f"http://127.0.0.1:{api}",
            "http://lakefs:8000": f"http://127.0.0.1:{lakefs}",
            "http://s3:9000": str(bucket.options.endpoint_url),
            "spark-master": "127.0.0.1",
            "7077": str(master),
        }
        services = read_services(secrets, places)
        for name in ("airflow-db", "lakefs-db"):
            _make_database(postgres, services[name].environment)
        urls = [f"http://127.0.0.1:{port}" for port in (api, lakefs, pages)]
        stack = Stack(python, folder, services, bucket, *urls)
        held.callback(stack.stop)
        stack.start("spark-master", "spark-master", SPARK_MASTER_WEBUI_PORT=str(pages))
        stack.start_lakefs()
        stack.migrate()
        stack.wait("lakeFS", lambda: listens(lakefs), 60)
        stack.wait("Spark master", lambda: listens(master), 60)
        for number in range(services["spark-worker"].replicas):
            stack.start(f"spark-worker-{number}", "spark-worker", SPARK_WORKER_WEBUI_PORT="0")
        airflow = {
            "AIRFLOW__API__PORT": str(api),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(logs),
            "PYSPARK_PYTHON": str(python),
        }
        for name in AIRFLOW:
            stack.start(name, name, **airflow)
        stack.wait("Airflow", lambda: _is_healthy(stack), 300)
        stack.log_in()
        yield stack


def _database(postgres: PostgresServer, name: str) -> str:
    return f"/{name}?host={quote(postgres.url().partition('host=')[2], safe='%')}"


def _make_database(postgres: PostgresServer, said: Mapping[str, str]) -> None:
    user, password, database = (said[f"POSTGRES_{name}"] for name in ("USER", "PASSWORD", "DB"))
    postgres.admin(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
    postgres.admin(f"CREATE DATABASE {database} OWNER {user}")


def _is_healthy(stack: Stack) -> bool:
    try:
        health = stack.call("GET", "/api/v2/monitor/health")
    except OSError:
        return False
    return all(health[name]["status"] == "healthy" for name in ("scheduler", "dag_processor", "triggerer"))
