"""Work in a forked process: whatever a mutant does there, this one goes on."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a child ended.

    Attributes:
        value: what its work returned; None when it did not come to its end.
        seconds: of processor that it took.
        cause: "" for a value, else "time", how the process ended, or its error with where it was raised.
    """

    value: Any
    seconds: float
    cause: str


def in_child(work: Callable[[], Any], cpu_seconds_max: float, seconds_max: float) -> Ended:
    """Do some work in a forked process.

    Args:
        work: what is done; it returns something that can be pickled.
        cpu_seconds_max: after so much of the processor it is ended.
        seconds_max: after so long it is ended, as one that waits for ever.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(work, writing, cpu_seconds_max)
    os.close(writing)
    try:
        data, too_long = _read(reading, seconds_max)
    except BaseException:
        _end_group(pid)
        raise
    finally:
        os.close(reading)
    return _ended(pid, data, too_long)


def _ended(pid: int, data: bytes, too_long: bool) -> Ended:
    """Wait for a child that has said all that it has to say."""
    if too_long:
        _end_group(pid)
        os.kill(pid, signal.SIGKILL)  # it may have come to no group of its own yet
    _, status, usage = os.wait4(pid, 0)
    _end_group(pid)  # what it started and left behind
    seconds = usage.ru_utime + usage.ru_stime
    if too_long or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return Ended(None, seconds, "time")
    if not data:
        return Ended(None, seconds, f"status {status}")
    value, cause = pickle.loads(data)
    return Ended(value, seconds, cause)


def _be_child(work: Callable[[], Any], writing: int, cpu_seconds_max: float) -> None:
    """The child's whole life; it never comes back."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds_max) + 1, int(cpu_seconds_max) + 5))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        data = pickle.dumps(_done(work))
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _done(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except BaseException:
        return None, f"error: {traceback.format_exc()}"


def _read(reading: int, seconds_max: float) -> tuple[bytes, bool]:
    """Read to the end; whether that takes too long."""
    data, until = b"", time.monotonic() + seconds_max
    while True:
        ready, _, _ = select.select([reading], [], [], max(until - time.monotonic(), 0))
        if not ready:
            return data, True
        some = os.read(reading, 1 << 20)
        if not some:
            return data, False
        data += some


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        os.kill(pid, signal.SIGKILL)
