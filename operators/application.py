"""The Spark application that does the steps of a run on this machine: found or started, asked, and ended.

Through spark-submit it is Spark's driver; over Connect the client of a server, which is loaded once for all steps.

`spark_jobs/application.py` is its other side, and says what is spoken. The socket of a run's application has a name
made from the run and from how Spark is started, in a folder of this user's: any task of the run finds it, and none of
another run. A task on another machine finds nothing there and starts one for that machine.
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

from airflow_dredge.operators.connect import SMALL_MALLOC
from dredge.errors import ConfigError, UnavailableError
from dredge.process import is_of_this_user

log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 0.1
_ADDRESS_BYTES_MAX = 100
"""Of the path of a socket; systems take 103 or more."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a task waits for an application, and how many there may be.

    :param start_seconds: for one that starts
    :param greeting_seconds: for its greeting: it comes at once whatever the application does, and never from one that
        is frozen
    :param kill_seconds: for its end, before it is killed
    :param applications: of one run on one machine
    """

    start_seconds: float = 300.0
    greeting_seconds: float = 60.0
    kill_seconds: float = 15.0
    applications: int = 8


PATIENCE = Patience()


class SparkApplication:
    """The application of a run.

    :param run_uri: folder of the run
    :param command: spark-submit, with its settings, and the job file
    :param env: variables that Spark starts with, on top of this process's; no secrets of the run
    :param own_secrets: further ones, which are in no name: what Spark itself needs to be let in
    :param patience: how long it is waited for
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
        self._name = f"{_name_of(run_uri)}-{_digest(how)}"
        self._run_uri = run_uri
        self._address = Path()
        self._asked: Connection | None = None
        self._group = 0
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, step: str, secrets: Mapping[str, str]) -> tuple[int | None, str]:
        """Have a step done, and log what the application says meanwhile.

        :param step: its name
        :param secrets: variables for the time of the step
        :return: exit code and last line of the step; no code when the application ended without a word
        :raises UnavailableError: Spark does not start
        """
        said = self._find()
        assert self._asked is not None
        with self._asked as application:
            try:
                request = {"step": step, "run": self._run_uri, "environment": dict(secrets)}
                application.send_bytes(json.dumps(request).encode())
                while not application.poll(_LOOK_EVERY_SECONDS):
                    said.forward()
                answer = json.loads(application.recv_bytes())
            except (EOFError, OSError):
                answer = {"code": None, "said": ""}
        said.forward()
        return answer["code"], answer["said"]

    def kill(self) -> None:
        """Hang up, which ends the step and the application; insist when it goes on."""
        if self._asked is not None and not self._asked.closed:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._asked.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
            group, seconds = self._group, self._patience.kill_seconds
        elif self._asked is None and self._process is not None:
            group, seconds = self._process.pid, 0.0
        else:
            return  # it does nothing for us
        log.info("Stopping Spark")
        if not _ends(self._address.with_suffix(".lock"), seconds):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _find(self) -> _Log:
        """Be put through to an application that is free; start one where there is none. Gives what it says."""
        for number in range(self._patience.applications):
            self._address = _folder() / f"{self._name}-{number}.sock"
            said = self._wait_for(self._address)
            if said is not None:
                return said
        raise UnavailableError(
            f"{self._patience.applications} Spark applications of run {self._run_uri} are at work on this machine"
        )

    def _wait_for(self, address: Path) -> _Log | None:
        """Be put through to the application of an address; None when it works for somebody else."""
        self._process = None  # the one we started at the address before this one serves somebody else
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
                    f"Spark ended with code {self._process.returncode} before it did anything. What it said is in the"
                    " log above."
                )
            time.sleep(_LOOK_EVERY_SECONDS)
        raise UnavailableError(
            f"Spark did not start within {self._patience.start_seconds:.0f} s; see the log above"
        )

    def _is_free(self, application: Connection, greeting: Mapping[str, Any]) -> bool:
        if greeting["free"]:
            # In this order: a kill may come between the two.
            self._group, self._asked = greeting["group"], application
        else:
            application.close()
        return bool(greeting["free"])

    def _start(self, address: Path) -> bool:
        """Start the application, unless one is alive: nobody can be put through yet, or it is just ending."""
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
                    start_new_session=True,  # it serves later tasks, too
                    pass_fds=(lock.fileno(),),  # the lock is held for as long as it lives (P19)
                )
            # Whoever ends it, it leaves no zombie in a worker that lives on.
            threading.Thread(target=self._process.wait, name="Spark application", daemon=True).start()
        return True


def end_applications(run_uri: str, patience: Patience = PATIENCE) -> None:
    """End the applications of a run on this machine that do no step, and clear up after it; none is waited for.

    :param run_uri: folder of the run
    :param patience: how long their greeting is waited for
    """
    for lock in _folder().glob(f"{_name_of(run_uri)}-*.lock"):
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
    """What an application says, line by line.

    :param path: where it says it
    :param seen: bytes of it that are old
    """

    def __init__(self, path: Path, seen: int = 0) -> None:
        self._path = path
        self._seen = seen
        self._rest = b""

    def forward(self) -> None:
        """Log the lines that were added."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as lines:
            lines.seek(self._seen)
            added = lines.read()
            self._seen += len(added)
            *whole, self._rest = (self._rest + added).split(b"\n")
            for line in whole:
                log.info("%s", line.decode(errors="replace").rstrip())


def _is_taken(lock: IO[str]) -> bool:
    """Take a lock that no process has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ends(path: Path, seconds: float) -> bool:
    """Wait until no process has a lock any more.

    :param path: of the lock
    :param seconds: how long to wait at most
    :return: whether that came about
    """
    until = time.monotonic() + seconds
    with path.open("w") as lock:
        while not _is_taken(lock):
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_EVERY_SECONDS)
    return True


def _greeted(address: Path, patience: Patience) -> tuple[Connection, dict[str, Any]] | None:
    """Return a line to an application, and its greeting; None when nobody is there.

    :raises ConfigError: somebody else is, whom no secret may be told
    """
    try:
        line = Client(str(address), "AF_UNIX")
    except (FileNotFoundError, ConnectionError):
        return None
    if not is_of_this_user(line):
        line.close()
        raise ConfigError(
            f"another user's process listens on {address}. Nothing was sent to it. Set TMPDIR to a folder that nobody"
            " else can write to."
        )
    with contextlib.suppress(EOFError, OSError):  # it is just ending
        if line.poll(patience.greeting_seconds):
            return line, json.loads(line.recv_bytes())
    line.close()
    return None


def _folder() -> Path:
    """Return a folder that only this user can enter.

    :raises ConfigError: somebody else has it
    """
    places = (Path(tempfile.gettempdir()), Path("/tmp"))
    parent = next(place for place in places if len(str(place)) < _ADDRESS_BYTES_MAX - 60)
    folder = parent / f"dredge-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{folder} must be a folder of user {os.getuid()} that nobody else can enter: secrets pass through it."
            " Remove it, or set TMPDIR."
        )
    return folder


def _name_of(run_uri: str) -> str:
    return f"spark-{_digest(run_uri)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
