"""Whole runs on generated repositories, engine by engine, beside the floor."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.generate import Objects, generate, save_truth
from benchmarks.measure import Meter
from benchmarks.shapes import SHAPES, Shape

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench"
ENGINES = ("floor", "local", "submit", "connect")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def prepare(shape: Shape) -> Path:
    """Generate a lake on a local folder unless it is there, and put back what earlier runs deleted."""
    folder = STATE / shape.name
    if not (folder / "truth.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "objects").mkdir(parents=True)
        begun = time.perf_counter()
        truth = generate(shape, f"local://{folder}/objects/repo", f"sqlite:///{folder}/kv.db", shape.name)
        save_truth(truth, folder / "truth.parquet")
        print(f"{shape.name} generated in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    objects = Objects(shape, datetime.now(UTC))
    for address, live in _truth(folder).items():
        path = folder / "objects" / "repo" / address
        if not live and not path.exists():
            path.write_bytes(objects.content(address))
    time.sleep(2)
    return folder


def forget_index(folder: Path) -> None:
    """Make the next run a cold one."""
    shutil.rmtree(folder / "objects/repo/_lakefs/retention/gc/dredge", ignore_errors=True)


def check(folder: Path) -> dict[str, int]:
    """Compare the store with the truth after a run."""
    root = folder / "objects" / "repo"
    present = {
        f"data/{part.parent.name}/{part.name}" for part in (root / "data").rglob("*") if part.is_file()
    }
    truth = _truth(folder)
    return {
        "deleted": sum(address not in present for address, live in truth.items() if not live),
        "missed": sum(address in present for address, live in truth.items() if not live),
        "lost": sum(address not in present for address, live in truth.items() if live),
    }


def _truth(folder: Path) -> dict[str, bool]:
    table = pq.read_table(folder / "truth.parquet", columns=["address", "live"])
    return dict(zip(table["address"].to_pylist(), table["live"].to_pylist(), strict=True))


@contextmanager
def lakefs_server(folder: Path) -> Iterator[dict[str, str]]:
    """Serve a lake from a process of its own; gives the variables that reach it."""
    keys = {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIABENCHMARK",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "benchmark-secret",
    }
    command = ["dredge", "serve", "--listen", "127.0.0.1:0", "--data", str(folder), "--json"]
    command += ["--kv", f"sqlite:///{folder}/kv.db"]
    with subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield {"LAKECTL_SERVER_ENDPOINT_URL": ready["endpoint"], **keys}
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


def measure(shape: Shape, engine: str, warm: bool, connect: tuple[str, int] | None) -> dict[str, Any]:
    """Run one engine once on a prepared lake and check what it did.

    Args:
        shape: of the lake.
        engine: one of ENGINES.
        warm: keep the committed index of earlier runs.
        connect: a Connect server's URL and process id, for that engine.
    """
    folder = prepare(shape)
    if not warm:
        forget_index(folder)
    command = [sys.executable, "-m", "benchmarks.driver", engine, shape.name]
    command += [connect[0]] if connect and engine == "connect" else []
    with (
        lakefs_server(folder) as env,
        subprocess.Popen(command, env=os.environ | env, stdout=subprocess.PIPE, text=True) as process,
    ):
        pids = (process.pid, connect[1]) if connect and engine == "connect" else (process.pid,)
        with Meter(pids) as meter:
            said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{shape.name} on {engine} failed")
    figures: dict[str, Any] = json.loads(said.splitlines()[-1])
    return {
        "shape": shape.name,
        "index": "warm" if warm else "cold",
        **figures,
        "cpu_seconds": round(meter.cpu_seconds, 1),
        "peak_mib": round(meter.peak_mib),
        **check(folder),
    }


def run(shapes: list[str], engines: list[str], rounds: tuple[bool, ...]) -> list[dict[str, Any]]:
    """Measure every engine on every shape, cold and warm, and return a row each."""
    STATE.mkdir(parents=True, exist_ok=True)
    rows = []
    with connect_server() if "connect" in engines else nullcontext() as connect:
        if connect:
            # The first run pays for a fresh server; the figures are those of a server in use.
            measure(SHAPES["b10k"], "connect", False, connect)
        for name in shapes:
            for engine in engines:
                for warm in rounds:
                    rows.append(measure(SHAPES[name], engine, warm, connect))
                    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows
