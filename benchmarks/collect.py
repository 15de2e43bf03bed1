"""Whole runs on generated repositories, engine by engine, beside the floor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.driver import SETTINGS
from benchmarks.lakes import STATE, Lake, LocalLake, S3Lake
from benchmarks.measure import Meter
from benchmarks.s3_store import s3_store
from benchmarks.shapes import SHAPES
from dredge.gc.mark_uncommitted.kv_access import URL as KV_URL

ENGINES = ("floor", "local", "submit", "connect")
BRANCH_MS = "11"
"""What preparing uncommitted addresses takes of a real server for each branch."""
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def check(lake: Lake) -> dict[str, int]:
    """Compare the store with the truth after a run."""
    present, truth = lake.present(), lake.truth
    return {
        "deleted": sum(address not in present for address, live in truth.items() if not live),
        "missed": sum(address in present for address, live in truth.items() if not live),
        "lost": sum(address not in present for address, live in truth.items() if live),
    }


@contextmanager
def lakefs_server(lake: Lake) -> Iterator[dict[str, str]]:
    """Serve a lake from a process of its own; gives the variables that reach it."""
    keys = {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIABENCHMARK",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "benchmark-secret",
    }
    command = [
        "dredge",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--json",
        "--prepare-branch-ms",
        BRANCH_MS,
        *lake.serve,
    ]
    env = os.environ | keys | lake.environ
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield {"LAKECTL_SERVER_ENDPOINT_URL": ready["endpoint"], **keys, **lake.environ}
        finally:
            process.terminate()


@contextmanager
def connect_server() -> Iterator[tuple[str, int]]:
    """Start a Spark Connect server; gives its URL and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    conf = json.loads(
        subprocess.run([sys.executable, "-m", "spark_jobs.session"], capture_output=True, check=True).stdout
    )
    conf |= {"spark.connect.grpc.binding.port": str(port), "spark.driver.host": "127.0.0.1"}
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", "local[2]", *settings, "--class", SERVER, "spark-internal"]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
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


def measure(
    lake: Lake, engine: str, warm: bool, connect: tuple[str, int] | None, with_kv: bool = True
) -> dict[str, Any]:
    """Run one engine once on a prepared lake and check what it did.

    Args:
        lake: to collect.
        engine: one of ENGINES.
        warm: keep the committed index of earlier runs.
        connect: a Connect server's URL and process id, for that engine.
        with_kv: read the staging records. Without them all garbage of these lakes, whose branches are many and whose
            objects have few lengths, is held.
    """
    lake.prepare()
    if not warm:
        lake.forget_index()
    row = {"shape": lake.shape.name, "index": "warm" if warm else "cold"}
    return {**row, **measure_run(lake, engine, connect, with_kv), **check(lake)}


def measure_run(
    lake: Lake, engine: str, connect: tuple[str, int] | None, with_kv: bool = True
) -> dict[str, Any]:
    """Run one engine once on a lake as it is.

    Args:
        lake: to collect.
        engine: one of ENGINES.
        connect: a Connect server's URL and process id, for that engine.
        with_kv: read the staging records from the server's key-value store.

    Returns:
        What the run says of itself, processor seconds, peak memory and bytes read.
    """
    name = lake.shape.name
    command = [sys.executable, "-m", "benchmarks.driver", engine, name]
    command += [connect[0]] if connect and engine == "connect" else []
    with (
        lakefs_server(lake) as env,
        subprocess.Popen(
            command, env=os.environ | env | _kv(lake, with_kv), stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        pids = (process.pid, connect[1]) if connect and engine == "connect" else (process.pid,)
        with Meter(pids) as meter:
            said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} on {engine} failed")
    figures: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {
        **figures,
        "cpu_seconds": round(meter.cpu_seconds, 1),
        "peak_mib": round(meter.peak_mib),
        "read_mib": round(meter.read_mib, 1),
    }


def _kv(lake: Lake, wanted: bool) -> dict[str, str]:
    """Variables that let a run read the server's key-value store."""
    if not wanted:
        return {}
    settings = json.loads(os.environ.get(SETTINGS, "{}")) | {"read_kv": True}
    return {SETTINGS: json.dumps(settings), KV_URL: lake.serve[lake.serve.index("--kv") + 1]}


def run(
    store: str, shapes: list[str], engines: list[str], rounds: tuple[bool, ...], with_kv: bool = True
) -> list[dict[str, Any]]:
    """Measure every engine on every shape, cold and warm, and return a row each.

    Args:
        store: one of STORES.
        shapes: names of SHAPES.
        engines: of ENGINES.
        rounds: False is a cold run, True a warm one.
        with_kv: read the staging records.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    rows = []
    with ExitStack() as stack:
        s3 = stack.enter_context(s3_store()) if store == "s3" else None

        def lake_of(name: str) -> Lake:
            return LocalLake(SHAPES[name]) if s3 is None else S3Lake(SHAPES[name], s3)

        connect = stack.enter_context(connect_server()) if "connect" in engines else None
        if connect:
            # The first run pays for a fresh server; the figures are those of a server in use.
            measure(lake_of("b10k"), "connect", False, connect)
        for name in shapes:
            lake = lake_of(name)
            for engine in engines:
                for warm in rounds:
                    row = measure(lake, engine, warm, connect, with_kv)
                    rows.append({"store": store, **row})
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows
