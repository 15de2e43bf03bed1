"""Growth of a collection's cost: whole chains over lakes of 1 to 100 million objects, in one machine or on a cluster.

The lakes have real metadata and no objects (`scale_lake`, `scale_store`), so the figures are of Dredge
without a store. Requests are counted as a store would receive them. The figures of each step are kept in
`.dredge/bench/scale/results`, so that an interrupted measurement continues with the missing steps.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from airflow_dredge.operators.spark_master import SMALL_MALLOC
from benchmarks.collect import lakefs_process
from benchmarks.latency import LATENCY, behind
from benchmarks.s3_store import ROOT
from benchmarks.scale_lake import FOLDER, ScaleLake
from benchmarks.scale_result import Result
from benchmarks.tables import STEPS, revision, surroundings, table
from dredge.gc.mark_uncommitted.kv_store import URL as KV_URL

SPREAD = ("slice_listing", "list_committed", "subtract", "bulk_delete")
"""Steps that use all cores, in Airflow those on Spark."""
PAGE_SECONDS = 0.05
"""Seconds for a page of 1,000 names on a store such as S3."""
PAGES_AT_ONCE_A_CORE = 4
RATIO_MAX = 1.15
"""Of the cost of an object to that in the next smaller lake."""
_MEMORY = "peak_mib"
FIGURES = {
    "seconds": "Seconds",
    "cpu_seconds": "CPU seconds, without those of the made-up store",
    "made_up_cpu_seconds": "CPU seconds of the made-up store in these processes",
    "server_cpu_seconds": "CPU seconds of the embedded lakeFS",
    _MEMORY: "Most memory of all processes, MiB",
    "read_mib": "MiB read",
    "written_mib": "MiB written",
    "requests": "Requests",
}
_BOUND = ("cpu_seconds", _MEMORY, "read_mib", "written_mib", "requests")

type Row = dict[str, Any]


def run(
    sizes: Sequence[int], processes: int = 2, workers: int = 0, again: bool = False, keep: bool = False
) -> Iterator[Row]:
    """Measure a whole chain on each size, or the rest of one, and yield a row each.

    Args:
        sizes: numbers of objects.
        processes: of the runner.
        workers: of a Spark standalone cluster in place of the processes, with a slot each; 0 for none.
        again: measure also complete sizes.
        keep: leave the files of the run.
    """
    delay = float(os.environ.get(LATENCY, "0"))
    how = f"{workers} workers, {delay:g} ms" if workers else f"{processes} processes"
    for objects in sizes:
        path, lake = FOLDER / "results" / f"{objects}, {how}.json", ScaleLake(objects)
        result = None if again else Result.read(path)
        if result is None or not result.run_uri:
            lake.make()
            if workers:
                lake.fill_ranges()  # the store's work belongs to another machine
            lake.restore()
            result = Result(revision())
            result.write(path)
        if not result.found:
            with _cluster(workers) if workers else nullcontext(_Spread(str(processes))) as spread:
                _run(lake, path, spread)
            result = Result.read(path)
            assert result is not None
            result.found = lake.check()
            if result.found["lost"] or result.found["missed"]:
                raise SystemExit(f"the run over {objects:,} objects: {result.found}")
            result.write(path)
            if not keep:
                lake.restore()
        yield {"objects": objects, "workers": workers, "latency_ms": delay} | asdict(result)


@dataclass(frozen=True)
class _Spread:
    """What the tasks of a run are spread over.

    Attributes:
        master: number of processes, or URL of a Spark cluster.
        environ: environment variables of the driver.
        pids: processes of the cluster's workers, by name.
    """

    master: str
    environ: dict[str, str] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)


@contextmanager
def _cluster(workers: int) -> Iterator[_Spread]:
    """Run a Spark standalone cluster."""
    from tests.support.spark import SparkCluster

    conf = {"spark.executorEnv.PYTHONPATH": ROOT, "spark.executor.memory": "1g", "spark.driver.memory": "1g"}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    environ = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"])}
    with (
        TemporaryDirectory(prefix="dredge-cluster-") as folder,
        SparkCluster(Path(folder), workers) as cluster,
    ):
        pids = {f"worker {number}": pid for number, pid in enumerate(cluster.workers, 1)}
        yield _Spread(f"spark://127.0.0.1:{cluster.port}", environ, pids)


def _run(lake: ScaleLake, path: Path, spread: _Spread) -> None:
    serve = ["--data", str(lake.folder), "--kv", lake.kv_url]
    program = (sys.executable, "-m", "benchmarks.scale_server")
    with lakefs_process(serve, {}, program) as (direct, server), behind(direct) as (environ, _):
        pids = json.dumps({"server": server, **spread.pids})
        words = [str(lake.objects), str(path), spread.master, pids]
        command = [sys.executable, "-m", "benchmarks.scale_run", *words]
        environ |= SMALL_MALLOC | {KV_URL: lake.kv_url} | spread.environ
        done = subprocess.run(command, env=os.environ | environ, check=False)
    if done.returncode:
        raise SystemExit(f"the run over {lake.objects:,} objects failed; the same command continues it")


def growth(rows: Sequence[Row]) -> str:
    """Return tables of the cost of each step by number of objects, each with the ratio of neighbours."""
    parts = [surroundings()]
    for name, title in FIGURES.items():
        totals = [_total(row, name) for row in rows]
        ratios = ["", *(f"{_ratio(*pair, name):.2f}" for pair in pairwise(rows))]
        cells = [
            [f"{row['objects']:,}", *(row["steps"][step][name] for step in STEPS), total, ratio]
            for row, total, ratio in zip(rows, totals, ratios, strict=True)
        ]
        whole = "most" if name == _MEMORY else "all"
        parts += [f"{title}:", table(["objects", *STEPS, whole, "an object, to the row above"], cells)]
    return "\n\n".join([*parts, _describe_bends(rows), *_origins(rows)])


def bends(rows: Sequence[Row]) -> list[tuple[str, str, int, float]]:
    """Return figures that grow faster than the number of objects: name, step, objects, ratio of an object's to that in
    the lake before. Steps with less than a twentieth of the whole are left out.
    """
    found = []
    for (before, row), name, step in product(pairwise(rows), _BOUND, ("all", *STEPS)):
        ratio = _ratio(before, row, name, step)
        if ratio > RATIO_MAX and _value(row, name, step) > _total(row, name) / 20:
            found.append((name, step, row["objects"], ratio))
    return found


def _describe_bends(rows: Sequence[Row]) -> str:
    texts = [
        f"{FIGURES[name].partition(',')[0]} of {step} at {objects:,}: {ratio:.2f}"
        for name, step, objects, ratio in bends(rows)
    ]
    return f"An object costs more than {RATIO_MAX} times as much as in the row above: {'; '.join(texts) or 'nowhere'}."


def _origins(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the revisions of rows, and interrupted steps."""
    names = [f"{row['objects']:,}" + (f" with {row['workers']}" if row["workers"] else "") for row in rows]
    if len({row["revision"] for row in rows}) > 1:
        found = (f"{name} {row['revision']}" for name, row in zip(names, rows, strict=True))
        yield f"Revisions: {', '.join(found)}."
    for name, row in zip(names, rows, strict=True):
        if row["continued"]:
            yield f"{name}: {row['continued'][0]} was interrupted, and its figures are of the rest."


