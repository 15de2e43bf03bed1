"""A run's Spark application without Spark: the real program, with steps without a session."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection
from pathlib import Path
from unittest import mock

from airflow_dredge.operators.application import Patience, SparkApplication

ROOT = Path(__file__).resolve().parent.parent.parent
RUN_URI = "file:///nowhere/run"
PATIENCE = Patience(start_seconds=30)
"""The program starts in less than one second, unless the machine is busy."""

PROGRAM = """
import os, time
from concurrent.futures import Future
from multiprocessing.connection import Listener
from pathlib import Path

from dredge.errors import RefusedError
from airflow_dredge.spark_jobs.application import Application
from airflow_dredge.spark_jobs.job import Job, job_main

here = Path(__file__).parent

def beat(run_uri, options, runner):
    try:
        for number in range(600):
            (here / "beats" / str(number)).touch()
            time.sleep(0.05)
    finally:
        (here / "ended").touch()

def see(run_uri, options, runner):
    seen = f"{os.getpid()} {os.environ.get('SECRET')} {options.secret_access_key}"
    (here / "seen").write_text(seen)
    print("it did see", flush=True)

def refuse(run_uri, options, runner):
    raise RefusedError("head of main is new. Nothing was deleted.")

def crash(run_uri, options, runner):
    os._exit(3)

def serve(jobs, address, remote):
    with Listener(address, "AF_UNIX", backlog=8) as listener:
        Application(jobs, Future(), float(os.environ.get("IDLE", "60"))).serve(listener)

steps = {"beat": Job(beat), "see": Job(see), "refuse": Job(refuse), "crash": Job(crash)}
job_main(steps | {"last": Job(see).ending()}, serve=serve)
"""


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "program.py"
        self.script.write_text(PROGRAM)
        (folder / "beats").mkdir()

    def client(self, **own_secrets: str) -> SparkApplication:
        """The same over Spark Connect: the program is a task's own child."""
        command = [sys.executable, str(self.script), "--remote", "sc://nowhere"]
        return SparkApplication(RUN_URI, command, {"PYTHONPATH": str(ROOT)}, own_secrets, PATIENCE)

    def application(
        self, run_uri: str = RUN_URI, patience: Patience = PATIENCE, **env: str
    ) -> SparkApplication:
        """A task's view of the application of a run; `env` is for starting the program."""
        return SparkApplication(run_uri, self.command, {"PYTHONPATH": str(ROOT), **env}, patience=patience)

    @property
    def command(self) -> list[str]:
        """Starts the program below another process, like spark-submit; the program outlives a task."""
        return ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, str(self.script)]

    @property
    def seen(self) -> tuple[int, str, str]:
        """The last output of the step `see`: its process, a secret, and the store's."""
        pid, secret, store_secret = (self.folder / "seen").read_text().split()
        return int(pid), secret, store_secret

    def beats(self) -> int:
        """Number of marks left by the step `beat`."""
        return len(list((self.folder / "beats").iterdir()))

    def pids(self) -> list[int]:
        """Processes of the program, its parents, and those about to start it."""
        return [
            int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if self._is_named(path)
        ]

    def _is_named(self, command: Path) -> bool:
        with suppress(OSError):
            return str(self.script).encode() in command.read_bytes()
        return False


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def beating(
    program: Program, patience: Patience = PATIENCE
) -> tuple[SparkApplication, threading.Thread, list[int | None]]:
    """A task with an endless step; the waiting thread, and its exit code."""
    task, codes = program.application(patience=patience), list[int | None]()
    thread = threading.Thread(target=lambda: codes.append(task.do("beat", {})[0]))
    thread.start()
    wait_until(lambda: program.beats() > 0)
    return task, thread, codes


def connected(address: Path) -> Connection:
    """A connection to a future listener: the socket exists a moment before anyone listens."""
    lines: list[Connection] = []

    def is_answered() -> bool:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            lines.append(Client(str(address), "AF_UNIX"))
        return bool(lines)

    wait_until(is_answered)
    return lines[0]


@contextmanager
def programs(folder: Path) -> Iterator[Program]:
    """A program, with its sockets in a private folder; all processes end with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="dredge-") as short,
        mock.patch.object(tempfile, "tempdir", short),
    ):
        program = Program(folder)
        try:
            yield program
        finally:
            while pids := program.pids():
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
