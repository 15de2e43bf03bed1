"""How long people wait for the pages of a large run: `python -m benchmarks.pages [OBJECTS]`.

The run is a whole chain over a lake without a single object, as in `scale`. `dredge ui` serves it as a process of its
own; the first row of each page is of a fresh server, the second of 20 people who ask for it at once.
"""

from __future__ import annotations

import re
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import click

from benchmarks.scale import run
from benchmarks.scale_lake import ScaleLake
from benchmarks.tables import surroundings, table

PEOPLE = 20
_READY_SECONDS = 120


@click.command()
@click.argument("objects", type=int, default=500_000)
@click.option("--people", default=PEOPLE, show_default=True, help="How many ask at once.")
@click.option("--kept", is_flag=True, help="Take the run that is there from the last time.")
def main(objects: int, people: int, kept: bool) -> None:
    """Measure the pages of a run over OBJECTS objects."""
    lake = ScaleLake(objects)
    if not kept:
        for _ in run([objects]):
            pass
    with _served(lake.namespace) as url:
        place = _first(r"place/[0-9a-f]+", _get(url)[0])
        page = _first(rf"{place}/run/[0-9a-v]+", _get(f"{url}{place}")[0])
    addresses = {
        "overview": "",
        "repository": place,
        "run": page,
        "objects": f"{page}/objects",
        "objects, largest first": f"{page}/objects?sort=size",
        "what would come back": f"{page}/restore?all=true",
    }
    rows = [[name, *_figures(lake.namespace, address, people)] for name, address in addresses.items()]
    heads = ["page", "first s", "again s", f"{people} at once: median s", "slowest s", "server CPU s"]
    click.echo(f"{surroundings()}\n\n{table(heads, rows)}")


def _figures(uri: str, address: str, people: int) -> Sequence[float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _served(uri) as url, ThreadPoolExecutor(people) as pool:
        first, again = (_get(url + address)[1] for _ in range(2))
        waited = sorted(seconds for _, seconds in pool.map(_get, [url + address] * people))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [round(value, 2) for value in (first, again, waited[people // 2], waited[-1], cpu)]


@contextmanager
def _served(uri: str) -> Iterator[str]:
    """A fresh server of pages; the processor time of its start is its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = "from dredge.cli import main; main()"
    command = [sys.executable, "-c", start, "ui", uri, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while socket.socket().connect_ex(("127.0.0.1", port)):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{' '.join(command)} does not serve")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def _get(address: str) -> tuple[str, float]:
    begun = time.perf_counter()
    with urllib.request.urlopen(address, timeout=120) as answer:
        return answer.read().decode(), time.perf_counter() - begun


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"no {pattern} among {text[:2000]}")
    return found[0]


if __name__ == "__main__":
    main()
