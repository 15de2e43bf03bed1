"""Processes measured from the outside: wall time, CPU time and peak memory of whole process trees."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

import psutil


@dataclass
class Meter:
    """Samples the trees below some processes until it is stopped.

    Attributes:
        cpu_seconds: user and system time that the trees used while the meter ran (processes that lived
            shorter than a sampling interval escape it).
        read_mib: what they read from files and connections, page cache or not.
        peak_mib: largest sum of proportional set sizes.
    """

    pids: tuple[int, ...]
    every_seconds: float = 0.25
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0
    read_mib: float = 0.0
    _read: dict[tuple[int, float], int] = field(default_factory=dict)
    _before: dict[tuple[int, float], float] = field(default_factory=dict)
    _seen: dict[tuple[int, float], float] = field(default_factory=dict)

    def __enter__(self) -> Meter:
        """Start sampling."""
        self._stop = threading.Event()
        self._before = self._sample(memory=False)
        self._read_before = dict(self._read)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and sum up."""
        self._stop.set()
        self._thread.join()
        self.cpu_seconds = sum(used - self._before.get(key, 0.0) for key, used in self._seen.items())
        read = sum(count - self._read_before.get(key, 0) for key, count in self._read.items())
        self.read_mib = read / (1 << 20)

    def _run(self) -> None:
        turn = 0
        while not self._stop.is_set():
            self._sample(memory=turn % 4 == 0)
            turn += 1
            time.sleep(self.every_seconds)
        self._sample(memory=False)

    def _sample(self, memory: bool) -> dict[tuple[int, float], float]:
        used: dict[tuple[int, float], float] = {}
        total = 0
        for pid in self.pids:
            with suppress(psutil.Error):
                top = psutil.Process(pid)
                for process in (top, *top.children(recursive=True)):
                    with suppress(psutil.Error, OSError):
                        times = process.cpu_times()
                        key = (process.pid, process.create_time())
                        used[key] = times.user + times.system
                        self._read[key] = max(self._read.get(key, 0), _bytes_read(process.pid))
                        total += _pss(process.pid) if memory else 0
        self._seen.update(used)
        self.peak_mib = max(self.peak_mib, total / 1024)
        return used


def _pss(pid: int) -> int:
    """Proportional set size in KiB: pages shared by n processes count as 1/n in each."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _bytes_read(pid: int) -> int:
    with open(f"/proc/{pid}/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


def own_tree() -> tuple[int, ...]:
    """The process ids to give a meter for this process."""
    return (os.getpid(),)
