"""Killing a Spark step: everything stops, nothing lives on, and the run can be resumed."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_dredge.operators.application import SparkApplication
from airflow_dredge.operators.lakefs.base import LakeFSSparkOperator
from airflow_dredge.operators.lakefs.mark_sweep import LakeFSSliceListingOperator
from airflow_dredge.operators.spark import job_file, submit_conf
from airflow_dredge.spark_jobs.archive import spark_home
from airflow_dredge.spark_jobs.session import close_session, open_session, with_session_id
from dredge.errors import OvertakenError
from dredge.gc import steps
from dredge.gc.config import GCConfig, Tuning
from dredge.lakefs import LakeFSClient
from dredge.process import environment
from dredge.runs.tasks import LocalRunner
from tests.support.airflow import FILTERS, connections
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.planted import PlantedLake
from tests.support.spark import ConnectServer

pytestmark = [
    pytest.mark.system,
    *(pytest.mark.filterwarnings(line) for line in FILTERS),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
BEATING_JOB = """
import os
from airflow_dredge.spark_jobs.application import serve
from airflow_dredge.spark_jobs.job import Job, job_main
from tests.support.spark import sleep_and_mark

def run(run_uri, options, runner):
    tasks = [{"value": 0}, {"value": 1}]
    runner.run("beat", sleep_and_mark, {"folder": os.environ["BEATS"]}, tasks)

job_main({"slice_listing": Job(run)}, serve=serve)
"""
FROZEN_SWEEP = """
import itertools, time
from concurrent.futures import Future
from multiprocessing.connection import Listener
from pathlib import Path

from dredge.gc import steps
from dredge.runs.gate import Gate
from dredge.runs.tasks import LocalRunner
from airflow_dredge.spark_jobs.application import Application
from airflow_dredge.spark_jobs.job import Job, job_main

here = Path(__file__).parent
asked, is_open = itertools.count(), Gate.is_open

def frozen(gate):
    if next(asked) == 20:
        (here / "frozen").touch()
        while not (here / "go").exists():
            time.sleep(0.05)
        gate._looked = None  # it was away for longer than any look is trusted
    return is_open(gate)

def sweep(run_uri, options, runner):
    Gate.is_open = frozen
    steps.bulk_delete(steps.Run.open(run_uri, options), LocalRunner())

def serve(jobs, address, remote):
    with Listener(address, "AF_UNIX", backlog=8) as listener:
        Application(jobs, Future()).serve(listener)