def by_workers(rows: Sequence[Row]) -> str:
    """Return a table of runs on a cluster, and the ratio of their wall times."""
    head = ["workers", "objects", "ms a request", "wall s", *(f"{step} s" for step in STEPS), "CPU s"]
    head += ["driver MiB", "largest worker MiB", "requests"]
    cells = []
    for row in rows:
        peaks = [found["peak_mib_by_tree"] for found in row["steps"].values()]
        driver = max(found["run"] for found in peaks)
        worker = max(size for found in peaks for tree, size in found.items() if tree != "run")
        figures = [_total(row, name) for name in ("seconds", "cpu_seconds", "requests")]
        steps = (row["steps"][step]["seconds"] for step in STEPS)
        names = [row["workers"], f"{row['objects']:,}", f"{row['latency_ms']:g}"]
        cells.append([*names, figures[0], *steps, figures[1], driver, worker, figures[2]])
    parts = [surroundings(), table(head, cells)]
    for one, more in pairwise(rows):
        whole = _total(one, "seconds") / _total(more, "seconds")
        spread = [sum(row["steps"][step]["seconds"] for step in SPREAD) for row in (one, more)]
        parts.append(
            f"Wall of {one['workers']} : {more['workers']} workers: {whole:.2f}; of the steps on Spark"
            f" ({', '.join(SPREAD)}): {spread[0] / spread[1]:.2f}."
        )
    return "\n\n".join([*parts, *_origins(rows)])


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


def _ratio(before: Row, row: Row, name: str, step: str = "all") -> float:
    """Return the ratio of a figure of an object in two lakes."""
    one, other = (_value(found, name, step) / int(found["objects"]) for found in (before, row))
    return other / max(one, 1e-12)


def _value(row: Row, name: str, step: str) -> float:
    return _total(row, name) if step == "all" else float(row["steps"][step][name])


def _total(row: Row, name: str) -> float:
    values = [row["steps"][step][name] for step in STEPS]
    total = max(values) if name == _MEMORY else sum(values)
    return total if isinstance(total, int) else round(float(total), 1)
