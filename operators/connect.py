"""A job in a child process that drives a Spark Connect server."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

#: For whoever starts a driver, a client or a Connect server, whose workers have it from there: glibc would have eight
#: arenas for each processor, and keep what a task gave back. A third of what two workers hold at their peak.
SMALL_MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}

_KILL_AFTER_SECONDS = 15


class ConnectJob:
    """A job file run by this Python against a Spark Connect server.

    The child asks the server to stop its tasks when it is told to end, so `kill` first asks, then insists.

    :param script: the job file
    :param arguments: what the job is told
    :param run_uri: folder of the run, which names the session
    :param url: ``sc://host:port/;…``; a token in it goes into the environment, where nobody lists it
    :param env: variables for the child, on top of this process's
    """

    def __init__(
        self, script: Path, arguments: Sequence[str], run_uri: str, url: str, env: Mapping[str, str]
    ) -> None:
        remote, token = remote_of_run(url, run_uri)
        self._command = [sys.executable, str(script), *arguments, "--remote", remote]
        self._env = {**SMALL_MALLOC, **os.environ, **env, **({TOKEN: token} if token else {})}
        self._process: subprocess.Popen[str] | None = None
        self.last_lines: deque[str] = deque(maxlen=50)

    def run(self) -> int:
        """Run the job, log what it says, and return its exit code."""
        log.info("Starting %s", " ".join(self._command))
        self._process = subprocess.Popen(
            self._command,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self.last_lines.append(line.rstrip())
                log.info("%s", line.rstrip())
        return self._process.wait()

    def kill(self) -> None:
        """End the job and with it its tasks on the server."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        log.info("Stopping the job")
        process.terminate()
        try:
            process.wait(_KILL_AFTER_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def remote_of_run(url: str, run_uri: str) -> tuple[str, str | None]:
    """Give the Connect address for a run: one session id for all its steps, and the token apart.

    :param url: ``sc://host:port/;key=value;…``
    :param run_uri: names the run
    :return: the address without token, and the token
    """
    place, _, settings = url.partition("/;")
    kept, token = [], None
    for item in filter(None, settings.split(";")):
        name, _, value = item.partition("=")
        if name == "token":
            token = value
        elif name != "session_id":
            kept.append(item)
    # The same id in every step and every retry: the server keeps the session's Python workers warm.
    session_id = uuid.UUID(bytes=hashlib.sha256(run_uri.encode()).digest()[:16], version=4)
    return f"{place.rstrip('/')}/;{';'.join([*kept, f'session_id={session_id}'])}", token
