"""Spark for tests: a Connect server as a process, and importable partition functions for workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from airflow_dredge.spark_jobs.archive import ensure_archive, java_options, spark_home
from airflow_dredge.spark_jobs.session import LOCAL_DEFAULTS, submit_conf
from dredge.compiled import are_loaded
from dredge.errors import NotFoundError, RefusedError, UnavailableError


class ConnectServer:
    """Spark's Connect server on a free port, two cores; a context manager."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._environ = environ or {}

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        conf = {
            **submit_conf(),
            **LOCAL_DEFAULTS,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
        }
        home = spark_home()
        assert home is not None
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=self.folder,
            env={
                **os.environ,
                **self._environ,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 90
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(
                    f"Spark Connect did not start:\n{(self.folder / 'log').read_text()[-4000:]}"
                )
            time.sleep(0.1)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class SparkCluster:
    """A standalone cluster: a master and its workers, each a process with one core; a context manager."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.port = free_port()
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def connection(self) -> dict[str, Any]:
        return {"conn_type": "spark", "host": "spark://127.0.0.1", "port": self.port}

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process in self._processes[1:]]

    def pythons(self) -> list[list[Path]]:
        """By worker, the interpreters in the working folders of its executors."""
        return [
            list((self.folder / f"worker-{number}").glob("app-*/*/dredge-env/bin/python3"))
            for number in range(self._workers)
        ]

    def __enter__(self) -> Self:
        self._start("master", "Master", "--port", str(self.port), "--webui-port", str(free_port()))
        deadline = time.monotonic() + 90
        while not listens(self.port):
            assert time.monotonic() < deadline, (self.folder / "master.log").read_text()[-4000:]
            time.sleep(0.1)
        for number in range(self._workers):
            work = str(self.folder / f"worker-{number}")
            where = ("--cores", "1", "--memory", "1g", "--work-dir", work, "--webui-port", str(free_port()))
            self._start(f"worker-{number}", "Worker", *where, f"spark://127.0.0.1:{self.port}")
        return self

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        home = spark_home()
        assert home is not None
        program = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        command = [str(home / "bin" / "spark-class"), program, "--host", "127.0.0.1", *arguments]
        # Nothing leads to this environment's Python.
        environ = {"PATH": "/usr/bin:/bin", "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environ |= {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
        environ["JAVA_TOOL_OPTIONS"] = java_options(ensure_archive())  # of executors, too
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environ, stdout=log, stderr=log, start_new_session=True
            )
            self._processes.append(process)

    def __exit__(self, *exc: object) -> None:
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class StrangeNotFoundError(NotFoundError):
    """A class unknown to the driver, of a known family."""

    def __init__(self, first: str, second: int) -> None:
        super().__init__(f"{first} {second}")


def describe_worker(config: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """A worker's parent, its number of threads at the start, and whether the kernels were loaded."""
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    return {"parent": parent, "threads": threads, "kernels": are_loaded()}


def double(config: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    return {"value": config["factor"] * task["value"], "pid": os.getpid()}


def fail_some(config: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """Fail if the task says so; other tasks take their time and leave a mark."""
    match task.get("fail"):
        case "refused":
            raise RefusedError("head of main is new")
        case "unavailable":
            raise UnavailableError("slow down")
        case "strange":
            raise StrangeNotFoundError("no", 7)
        case "bug":
            raise KeyError("forgotten")
        case "crash":
            os._exit(3)
    time.sleep(0.3)
    Path(config["folder"], str(task["value"])).touch()
    return {}


def read_environment(config: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    return {"seen": os.environ.get(config["name"])}


def sleep_and_mark(config: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """Touch a file every tenth of a second, for up to a minute."""
    for beat in range(600):
        Path(config["folder"], f"beat-{task['value']}-{beat}").touch()
        time.sleep(0.1)
    return {}
