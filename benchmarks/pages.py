"""Response times of the pages of a large run: `./run bench pages`.

The run is a whole chain over a lake with metadata only, as in `scale`; with `rows`, a small one with enlarged
candidates and ledger. `dredge ui` serves it in a separate process. The first figures of each page are of a
new server, the others of the same one: the page again, and parallel users.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.pages_run import grow
from benchmarks.scale import run
from benchmarks.scale_lake import ScaleLake
from benchmarks.tables import surroundings, table
from dredge.gc.run import RUNS

SMALL = 50_000
"""Objects of the lake with the enlarged run."""
HEADS = ("page", "first s", "CPU s", "again s", "CPU s", "at once: median s", "slowest s", "CPU s each")
_READY_SECONDS = 120
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(objects: int, rows: int, people: int, kept: bool) -> str:
    """Measure the pages of a run; returns a table.

    Args:
        objects: of the lake.
        rows: number of candidates and ledger rows to generate; 0 for the run's own.
        people: parallel users.
        kept: reuse the run of the last time.
    """
    lake = ScaleLake(SMALL if rows else objects)
    if not kept:
        for _ in run([lake.objects], again=True, keep=True):
            pass
        if rows:
            grow(lake.root / RUNS, rows)
    with _served(lake.namespace) as server:
        place = _first(r"place/[0-9a-f]+", server.get(""))
        runs = list(dict.fromkeys(re.findall(rf"{place}/run/[0-9a-v]+", server.get(place))))
    found = []
    for name, address in _addresses(place, runs, lake.namespace).items():
        found.append([name, *_figures(lake.namespace, address, people)])
        print(*found[-1], file=sys.stderr, flush=True)
    return f"{surroundings()}\n\n{table(HEADS, found)}"


def _addresses(place: str, runs: Sequence[str], namespace: str) -> dict[str, str]:
    """Return the pages to measure, by name."""
    found = {
        "overview": "",
        "repository": place,
        "run": runs[0],
        "restorable objects": f"{runs[0]}/restore?all=true",
    }
    with _served(namespace) as server:
        for words, page in zip(("ledger", "candidates"), runs, strict=False):
            lists = _lists(server, page)
            found |= {
                f"{words}: {name}": f"{page}/objects?{urlencode(asked)}" for name, asked in lists.items()
            }
    return found


def _lists(server: Server, page: str) -> dict[str, dict[str, str]]:
    """Return lists of objects: first and later pages, each filter, each order."""
    rows = [line.split(",") for line in server.get(f"{page}/objects.csv").splitlines()[1:]]
    settled = rows[0][3] != "may go"
    address, size = rows[int(len(rows) * 0.9)][:2]
    return {
        "first page": {},
        "nine tenths down": {"start": f"{int(len(rows) * 0.9)}"},
        "prefix": {"prefix": address[:-16]},
        "reason": {"reason": "never_linked"},
        "outcome": {"outcome": "missing" if settled else "held"},
        "sizes": {"size_min": "136297000"},
        "nothing found": {"prefix": "data/nothing-begins-so"},
        "nothing found, by a part of each": {
            "reason": "expired",
            "outcome": "failed",
            "size_min": "136307000",
        },
        "largest": {"sort": "size"},
        "largest, deep": {"sort": "size", "start": f"{size}-0"},
        "by address": {"sort": "address"},
        "by address, deep": {"sort": "address", "start": address},
        "largest of a prefix": {"sort": "size", "prefix": address[:12]},
    }


@dataclass(frozen=True)
class Server:
    """A server of pages in a separate process."""

    url: str
    pid: int

    def get(self, address: str) -> str:
        """Return a page's text."""
        with urllib.request.urlopen(self.url + address, timeout=120) as answer:
            text: str = answer.read().decode()
        return text

    def seconds(self, address: str) -> float:
        """Return the response time of a page."""
        begun = time.perf_counter()
        self.get(address)
        return time.perf_counter() - begun

    def cpu(self) -> float:
        """Return the CPU seconds of the server."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:13])) / _TICKS


def _figures(uri: str, address: str, people: int) -> Sequence[float]:
    found: list[float] = []
    with _served(uri) as server:
        for _ in range(2):
            before = server.cpu()
            found += [server.seconds(address), server.cpu() - before]
        if people:
            before = server.cpu()
            with ThreadPoolExecutor(people) as pool:
                waited = sorted(pool.map(server.seconds, [address] * people))
            found += [waited[people // 2], waited[-1], (server.cpu() - before) / people]
    return [round(value, 2) for value in found]


@contextmanager
def _served(uri: str) -> Iterator[Server]:
    """Yield a new server of pages, after its imports."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = "from dredge.cli import main; main()"
    command = [sys.executable, "-c", start, "ui", uri, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        server = Server(f"http://127.0.0.1:{port}/", process.pid)
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{' '.join(command)} does not serve")
                time.sleep(0.1)
            _rest(server)
            yield server
        finally:
            process.terminate()


def _rest(server: Server) -> None:
    """Wait until the server is idle."""
    before = -1.0
    while (now := server.cpu()) > before:
        before = now
        time.sleep(0.3)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"no {pattern} among {text[:2000]}")
    return found[0]
