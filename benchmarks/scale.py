"""Growth of a collection's cost: whole chains over lakes of 2, 5, 10 and 20 million objects.

The lakes have real metadata and no objects (`scale_lake`, `scale_store`), so the figures are of Dredge
without a store. Requests are counted as a store would receive them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.collect import lakefs_process
from benchmarks.scale_lake import REPOSITORY, ScaleLake
from benchmarks.tables import STEPS, surroundings, table
from dredge.gc.mark_uncommitted.kv_store import URL as KV_URL

SPREAD = ("slice_listing", "list_committed", "subtract", "bulk_delete")
"""Steps that use all cores."""
PAGE_SECONDS = 0.05
"""Seconds for a page of 1,000 names on a store such as S3."""
PAGES_AT_ONCE_A_CORE = 4

type Row = dict[str, Any]


def run(sizes: Sequence[int], processes: int = 2) -> Iterator[Row]:
    """Measure a whole chain on each size and yield a row each.

    Args:
        sizes: numbers of objects.
        processes: of the runner.
    """
    for objects in sizes:
        lake = ScaleLake(objects)
        lake.make()
        lake.restore()
        serve = ["--data", str(lake.folder), "--kv", lake.kv_url]
        with lakefs_process(serve, {}) as (env, server):
            command = [
                sys.executable,
                "-m",
                "benchmarks.scale_run",
                str(objects),
                str(processes),
                str(server),
            ]
            env |= {KV_URL: lake.kv_url}
            done = subprocess.run(
                command, env=os.environ | env, stdout=subprocess.PIPE, text=True, check=False
            )
        if done.returncode:
            raise SystemExit(f"the run over {objects:,} objects of {REPOSITORY} failed")
        found = lake.check()
        if found["lost"] or found["missed"]:
            raise SystemExit(f"the run over {objects:,} objects: {found}")
        yield {
            "objects": objects,
            "processes": processes,
            "steps": json.loads(done.stdout.splitlines()[-1]),
        } | found


def growth(rows: Sequence[Row]) -> str:
    """Return tables of time, memory, bytes and requests a step, by number of objects."""
    parts = [surroundings()]
    for title, name in (
        ("Seconds", "seconds"),
        ("CPU seconds", "cpu_seconds"),
        (
            "CPU seconds of the embedded lakeFS, which reads ranges more slowly than a real one",
            "server_cpu_seconds",
        ),
        ("Most memory of all processes, MiB", "peak_mib"),
        ("MiB written", "written_mib"),
        ("Requests", "requests"),
    ):
        cells = [
            [f"{row['objects']:,}", *(row["steps"][step][name] for step in STEPS), _sum(row, name)]
            for row in rows
        ]
        parts += [f"{title}:", table(["objects", *STEPS, "most" if name == "peak_mib" else "all"], cells)]
    return "\n\n".join(parts)


def need(rows: Sequence[Row]) -> str:
    """Return the needs of larger repositories by number of cores, with the formula."""
    spread, alone = (_slope(rows, steps, "cpu_seconds") for steps in (SPREAD, _others()))
    written = _slope(rows, STEPS, "written_mib")
    cells = []
    for objects in (10**8, 10**9):
        for cores in (2, 8, 32, 128):
            millions, pages = objects / 1e6, objects / 1000
            listing = pages * PAGE_SECONDS / (cores * PAGES_AT_ONCE_A_CORE)
            hours = (millions * (spread / cores + alone) + listing) / 3600
            cells.append([f"{objects:,}", cores, f"{hours:.1f}", f"{millions * written / 1024:.0f}"])
    formula = (
        f"hours = (M · ({spread:.2f} / cores + {alone:.2f}) + pages · {PAGE_SECONDS} / (cores ·"
        f" {PAGES_AT_ONCE_A_CORE})) / 3600, where M is millions of objects and a page has 1,000 of them. The first"
        f" number is the CPU seconds of the spread steps ({', '.join(SPREAD)}) for a million objects, the second that"
        " of the others; the last term is what a store's pages take."
    )
    return f"{formula}\n\n{table(['objects', 'cores', 'hours', 'GiB written'], cells)}"


def _others() -> tuple[str, ...]:
    return tuple(step for step in STEPS if step not in SPREAD)


def _slope(rows: Sequence[Row], steps: Iterable[str], name: str) -> float:
    """Return the growth of some steps' figure for a million objects."""
    chosen = tuple(steps)
    millions = [row["objects"] / 1e6 for row in rows]
    values = [sum(row["steps"][step][name] for step in chosen) for row in rows]
    if len(rows) == 1:
        return float(values[0] / millions[0])
    return max(0.0, float(np.polyfit(millions, values, 1)[0]))


def _sum(row: Row, name: str) -> float:
    values = [row["steps"][step][name] for step in STEPS]
    return round(max(values) if name == "peak_mib" else sum(values), 1)
