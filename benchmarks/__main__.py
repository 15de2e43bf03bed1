"""`./run bench`: generate repositories, run collections, print what they cost."""

from __future__ import annotations

import json

import click

from benchmarks.collect import ENGINES, run
from benchmarks.lakes import STORES
from benchmarks.server import USERS
from benchmarks.server import run as run_server
from benchmarks.shapes import SHAPES


@click.group()
def main() -> None:
    """Measure Dredge on generated repositories; every figure comes from one machine in one run."""


@main.command()
@click.option("--shape", "shapes", multiple=True, type=click.Choice(sorted(SHAPES)), default=("b10k",))
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES), default=("floor", "submit"))
@click.option("--store", type=click.Choice(STORES), default="local", show_default=True)
@click.option("--cold/--no-cold", default=True, show_default=True, help="Run without the committed index.")
@click.option("--warm/--no-warm", default=True, show_default=True, help="Run again with it.")
@click.option(
    "--kv/--no-kv", "with_kv", default=True, show_default=True, help="Read the staging records of the server."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run instead of a table.")
def gc(
    shapes: tuple[str, ...],
    engines: tuple[str, ...],
    store: str,
    cold: bool,
    warm: bool,
    with_kv: bool,
    as_json: bool,
) -> None:
    """Collect generated repositories on a local folder, or on an S3 server that is started for it.

    Beside each run stands what the store alone takes: one client that lists the same objects one page after the
    other, and that deletes as many as there is garbage.
    """
    rounds = tuple(chosen for chosen, wanted in ((False, cold), (True, warm)) if wanted)
    rows = run(store, list(shapes), list(engines), rounds, with_kv)
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    head = (
        "shape",
        "engine",
        "index",
        "total",
        "cpu_seconds",
        "peak_mib",
        "driver_peak_mib",
        "deleted",
        "missed",
    )
    click.echo(" ".join(f"{name:>15}" for name in (*head, "lost")))
    for row in rows:
        click.echo(" ".join(f"{row[name]!s:>15}" for name in (*head, "lost")))
    for row in rows:
        parts = ", ".join(f"{step} {seconds:.1f}" for step, seconds in row["seconds"].items())
        name = f"{row['shape']} {row['engine']} {row['index']}"
        click.echo(f"{name}: {parts}")
        for step, counts in row["requests"].items():
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            click.echo(f"{name}: requests of {step}: {told}")


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
@click.option("--changed", multiple=True, type=int, default=(0,), help="Objects uploaded; 0 is one percent.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run instead of a table.")
def optimized(
    store: str, shapes: tuple[str, ...], engine: str, changed: tuple[int, ...], as_json: bool
) -> None:
    """Change a part of a repository, and compare an optimized run with a clean one."""
    from benchmarks.optimized import run as run_optimized

    rows = run_optimized(store, list(shapes), engine, list(changed))
    names = ("shape", "mode", "index", "total", "cpu_seconds", "peak_mib", "read_mib", "requests", "deleted")
    for row in rows:
        if as_json:
            click.echo(json.dumps(row))
            continue
        asked = sum(sum(kinds.values()) for kinds in row.get("requests", {}).values())
        click.echo(" ".join(f"{(row | {'requests': asked}).get(name, '')!s:>12}" for name in names))
    for row in rows if not as_json else ():
        parts = ", ".join(f"{step} {seconds:.1f}" for step, seconds in row["seconds"].items())
        click.echo(f"{row['shape']} {row['mode']} {row['index']}: {parts}")


if __name__ == "__main__":
    main()
