"""Client of a run's Spark application: starts or finds the application, asks for steps, stops it.

With spark-submit the application is Spark's driver; with Connect it is the client of a server. All tasks of a run on
one machine share it, because a start of Spark takes longer than most steps. `spark_jobs/application.py` is the server
and documents the protocol. The name of the socket is a hash of the run and of Spark's command line, in a folder of this
user: tasks of the same run find it, other runs do not.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import IO, Any

from airflow_dredge.operators.spark_master import SMALL_MALLOC
from dredge.errors import ConfigError, UnavailableError
from dredge.process import is_of_this_user

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_ADDRESS_BYTES_MAX = 100
"""Maximum length of a socket path; systems allow 103 or more."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Timeouts of a task, and the maximum number of applications.

    :param greeting_seconds: timeout for the greeting, which an application sends at once even when busy; a
        frozen application sends none
    """

    start_seconds: float = 300.0
    greeting_seconds: float = 60.0
    kill_seconds: float = 15.0
    applications: int = 8


PATIENCE = Patience()


class SparkApplication:
    """The Spark application of a run.

    :param env: further environment variables of Spark, without secrets of the run
    :param own_secrets: secrets of Spark, such as a Connect token; they do not affect the socket's name
    """

    def __init__(
        self,
        run_uri: str,
        command: Sequence[str],
        env: Mapping[str, str],
        own_secrets: Mapping[str, str] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self._patience = patience
        self._command = [*command]
        how = json.dumps([self._command, sorted(env.items())])
        self._env = {**env, **(own_secrets or {})}
        self._name = f"{_run_name(run_uri)}-{_digest(how)}"
        self._run_uri = run_uri
        self._address = Path()
        self._asked: Connection | None = None
        self._group = 0
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, step: str, secrets: Mapping[str, str]) -> tuple[int | None, str]:
        """Run a step, and log the application's output while it runs.

        :return: exit code and last line of the step; no code if the application ended without an answer
        """
        said = self._find()
        assert self._asked is not None
        with self._asked as application:
            try:
                request = {"step": step, "run": self._run_uri, "environment": dict(secrets)}
                application.send_bytes(json.dumps(request).encode())
                while not application.poll(_POLL_SECONDS):
                    said.forward()
                answer = json.loads(application.recv_bytes())
            except (EOFError, OSError):
                answer = {"code": None, "said": ""}
        said.forward()
        return answer["code"], answer["said"]

    def begin(self) -> None:
        """Start the application for a later task of the run if there is none; does not wait for it."""
        address = _folder() / f"{self._name}-0.sock"
        if (greeted := _greeted(address, self._patience)) is None:
            self._start(address)
        else:
            greeted[0].close()

    def kill(self) -> None:
        """Disconnect, which stops step and application; after a timeout, kill the process group."""
        if self._asked is not None and not self._asked.closed:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._asked.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
            group, seconds = self._group, self._patience.kill_seconds
        elif self._asked is None and self._process is not None:
            group, seconds = self._process.pid, 0.0
        else:
            return  # this task has no running step
        log.info("Stopping Spark")
        if not _ends(self._address.with_suffix(".lock"), seconds):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _find(self) -> _Log:
        """Connect to a free application, or start one. Returns its log."""
        for number in range(self._patience.applications):
            self._address = _folder() / f"{self._name}-{number}.sock"
            said = self._wait_for(self._address)
            if said is not None:
                return said
        raise UnavailableError(
            f"all {self._patience.applications} Spark applications of run {self._run_uri} on this machine are busy"
        )

    def _wait_for(self, address: Path) -> _Log | None:
        """Connect to the application at an address; None if it is busy."""
        self._process = None  # the process of the previous address belongs to other tasks
        path = address.with_suffix(".log")
        said = _Log(path, path.stat().st_size if path.exists() else 0)
        until = time.monotonic() + self._patience.start_seconds
        while time.monotonic() < until:
            if (greeted := _greeted(address, self._patience)) is not None:
                return said if self._is_free(*greeted) else None
            if self._process is None and self._start(address):
                said = _Log(path)
            said.forward()
            if self._process is not None and self._process.poll() is not None:
                raise UnavailableError(
                    f"Spark exited with code {self._process.returncode} at its start. Its output is in the log above."
                )
            time.sleep(_POLL_SECONDS)
        raise UnavailableError(
            f"Spark did not start within {self._patience.start_seconds:.0f} s; see the log above"
        )

    def _is_free(self, application: Connection, greeting: Mapping[str, Any]) -> bool:
        if greeting["free"]:
            # In this order, because kill() may run between the two assignments.
            self._group, self._asked = greeting["group"], application
        else:
            application.close()
        return bool(greeting["free"])

    def _start(self, address: Path) -> bool:
        """Start the application unless one is starting or stopping at this address."""
        with address.with_suffix(".lock").open("w") as lock:
            if not _is_taken(lock):
                return False
            address.unlink(missing_ok=True)
            log.info(
                "Starting Spark for this run: usually up to 15 seconds, a minute the first time on a machine"
            )
            with address.with_suffix(".log").open("wb") as sink:
                self._process = subprocess.Popen(
                    [*self._command, "--serve", str(address)],
                    env={**SMALL_MALLOC, **os.environ, **self._env},
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # it outlives this task
                    pass_fds=(lock.fileno(),),  # holds the lock until the process ends (P19)
                )
            # Reaps the process, so that no zombie stays in a long-lived worker.
            threading.Thread(target=self._process.wait, name="Spark application", daemon=True).start()
        return True


def end_applications(run_uri: str, patience: Patience = PATIENCE) -> None:
    """Stop a run's idle applications on this machine, and remove their files; does not wait."""
    for lock in _folder().glob(f"{_run_name(run_uri)}-*.lock"):
        address = lock.with_suffix(".sock")
        greeted = _greeted(address, patience)
        if greeted is not None:
            application, greeting = greeted
            with application, contextlib.suppress(OSError):
                if not greeting["free"]:
                    continue
                application.send_bytes(json.dumps({"end": True}).encode())
        for path in (lock, address.with_suffix(".log")):
            path.unlink(missing_ok=True)


