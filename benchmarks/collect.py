"""Whole runs on generated repositories, by engine, compared with the bare client."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import psutil

from airflow_dredge.operators.spark_master import SMALL_MALLOC
from airflow_dredge.spark_jobs.session import LOCAL_DEFAULTS
from benchmarks.cloud_store import CLOUDS, CloudLake, CloudStore, cloud_store
from benchmarks.driver import RUN, SETTINGS
from benchmarks.lakes import STATE, Lake, LocalLake, S3Lake
from benchmarks.latency import behind, free_port
from benchmarks.measure import DAEMON, Meter
from benchmarks.s3_store import S3Store, s3_store
from benchmarks.shapes import SHAPES
from dredge.gc.mark_uncommitted.kv_store import URL as KV_URL
from dredge.lakefs import LakeFSClient

ENGINES = ("bare", "floor", "local", "worker", "submit", "connect")
IN_AIRFLOW = ("worker", "submit", "connect")
BRANCH_MS = "11"
"""Milliseconds a real server takes for each branch to prepare uncommitted addresses."""
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def check(lake: Lake) -> dict[str, int]:
    """Compare the store with the expected result after a run."""
    present, truth = lake.present(), lake.truth
    return {
        "deleted": sum(address not in present for address, live in truth.items() if not live),
        "missed": sum(address in present for address, live in truth.items() if not live),
        "lost": sum(address not in present for address, live in truth.items() if live),
    }


@contextmanager
def lakefs_server(lake: Lake) -> Iterator[tuple[dict[str, str], int]]:
    """Serve a lake from a separate process; yields environment variables for it, and its process id."""
    with lakefs_process(["--prepare-branch-ms", BRANCH_MS, *lake.serve], lake.server_environ) as (env, pid):
        _warm(env, lake.shape.name)
        yield {**env, **lake.environ}, pid


def _warm(env: Mapping[str, str], repository: str) -> None:
    """Make a server read the metadata of all branches once, as a server in use has done."""
    client, token = LakeFSClient.from_env(env), None
    while True:
        page = client.prepare_uncommitted(repository, token)
        if (token := page.token) is None:
            return


@contextmanager
def lakefs_process(
    words: Sequence[str], environ: Mapping[str, str], program: Sequence[str] = ("dredge",)
) -> Iterator[tuple[dict[str, str], int]]:
    """Run the embedded lakeFS; yields environment variables for it, and its process id.

    Args:
        words: arguments of `dredge serve`.
        environ: further environment variables.
        program: the command `dredge`, or one that behaves like it.
    """
    keys = {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIABENCHMARK",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "benchmark-secret",
    }
    command = [*program, "serve", "--listen", f"127.0.0.1:{free_port('lakefs')}", "--json", *words]
    env = {**os.environ, **keys, **environ}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield {"LAKECTL_SERVER_ENDPOINT_URL": ready["endpoint"], **keys}, process.pid
        finally:
            process.terminate()


@contextmanager
def connect_server() -> Iterator[tuple[str, int]]:
    """Start a Spark Connect server; yields its URL and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    conf = json.loads(
        subprocess.run(
            [sys.executable, "-m", "airflow_dredge.spark_jobs.session"], capture_output=True, check=True
        ).stdout
    )
    conf |= {"spark.connect.grpc.binding.port": str(port), **LOCAL_DEFAULTS}
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", "local[2]", *settings, "--class", SERVER, "spark-internal"]
    env = SMALL_MALLOC | os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = (STATE / "connect.log").open("ab")
    with subprocess.Popen(command, env=env, stdout=log, stderr=log) as process:
        try:
            for _ in range(240):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.25)
            yield f"sc://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()


def end_daemons(server: int) -> None:
    """End the Python daemons of a Connect server, with their workers: those of an earlier run stay for 80 seconds."""
    for child in psutil.Process(server).children():
        with suppress(psutil.NoSuchProcess):
            if DAEMON.search(" ".join(child.cmdline())):
                child.terminate()
                child.wait(10)


