"""`./run bench`: generate repositories, run collections, print their cost."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import click

from benchmarks import tables
from benchmarks.cloud_store import CLOUDS
from benchmarks.collect import ENGINES, run
from benchmarks.lakes import STORES
from benchmarks.latency import LATENCY
from benchmarks.server import USERS
from benchmarks.server import run as run_server
from benchmarks.shapes import SHAPES

KVS = {"yes": (True,), "no": (False,), "both": (False, True)}

_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a run instead of tables.")
_latency = click.option(
    "--latency-ms",
    type=click.FloatRange(0),
    multiple=True,
    help="Delay of each request to the S3 store and the lakeFS server; repeatable.",
)
_before = click.option(
    "--before", type=click.File(), help="Rows of another revision (`--json`), for the tables."
)
_table = click.option("--write", is_flag=True, help="Put the tables into benchmarks/README.md.")


@click.group()
def main() -> None:
    """Measure Dredge on generated repositories; every figure comes from one machine in one run."""
    # SIGTERM also stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@main.command()
@click.option("--shape", "shapes", multiple=True, type=click.Choice(sorted(SHAPES)), default=("b10k",))
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES), default=("floor", "submit"))
@click.option("--store", type=click.Choice((*STORES, *CLOUDS)), default="local", show_default=True)
@click.option("--cold/--no-cold", default=True, show_default=True, help="Run without the committed index.")
@click.option("--warm/--no-warm", default=True, show_default=True, help="Run again with it.")
@click.option(
    "--kv", type=click.Choice(KVS), default="yes", show_default=True, help="Read the staging records."
)
@click.option(
    "--airflow/--no-airflow", default=True, show_default=True, help="Run submit and connect in the DAG."
)
@click.option(
    "--times",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Run each engine so many times, in turns with the bare client; the middle ratio counts.",
)
@_latency
@_before
@_json
@_table
def gc(
    shapes: tuple[str, ...],
    engines: tuple[str, ...],
    store: str,
    cold: bool,
    warm: bool,
    kv: str,
    airflow: bool,
    times: int,
    latency_ms: tuple[float, ...],
    before: TextIO | None,
    as_json: bool,
    write: bool,
) -> None:
    """Collect generated repositories on a local folder, or on a temporary store.

    First a bare client does the same work on the same store: list, scan, fetch, decode, subtract, delete. The
    figures of each run are ratios to it.

    \b
    bare     that client alone
    floor    our steps in one process
    local    our steps with two processes
    worker   the DAG with its defaults: steps below `spark_rows_min` run in the Airflow worker
    submit   the DAG, every spread step on Spark, with one application a run through spark-submit
    connect  the same, with a running Spark Connect server
    """
    rounds = tuple(chosen for chosen, wanted in ((False, cold), (True, warm)) if wanted)

    def measure() -> Iterable[dict[str, Any]]:
        return run(store, shapes, engines, rounds, KVS[kv], airflow, times)

    _tell("gc", measure, latency_ms, before, as_json, write)


@main.command()
@click.option("--clients", default=8, show_default=True, help="Connections at once.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of each load.")
@click.option("--user", "users", multiple=True, type=click.Choice(USERS), default=USERS)
def server(clients: int, seconds: float, users: tuple[str, ...]) -> None:
    """Upload to and stat from the embedded lakeFS: requests a second."""
    click.echo(f"{'user':>10} {'load':>8} {'a second':>10} {'median ms':>10} {'p99 ms':>10} {'cpu us':>8}")
    for load in run_server(clients, seconds, users):
        click.echo(
            f"{load.user:>10} {load.name:>8} {load.rate:>10,.0f} {load.median_ms:>10.2f} {load.p99_ms:>10.2f} "
            f"{load.cpu_us:>8.0f}"
        )


@main.command()
@click.option("--store", type=click.Choice(STORES), default="local", show_default=True)
@click.option("--shape", "shapes", multiple=True, type=click.Choice(sorted(SHAPES)), default=("b10k",))
@click.option("--engine", type=click.Choice(ENGINES), default="floor", show_default=True)
@click.option(
    "--changed", multiple=True, type=int, help="Objects uploaded between the runs; default one percent."
)
@click.option("--kv/--no-kv", "with_kv", default=True, show_default=True, help="Read the staging records.")
@_latency
@_before
@_json
@_table
def optimized(
    store: str,
    shapes: tuple[str, ...],
    engine: str,
    changed: tuple[int, ...],
    with_kv: bool,
    latency_ms: tuple[float, ...],
    before: TextIO | None,
    as_json: bool,
    write: bool,
) -> None:
    """Change a part of a repository, and compare an optimized run with a clean one."""
    from benchmarks.optimized import run as run_optimized

    def measure() -> Iterable[dict[str, Any]]:
        return run_optimized(store, shapes, engine, changed or (None,), with_kv)

    _tell("optimized", measure, latency_ms, before, as_json, write)


@main.command()
@click.option(
    "--millions",
    multiple=True,
    type=float,
    default=(1, 3),
    show_default=True,
    help="Millions of objects; repeatable.",
)
@click.option("--processes", default=2, show_default=True, help="Processes of the distributed steps.")
@click.option(
    "--workers",
    multiple=True,
    type=click.IntRange(1, 2),
    help="Instead: workers of a Spark standalone cluster, with a slot each; repeatable.",
)
@click.option("--again", is_flag=True, help="Measure complete sizes again.")
@_latency
@_table
def scale(
    millions: tuple[float, ...],
    processes: int,
    workers: tuple[int, ...],
    again: bool,
    latency_ms: tuple[float, ...],
    write: bool,
) -> None:
    """Collect lakes with millions of objects (metadata only), and print the growth of the cost.

    The figures of each step are kept in .dredge/bench/scale/results: the same command continues after an
    interruption, and only prints complete sizes.
    """
    from benchmarks import scale as measured

    sizes = sorted(round(count * 1_000_000) for count in millions)
    if latency_ms:
        os.environ[LATENCY] = str(max(latency_ms))
    rows = []
    for found in [measured.run(sizes, processes, count, again) for count in sorted(workers) or (0,)]:
        for row in found:
            rows.append(row)
            click.echo(json.dumps(row), err=True)
    if workers:
        texts = [("scale-cluster", measured.by_workers(rows), tables.README)]
    else:
        texts = [("scale", measured.growth(rows), tables.README), ("need", measured.need(rows), tables.SCALE)]
    for name, text, page in texts:
        click.echo(text + "\n")
        if write:
            tables.write(name, text, page)


@main.command()
@click.option("--snapshots", default=1_000, show_default=True)
@click.option("--references", default=50, show_default=True, help="Of each snapshot's own manifest.")
@click.option("--own", default=20, show_default=True, help="Of these, to new chunks.")
@click.option("--changed", default=20, show_default=True, help="New commits, and as many expired ones.")
@click.option("--library-minutes", default=30.0, show_default=True, help="Timeout of the library.")
@_latency
@_before
@_json
@_table
def icechunk(
    snapshots: int,
    references: int,
    own: int,
    changed: int,
    library_minutes: float,
    latency_ms: tuple[float, ...],
    before: TextIO | None,
    as_json: bool,
    write: bool,
) -> None:
    """Collect an Icechunk repository on S3, clean, optimized, and with the library."""
    from benchmarks.icechunk_change import compare, tell

    def measure() -> Iterable[dict[str, Any]]:
        return compare(snapshots, references, own, changed, library_minutes * 60)

    _tell("icechunk", measure, latency_ms or (0.0,), before, as_json, write, tell)


@main.command()
@_before
@_json
@_table
def start(before: TextIO | None, as_json: bool, write: bool) -> None:
    """Measure the cost of commands on tiny repositories."""
    from benchmarks import start as measured

    rows = [json.loads(line) for line in before or () if line.startswith("{")]
    for row in measured.run():
        rows.append(row | {"revision": tables.revision()})
        click.echo(json.dumps(rows[-1]), err=not as_json)
    if not as_json:
        click.echo(measured.compare(rows))
    if write:
        tables.write("start", measured.compare(rows))


@main.command()
@click.option("--store", type=click.Choice(STORES), default="local", show_default=True)
@click.option("--write", is_flag=True, help="Put the table into benchmarks/README.md.")
def suspects(store: str, write: bool) -> None:
    """Measure the cost of checking candidates that a branch may read."""
    from benchmarks import suspects as measured

    rows = []
    for row in measured.run(store):
        rows.append(row)
        click.echo(tables.line(row), err=True)
    text = measured.whole(rows)
    click.echo(text)
    if write:
        tables.write("suspects", text)


@main.command()
@click.option("--objects", default=500_000, show_default=True, help="Objects of the collected lake.")
@click.option(
    "--rows", default=0, help="Number of candidates and ledger rows to generate for a small run instead."
)
@click.option("--people", default=20, show_default=True, help="Parallel users; 0 skips this measurement.")
@click.option("--kept", is_flag=True, help="Reuse the last run.")
@click.option("--write", is_flag=True, help="Put the table into benchmarks/README.md.")
def pages(objects: int, rows: int, people: int, kept: bool, write: bool) -> None:
    """Measure the response times of the pages of a large run."""
    from benchmarks import pages as measured

    text = measured.measure(objects, rows, people, kept)
    click.echo(text)
    if write:
        tables.write("pages", text)


def _tell(
    name: str,
    measure: Callable[[], Iterable[dict[str, Any]]],
    latency_ms: Sequence[float],
    before: TextIO | None,
    as_json: bool,
    write: bool,
    by_latency: Callable[[Sequence[dict[str, Any]]], str] = tables.by_latency,
) -> None:
    """Print rows as they arrive, then the tables; write them into the README if asked to."""
    found = [json.loads(line) for line in before or () if line.startswith("{")]
    for milliseconds in latency_ms or (None,):
        if milliseconds is not None:
            os.environ[LATENCY] = str(milliseconds)
        for row in measure():
            found.append(row | {"revision": tables.revision()})
            click.echo(json.dumps(found[-1]) if as_json else _line(row), err=not as_json)
    if latency_ms:
        name, text = f"{name}-latency", by_latency(found)
    else:
        name, text = f"{name}-before" if before else name, tables.whole(found)
    if not as_json:
        click.echo(text)
    if write:
        tables.write(name, text)


def _line(row: dict[str, Any]) -> str:
    return tables.line(row) if "engine" in row else json.dumps(row)


if __name__ == "__main__":
    main()