class _Log:
    """Copies new lines of an application's log file to the task's log."""

    def __init__(self, path: Path, seen: int = 0) -> None:
        self._path = path
        self._seen = seen
        self._rest = b""

    def forward(self) -> None:
        """Log the new lines."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as lines:
            lines.seek(self._seen)
            added = lines.read()
            self._seen += len(added)
            *whole, self._rest = (self._rest + added).split(b"\n")
            for line in whole:
                log.info("%s", line.decode(errors="replace").rstrip())


def _is_taken(lock: IO[str]) -> bool:
    """Take a free lock; return False if another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ends(path: Path, seconds: float) -> bool:
    """Wait until the lock file at a path is free; return False after the timeout."""
    until = time.monotonic() + seconds
    with path.open("w") as lock:
        while not _is_taken(lock):
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
    return True


def _greeted(address: Path, patience: Patience) -> tuple[Connection, dict[str, Any]] | None:
    """Connect to an application and read its greeting; None without an answer."""
    try:
        line = Client(str(address), "AF_UNIX")
    except (FileNotFoundError, ConnectionError):
        return None
    if not is_of_this_user(line):
        line.close()
        raise ConfigError(
            f"a process of another user listens on {address}. Nothing was sent to it. Set TMPDIR to a folder that only"
            " this user can write to."
        )
    with contextlib.suppress(EOFError, OSError):  # the application is stopping
        if line.poll(patience.greeting_seconds):
            return line, json.loads(line.recv_bytes())
    line.close()
    return None


def _folder() -> Path:
    """Return a folder with access for this user only."""
    places = (Path(tempfile.gettempdir()), Path("/tmp"))
    parent = next(place for place in places if len(str(place)) < _ADDRESS_BYTES_MAX - 60)
    folder = parent / f"dredge-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{folder} must belong to user {os.getuid()} and have mode 0700, because secrets pass through it. Nothing"
            " was started. Remove the folder, or set TMPDIR to another one."
        )
    return folder


def _run_name(run_uri: str) -> str:
    return f"spark-{_digest(run_uri)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
