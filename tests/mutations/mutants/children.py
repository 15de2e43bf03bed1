"""Work in a forked process: whatever a mutant does there, this one goes on."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

LOOK_SECONDS = 1.0
"""How often a child is looked at."""
BUSY = "RDTt"
"""States of processes that run, wait for a disk, or are halted by somebody."""
PR_SET_CHILD_SUBREAPER = 36


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


def in_child(work: Callable[[], Any], cpu_seconds_max: float, idle_seconds_max: float) -> Ended:
    """Do some work in a forked process.

    Limits are of work, not of the clock: on a busy machine, or one that is halted meanwhile, nothing ends for that.

    Args:
        work: what is done; it returns something that can be pickled.
        cpu_seconds_max: after so much of the processor it is ended.
        idle_seconds_max: after so long without any it is ended, as one that waits for ever.
    """
    before = _children()
    _adopt(True)
    try:
        return _lived(work, cpu_seconds_max, idle_seconds_max)
    finally:
        _end_others(before)
        _adopt(False)


def _lived(work: Callable[[], Any], cpu_seconds_max: float, idle_seconds_max: float) -> Ended:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(work, writing, cpu_seconds_max)
    os.close(writing)
    try:
        data, too_long = _read(reading, pid, idle_seconds_max)
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
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGTERM, signal.SIGKILL, signal.SIGINT}:
        return Ended(None, seconds, "error: somebody else ended it")
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


def _read(reading: int, group: int, idle_seconds_max: float) -> tuple[bytes, bool]:
    """Read to the end; whether that is given up, as nothing moves there."""
    data, idle, before = b"", 0.0, None
    seconds = min(LOOK_SECONDS, idle_seconds_max)
    while True:
        ready, _, _ = select.select([reading], [], [], seconds)
        if not ready:
            ticks = _ticks_of_sleepers(group)
            idle = idle + seconds if ticks is not None and ticks == before else 0.0
            before = ticks
            if idle >= idle_seconds_max:
                return data, True
            continue
        some = os.read(reading, 1 << 20)
        if not some:
            return data, False
        data += some


def _ticks_of_sleepers(group: int) -> int | None:
    """What the processes of a group had of the processor until now; None where one wants it, or is halted."""
    total = 0
    for _, state, *fields in _stats():
        if int(fields[1]) == group:
            if state in BUSY:
                return None
            total += int(fields[10]) + int(fields[11])
    return total


def _stats() -> Iterator[list[str]]:
    """What the kernel tells of each process: its id, and all from its state on."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield [path.parent.name, *path.read_text().rpartition(")")[2].split()]
        except OSError:
            continue  # it is gone


def _adopt(adopts: bool) -> None:
    """Say whether processes become this one's children when those that started them have ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def _children() -> set[int]:
    """This process's children."""
    return {int(pid) for pid, _, parent, *_ in _stats() if int(parent) == os.getpid()}


def _end_others(known: Collection[int]) -> None:
    """End every child but some, and what becomes a child then: a test may start processes of groups of their own."""
    while others := _children().difference(known):
        for pid in others:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def allow_cpu(seconds: float) -> None:
    """Give this process so much more of the processor, within what it may have at most."""
    used = time.process_time()
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(int(used + seconds) + 1, most), most))


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        os.kill(pid, signal.SIGKILL)
