"""A collection in Airflow: `airflow dags test lakefs_gc`, with times and requests of the steps.

Airflow's database has begin and end of each task. During the run, the store's counters are read a few times a
second, and each request counts for the task at the time of its answer; tasks run one after another.
"""

import json
import os
import re
import sqlite3
import subprocess
import threading
import time
from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from benchmarks.requests import open_requests
from benchmarks.s3_store import STATE, Requests
from demo.airflow import environment, migrate
from dredge.gc.mark_uncommitted.kv_store import URL as KV_URL
from dredge.storage import StorageOptions

HOME = STATE / "airflow"
DAG = "lakefs_gc"
_STARTED = re.compile(r"^(\S+Z) \[\w+ *\] Task started ", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """A task in Airflow's database: its name, begin and end, in Unix seconds."""

    name: str
    begun: float
    ended: float


class Watch:
    """Reads the counters of a store during a block.

    Args:
        requests: to the store; None for a folder.
    """

    def __init__(self, requests: Requests | None) -> None:
        self._requests = requests
        self._times: list[float] = []
        self._counts: list[Counter[str]] = []
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._note()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._note()

    def between(self, begun: float, ended: float) -> dict[str, int]:
        """Return requests by kind, answered between two times."""
        return dict(self._at(ended) - self._at(begun))

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self._note()

    def _note(self) -> None:
        if self._requests:
            self._counts.append(self._requests.counts())
        self._times.append(time.time())

    def _at(self, moment: float) -> Counter[str]:
        if not self._counts:
            return Counter()
        return self._counts[max(0, bisect_right(self._times, moment) - 1)]


def prepare(env: dict[str, str]) -> None:
    """Create Airflow's database once."""
    if not (HOME / "airflow.db").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        migrate(env)


def airflow_environment(env: dict[str, str], connect_url: str | None) -> dict[str, str]:
    """Return environment variables for an Airflow with a lake.

    Args:
        env: environment variables of the lake, as for a job.
        connect_url: of a Spark Connect server.
    """
    keys = [env[f"LAKECTL_{name}"] for name in ("CREDENTIALS_ACCESS_KEY_ID", "CREDENTIALS_SECRET_ACCESS_KEY")]
    endpoint = env["LAKECTL_SERVER_ENDPOINT_URL"].removesuffix("/api/v1")
    options = StorageOptions.from_env(env)
    made = environment(HOME, endpoint, keys[0], keys[1], options)
    if KV_URL in env:
        kv = {"conn_type": "sqlite", "host": env[KV_URL].removeprefix("sqlite://")}
        made["AIRFLOW_CONN_LAKEFS_KV"] = json.dumps(kv)
    if connect_url:
        host, _, port = connect_url.removeprefix("sc://").partition(":")
        connection = {"conn_type": "spark_connect", "host": f"sc://{host}", "port": int(port)}
        made["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"] = json.dumps(connection)
    return made


def command(settings: dict[str, Any]) -> list[str]:
    """Return the command of one run."""
    return ["airflow", "dags", "test", DAG, "-c", json.dumps(settings)]


def figures(watch: Watch, begun: float, ended: float) -> dict[str, Any]:
    """Return the figures of a run by step.

    Args:
        watch: of the run.
        begun: start of its process, in Unix seconds.
        ended: end of its process.

    Raises:
        SystemExit: a task failed.
    """
    tasks = sorted(_tasks(begun), key=lambda task: task.begun)
    tasks[0] = replace(tasks[0], begun=max(tasks[0].begun, first_start((HOME / "run.log").read_text())))
    return {
        "seconds": {task.name: round(task.ended - task.begun, 3) for task in tasks},
        "times": {task.name: (task.begun, task.ended) for task in tasks},
        "requests": {task.name: watch.between(task.begun, task.ended) for task in tasks},
        "all_requests": watch.between(begun, ended),
        "to_first_task": round(tasks[0].begun - begun, 2),
        "after_last_task": round(ended - max(task.ended for task in tasks), 2),
        "wall": round(ended - begun, 2),
    }


def first_start(log: str) -> float:
    """Return the time at which Airflow's API started the first task, in Unix seconds; 0 if unknown.

    `airflow dags test` loads its API server at the first task's report, seconds after the task's begin in the
    database. A running Airflow has loaded it.

    Args:
        log: output of the command.
    """
    found = _STARTED.search(log)
    return 0.0 if found is None else datetime.fromisoformat(found[1]).timestamp()


def _tasks(since: float) -> list[Task]:
    """Return the tasks of the newest run."""
    query = """SELECT task_id, start_date, end_date, state FROM task_instance WHERE start_date IS NOT NULL AND
        run_id = (SELECT run_id FROM dag_run WHERE dag_id = ? ORDER BY id DESC LIMIT 1)"""
    with closing(sqlite3.connect(HOME / "airflow.db")) as database:
        rows = database.execute(query, (DAG,)).fetchall()
    failed = [name for name, _, _, state in rows if state != "success"]
    tasks = [Task(name, _seconds(begun), _seconds(ended)) for name, begun, ended, _ in rows]
    if failed or not tasks or min(task.begun for task in tasks) < since:
        raise SystemExit(f"the DAG failed ({', '.join(failed)}): see {HOME / 'run.log'}")
    return tasks


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def start(env: dict[str, str], settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a run, with its output in a file beside Airflow's database."""
    with (HOME / "run.log").open("wb") as log:
        return subprocess.Popen(command(settings), env=env, stdout=log, stderr=log)


def open_watch(env: dict[str, str]) -> Watch:
    """Return a watch on the environment's store."""
    return Watch(open_requests(os.environ | env))