@dataclass(frozen=True)
class Surroundings:
    """Processes beside every engine.

    Attributes:
        store: server of the store; None for a folder.
        connect: a Connect server's URL and process id, for that engine.
    """

    store: S3Store | CloudStore | None
    connect: tuple[str, int] | None

    def trees(self, engine: str) -> dict[str, int]:
        """Process trees to measure, by name."""
        found = {"store": self.store.pid} if self.store else {}
        return found | ({"spark": self.connect[1]} if self.connect and engine == "connect" else {})


def measure(
    lake: Lake, engine: str, beside: Surroundings, *, warm: bool, with_kv: bool, in_airflow: bool
) -> dict[str, Any]:
    """Run one engine once on a prepared lake and check the result.

    Args:
        lake: to collect.
        engine: one of ENGINES.
        beside: other processes.
        warm: keep the committed index of earlier runs.
        with_kv: read the staging records. Without them all garbage of these lakes is held, because of their
            many branches and few object sizes.
        in_airflow: run engines of IN_AIRFLOW through the DAG.
    """
    lake.prepare()
    if not warm:
        lake.forget_index()
    row = {"shape": lake.shape.name, "index": "warm" if warm else "cold", "kv": with_kv}
    return {**row, **measure_run(lake, engine, beside, with_kv, in_airflow), **check(lake)}


def measure_run(
    lake: Lake, engine: str, beside: Surroundings, with_kv: bool = True, in_airflow: bool = True
) -> dict[str, Any]:
    """Run one engine once on a lake in its current state.

    Args:
        lake: to collect.
        engine: one of ENGINES.
        beside: other processes.
        with_kv: read the staging records from the server's key-value store.
        in_airflow: run engines of IN_AIRFLOW through the DAG.

    Returns:
        The run's own figures, CPU seconds, peak memory and bytes read.
    """
    in_airflow = engine == "worker" or (in_airflow and engine in IN_AIRFLOW)
    run = _through_airflow if in_airflow else _in_driver
    if beside.connect:
        end_daemons(beside.connect[1])
    with lakefs_server(lake) as (direct, server), behind(direct) as (env, spans):
        env |= _kv(lake, with_kv)

        def metered(pid: int) -> Meter:
            return Meter({"dredge": pid, "lakefs": server, **beside.trees(engine)})

        figures = run(lake, engine, beside, env, metered)
        meter: Meter = figures.pop("meter")
        figures |= spans(figures.get("times", {}))
    return {
        "engine": engine,
        "airflow": in_airflow,
        **figures,
        "cpu_seconds": {name: round(used, 1) for name, used in meter.cpu_seconds.items()},
        "peak_mib": {name: round(size) for name, size in meter.peak_mib.items()},
        "peak_of_all_mib": round(meter.peak_of_all_mib),
        "processes_mib": {name: round(size) for name, size in meter.processes_mib.items()},
        "processes_cpu": {name: round(used, 1) for name, used in meter.processes_cpu.most_common()},
        "read_mib": round(meter.read_mib["dredge"], 1),
    }


type _Metered = Callable[[int], Meter]


def _in_driver(
    lake: Lake, engine: str, beside: Surroundings, env: dict[str, str], metered: _Metered
) -> dict[str, Any]:
    """Run an engine in the benchmark's driver, or the bare client."""
    words = [lake.namespace, lake.shape.name] if engine == "bare" else [engine, lake.shape.name]
    words += [beside.connect[0]] if beside.connect and engine == "connect" else []
    command = [sys.executable, "-m", "benchmarks.bare" if engine == "bare" else "benchmarks.driver", *words]
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | env, stdout=subprocess.PIPE, text=True)
    with process, metered(process.pid) as meter:
        said, _ = process.communicate()
        wall = round(time.perf_counter() - begun, 2)
    if process.returncode:
        raise SystemExit(f"{lake.shape.name} on {engine} failed")
    figures: dict[str, Any] = json.loads(said.splitlines()[-1])
    return figures | {"wall": wall, "meter": meter}


def _through_airflow(
    lake: Lake, engine: str, beside: Surroundings, env: dict[str, str], metered: _Metered
) -> dict[str, Any]:
    """Run the DAG."""
    from benchmarks import through_airflow

    made = through_airflow.airflow_environment(env, beside.connect[0] if beside.connect else None)
    through_airflow.prepare(made)
    settings = RUN | json.loads((os.environ | env).get(SETTINGS, "{}"))
    settings |= {"repository": lake.shape.name}
    if engine != "worker":
        settings |= {"spark_engine": engine, "spark_rows_min": 0}
    if settings.pop("read_kv", False):
        settings["kv_conn_id"] = "lakefs_kv"
    with through_airflow.open_watch(env) as watch:
        begun = time.time()
        process = through_airflow.start(made, settings)
        with metered(process.pid) as meter:
            process.wait()
            ended = time.time()
    return through_airflow.figures(watch, begun, ended) | {"meter": meter}