job_main({"bulk_delete": Job(sweep)}, serve=serve)
"""


class Beats:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "beats"
        self.folder.mkdir()
        self.script = folder / "beat.py"
        self.script.write_text(BEATING_JOB)

    def operator(self) -> LakeFSSparkOperator:
        return LakeFSSliceListingOperator(
            task_id="beat",
            run_uri="file:///nowhere/run",
            application=str(self.script),
            env_vars={"BEATS": str(self.folder), "PYTHONPATH": str(ROOT)},
        )

    def count(self) -> int:
        return len(list(self.folder.iterdir()))

    def wait_for_both(self) -> None:
        wait_until(lambda: {path.name[:6] for path in self.folder.iterdir()} == {"beat-0", "beat-1"}, 120)

    def assert_silent(self, within_seconds: float) -> None:
        deadline = time.monotonic() + within_seconds
        while True:
            before = self.count()
            time.sleep(1)
            if self.count() == before:
                return
            assert time.monotonic() < deadline, "the tasks go on"


def wait_until(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, waiting = set(), [pid]
    while waiting:
        parent = waiting.pop()
        children = {child for child, above in parents.items() if above == parent}
        found |= children
        waiting += children
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def _own_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # while temporary files are where they always are
    with tempfile.TemporaryDirectory(prefix="dredge-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield
        monkeypatch.undo()


@pytest.fixture
def beats(tmp_path: Path) -> Beats:
    return Beats(tmp_path)


def in_background(call: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, errors


def test_killed_task_leaves_no_process_behind(beats: Beats) -> None:
    operator = beats.operator()
    with connections(spark_default={"conn_type": "spark", "host": "local[2]"}):
        thread, errors = in_background(lambda: operator.submit({}))
        beats.wait_for_both()
        application = operator._application_of_run
        assert application is not None
        assert application._process is not None
        submitted = application._process.pid
        processes = descendants(submitted) | {submitted}
        assert len(processes) >= 4  # JVM, driver, daemon, workers
        operator.on_kill()
        thread.join(30)
    assert not thread.is_alive()
    assert errors
    beats.assert_silent(10)
    wait_until(lambda: not any(alive(pid) for pid in processes), 20)


def test_killed_connect_task_takes_its_tasks_on_the_server_along(
    beats: Beats, spark_connect: ConnectServer
) -> None:
    connection = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": spark_connect.port}
    operator = beats.operator()
    with connections(spark_connect_default=connection):
        thread, errors = in_background(lambda: operator.connect({}))
        beats.wait_for_both()
        operator.on_kill()
        thread.join(30)
    assert not thread.is_alive()
    assert errors
    beats.assert_silent(15)
    assert spark_connect.process.poll() is None  # the server serves others


def test_next_try_stops_what_a_lost_client_left_running(beats: Beats, spark_connect: ConnectServer) -> None:
    url = with_session_id(spark_connect.url, str(uuid.uuid4()))
    job = ("--step", "slice_listing", "--run", "file:///nowhere/run")
    client = subprocess.Popen(
        [sys.executable, str(beats.script), *job, "--remote", url],
        env={**os.environ, "BEATS": str(beats.folder), "PYTHONPATH": str(ROOT)},
    )
    beats.wait_for_both()
    client.kill()
    client.wait()
    spark = open_session("next try", url)
    beats.assert_silent(15)
    close_session(spark)


def test_session_that_the_server_has_closed_is_opened_anew(spark_connect: ConnectServer) -> None:
    url = with_session_id(spark_connect.url, str(uuid.uuid4()))
    close_session(open_session("first", url), last=True)
    spark = open_session("second", url)
    assert spark.range(3).count() == 3
    close_session(spark)


@pytest.fixture
def waiting_run(tmp_path: Path) -> Iterator[tuple[PlantedLake, str, dict[str, str]]]:
    with lakefs_server(tmp_path) as server:
        planted = PlantedLake.plant(server.client, server.namespace("lake"))
        orphans = [f"data/{index:020d}/{index:020d}" for index in range(400)]
        for key in orphans:
            planted.lake.store.put(key, b"nobody's")
        planted.lake.plant(orphans, "orphan", False, "nobody has it")
        time.sleep(2)
        client = LakeFSClient(server.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
        config = GCConfig(
            repository="lake",
            dry_run=False,
            unsafe_min_age_seconds=1,
            unsafe_grace_seconds=0,
            max_delete_percent=None,
            keep_unnamed_days=0,
            tuning=Tuning(delete_keys=1),
        )
        plan = steps.plan_run(config, None, client)
        context = steps.Run.open(plan.run_uri, None, client)
        runner = LocalRunner()
        steps.slice_listing(context, runner)
        steps.mark_uncommitted(context)
        steps.list_committed(context, runner)
        steps.subtract(context, runner)
        steps.check_limits(context)
        yield planted, plan.run_uri, client.to_env()


def test_a_try_that_was_given_up_deletes_no_more_though_its_application_lives(
    waiting_run: tuple[PlantedLake, str, dict[str, str]], tmp_path: Path
) -> None:
    """Its task may hang without hanging up: then only the gate stands between it and what came to life again."""
    planted, run_uri, env = waiting_run
    script = tmp_path / "sweep.py"
    script.write_text(FROZEN_SWEEP)
    given_up = SparkApplication(run_uri, [sys.executable, str(script)], {"PYTHONPATH": str(ROOT)})
    answers: list[tuple[int | None, str]] = []
    thread = threading.Thread(target=lambda: answers.append(given_up.do("bulk_delete", env)))
    thread.start()
    wait_until((tmp_path / "frozen").exists, 60)
    with environment(env):
        steps.bulk_delete(steps.Run.open(run_uri), LocalRunner())
    planted.assert_swept()
    again = sorted(planted.garbage)
    for key in again:
        planted.lake.store.put(key, b"somebody has it again")
    (tmp_path / "go").touch()
    thread.join(60)
    ((code, said),) = answers
    assert code == OvertakenError.exit_code
    assert "overtaken" in said
    assert set(again) <= planted.present()
    assert planted.live <= planted.present()


def start_bulk_delete(run_uri: str, env: dict[str, str]) -> subprocess.Popen[str]:
    home = spark_home()
    assert home is not None
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in submit_conf().items():
        command += ["--conf", f"{key}={value}"]
    return subprocess.Popen(
        [*command, str(job_file()), "--step", "bulk_delete", "--run", run_uri],
        env={**os.environ, **env, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_job_killed_in_the_middle_of_deleting_goes_on_from_its_ledger(
    waiting_run: tuple[PlantedLake, str, dict[str, str]],
) -> None:
    planted, run_uri, env = waiting_run
    all_garbage = planted.garbage
    job = start_bulk_delete(run_uri, env)
    wait_until(
        lambda: len(planted.present() & all_garbage) < len(all_garbage) - 20 or job.poll() is not None, 120
    )
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    left = planted.present() & all_garbage
    assert left, "the job was done before it could be killed"
    assert planted.live <= planted.present()

    again = start_bulk_delete(run_uri, env)
    said, _ = again.communicate(timeout=180)
    assert again.returncode == 0, said
    planted.assert_swept()
    summary = steps.Run.open(run_uri).folder.read_summary("bulk_delete")
    assert summary is not None
    assert summary.counts["failed_objects"] == 0
    assert summary.counts["deleted_objects"] + summary.counts["missing_objects"] >= len(all_garbage)
