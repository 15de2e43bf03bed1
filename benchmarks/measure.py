"""Wall time, CPU time and peak memory of process trees, measured from outside."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

type _Process = tuple[int, float]

DAEMON = re.compile(r"-m (?:pyspark|airflow_dredge\.spark_jobs)\.daemon\b")
_SETTLED_SECONDS = 2.0


class Meter:
    """Samples process trees until it is stopped.

    Args:
        roots: process ids by name of their tree.
        every_seconds: sampling interval. A sample takes some ten milliseconds of CPU time.

    Attributes:
        cpu_seconds: user and system time by tree (without processes shorter than a sampling interval).
        read_mib: bytes read from files and connections, with the page cache.
        peak_mib: largest sum of proportional set sizes, by tree.
        peak_of_all_mib: largest sum over all trees at one time.
        processes_mib: proportional set sizes at that time, by kind of process.
        processes_cpu: CPU seconds by kind of process.
    """

    def __init__(self, roots: Mapping[str, int], every_seconds: float = 0.5) -> None:
        self._roots = roots
        self._every_seconds = every_seconds
        self._used: dict[str, dict[_Process, tuple[float, float]]] = {name: {} for name in roots}
        self._read: dict[str, dict[_Process, tuple[int, int]]] = {name: {} for name in roots}
        self._kinds: dict[_Process, str] = {}
        self._settled: set[_Process] = set()
        self._stop = threading.Event()
        self._fresh = True
        self.cpu_seconds: dict[str, float] = {}
        self.read_mib: dict[str, float] = {}
        self.peak_mib: dict[str, float] = dict.fromkeys(roots, 0.0)
        self.peak_of_all_mib = 0.0
        self.processes_mib: dict[str, float] = {}
        self.processes_cpu: Counter[str] = Counter()

    def __enter__(self) -> Meter:
        """Start sampling."""
        self._sample(memory=False)
        self._fresh = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and calculate the sums."""
        self._stop.set()
        self._thread.join()
        for name in self._roots:
            self.cpu_seconds[name] = sum(last - first for first, last in self._used[name].values())
            self.read_mib[name] = sum(last - first for first, last in self._read[name].values()) / (1 << 20)
            for process, (first, last) in self._used[name].items():
                self.processes_cpu[self._kinds.get(process, name)] += last - first

    def _run(self) -> None:
        turn = 0
        while not self._stop.is_set():
            self._sample(memory=turn % 2 == 0)
            turn += 1
            self._stop.wait(self._every_seconds)
        self._sample(memory=False)

    def _sample(self, memory: bool) -> None:
        processes: Counter[str] = Counter()
        children = _children()
        sizes = {
            name: self._look(name, _tree(pid, children), memory, processes) / 1024
            for name, pid in self._roots.items()
        }
        for name, size in sizes.items():
            self.peak_mib[name] = max(self.peak_mib[name], size)
        if sum(sizes.values()) > self.peak_of_all_mib:
            self.peak_of_all_mib = sum(sizes.values())
            self.processes_mib = {name: size / 1024 for name, size in processes.most_common()}

    def _look(self, name: str, pids: Iterable[int], memory: bool, processes: Counter[str]) -> int:
        """Sample a tree; returns its memory in KiB."""
        total = 0
        for pid in pids:
            with suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                times = process.cpu_times()
                key = (pid, process.create_time())
                _note(self._used[name], key, times.user + times.system, self._fresh)
                _note(self._read[name], key, _bytes_read(pid), self._fresh)
                if memory:
                    size = _pss(pid)
                    total += size
                    processes[self._kind(name, key, process)] += size
        return total

    def _kind(self, name: str, key: _Process, process: psutil.Process) -> str:
        """Return the kind of a process; repeated for a new one, which may exec another program."""
        if key not in self._settled:
            self._kinds[key] = _what(name, process)
            if time.time() - key[1] > _SETTLED_SECONDS:
                self._settled.add(key)
        return self._kinds[key]


def _children() -> dict[int, list[int]]:
    """Return the children of each process."""
    found: dict[int, list[int]] = {}
    for pid in psutil.pids():
        with suppress(OSError, ValueError):
            # "pid (name) state ppid …": a name may contain blanks and brackets.
            after = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2]
            found.setdefault(int(after.split()[1]), []).append(pid)
    return found


def _tree(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """Return a process and its descendants."""
    yield pid
    for child in children.get(pid, ()):
        yield from _tree(child, children)


def _what(tree: str, process: psutil.Process) -> str:
    """Return the kind of a process of a tree."""
    words = process.cmdline()
    line = " ".join(words)
    if words and words[0].endswith("java"):
        return "JVM"
    if DAEMON.search(line):
        parent = process.parent()
        is_worker = parent is not None and DAEMON.search(" ".join(parent.cmdline())) is not None
        return "Spark's Python workers" if is_worker else "Spark's Python daemons"
    if "--serve" in words and "step.py" in line:
        return "client of Spark"
    return "Airflow" if "airflow" in line and tree == "dredge" else tree


def _note[N: (int, float)](seen: dict[_Process, tuple[N, N]], key: _Process, value: N, fresh: bool) -> None:
    """Store a process's first and last figure; a later process starts at zero."""
    first = seen[key][0] if key in seen else value if fresh else type(value)(0)
    seen[key] = (first, value)


def _pss(pid: int) -> int:
    """Return the proportional set size in KiB: pages shared by n processes count as 1/n in each."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _bytes_read(pid: int) -> int:
    with open(f"/proc/{pid}/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