def _kv(lake: Lake, wanted: bool) -> dict[str, str]:
    """Return environment variables of the server's key-value store."""
    if not wanted:
        return {}
    settings = json.loads(os.environ.get(SETTINGS, "{}")) | {"read_kv": True}
    return {SETTINGS: json.dumps(settings), KV_URL: lake.serve[lake.serve.index("--kv") + 1]}


@contextmanager
def surroundings(store: str, engines: Iterable[str]) -> Iterator[Surroundings]:
    """Start the processes beside engines."""
    STATE.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server: S3Store | CloudStore | None = None
        if store != "local":
            server = stack.enter_context(cloud_store(store) if store in CLOUDS else s3_store())
        connect = stack.enter_context(connect_server()) if "connect" in engines else None
        found = Surroundings(server, connect)
        if connect:
            # Discard the first run, on a fresh server; measure a server in use.
            lake = open_lake("b10k", server)
            measure(lake, "connect", found, warm=False, with_kv=True, in_airflow=False)
        yield found


def open_lake(name: str, store: S3Store | CloudStore | None) -> Lake:
    """Return a lake of a shape, in a store or in the local folder."""
    if isinstance(store, CloudStore):
        return CloudLake(SHAPES[name], store)
    return LocalLake(SHAPES[name]) if store is None else S3Lake(SHAPES[name], store)


def run(
    store: str,
    shapes: Sequence[str],
    engines: Sequence[str],
    rounds: Sequence[bool],
    kvs: Sequence[bool] = (True,),
    in_airflow: bool = True,
    times: int = 1,
) -> Iterator[dict[str, Any]]:
    """Measure every engine on every shape, cold and warm, and yield a row each; the bare client is first.

    Args:
        store: one of STORES.
        shapes: names of SHAPES.
        engines: of ENGINES.
        rounds: False is a cold run, True a warm one.
        kvs: whether to read the staging records.
        in_airflow: run engines of IN_AIRFLOW through the DAG.
        times: measure each engine so many times, in turns with the bare client, and take the run with the middle ratio:
            from one second to the next, the speed of a machine changes by a tenth.
    """
    with surroundings(store, engines) as beside:
        for name in shapes:
            lake = open_lake(name, beside.store)
            bare_of = partial(measure, lake, "bare", beside, warm=False, in_airflow=False)
            bare = {}
            for with_kv in kvs:
                bare[with_kv] = bare_of(with_kv=with_kv)
                yield {"store": store, **bare[with_kv], "index": ""}
            if not set(rounds) - {True}:  # fill the index first
                measure(lake, "floor", beside, warm=True, with_kv=True, in_airflow=False)
            for engine, with_kv, warm in product(engines, kvs, rounds):
                if engine == "bare":
                    continue
                rows = []
                for turn in range(times):
                    if turn:
                        bare[with_kv] = bare_of(with_kv=with_kv)
                    row = measure(lake, engine, beside, warm=warm, with_kv=with_kv, in_airflow=in_airflow)
                    rows.append({"store": store, **row, **ratios(row, bare[with_kv])})
                rows.sort(key=lambda row: row["wall_to_bare"])
                yield rows[(times - 1) // 2] | {"ratios": [row["wall_to_bare"] for row in rows]}


def ratios(row: dict[str, Any], bare: dict[str, Any]) -> dict[str, Any]:
    """Return the ratios to the bare client on the same store: of the steps, and of the processes from start to
    end, with Airflow.
    """
    floor = sum(bare["seconds"].values())
    steps = sum(seconds for step, seconds in row["seconds"].items() if step != "session")
    return {
        "steps": round(steps, 1),
        "bare": round(floor, 1),
        "steps_to_bare": round(steps / floor, 2),
        "wall_to_bare": round(row["wall"] / bare["wall"], 2),
    }
