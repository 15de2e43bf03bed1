"""`./run demo`: creates a lake, collects it with Airflow and Spark, and verifies the result."""

import json
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click
from lakefs.client import Client

from demo import airflow, proof
from demo.kinds import plant_all, young
from demo.lake import Lake
from demo.stores import STORES, open_store

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "demo"
MIN_AGE_SECONDS = 60
GRACE_SECONDS = 1


@click.group(invoke_without_command=True)
@click.option("--scale", default=1.0, show_default=True, help="Factor on the number of objects.")
@click.option("--dry-run", is_flag=True, help="Plan and report, delete nothing.")
@click.option(
    "--store", type=click.Choice(STORES), default="local", show_default=True, help="Object store of the lake."
)
@click.pass_context
def main(context: click.Context, scale: float, dry_run: bool, store: str) -> None:
    """Show Dredge on a lake with every kind of garbage."""
    if context.invoked_subcommand is None:
        sys.exit(0 if lakefs_demo(scale, dry_run, store) else 1)


@main.command("icechunk")
def icechunk_command() -> None:
    """Expire and collect the design document's sample as an Icechunk repository; needs no Airflow."""
    from demo.icechunk import icechunk_demo

    sys.exit(0 if icechunk_demo(STATE.parent / "demo-icechunk") else 1)


@main.command("trash")
def trash_command() -> None:
    """Create every kind of trash in a lakeFS on PostgreSQL, clean it, and verify; needs no Airflow."""
    from demo.trash import trash_demo

    sys.exit(0 if trash_demo(STATE.parent / "demo-trash") else 1)


@main.command("races")
def races_command() -> None:
    """Show step by step how designs with immediate deletion lose data, and why the offline rules exist."""
    from demo.races import races_demo

    sys.exit(0 if races_demo(say) else 1)


def say(text: str) -> None:
    """Print a line of the demo."""
    click.echo(text)
    sys.stdout.flush()


def lakefs_demo(scale: float, dry_run: bool, store: str = "local") -> bool:
    """Run the lakeFS demo from an empty folder to the verdict.

    Args:
        scale: factor on the number of objects.
        dry_run: delete nothing.
        store: one of STORES; all but `local` are emulators for the duration of the demo.
    """
    from lakefs_embedded.server import ServerSettings, ThreadedServer

    started = time.monotonic()
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    folder = STATE / "lakefs"
    with ExitStack() as stack:
        place = stack.enter_context(open_store(store, folder / "objects"))
        settings = ServerSettings.for_folder(folder, blockstore=place.blockstore, storage=place.options)
        server = stack.enter_context(ThreadedServer(settings))
        client = Client(
            host=server.endpoint, username=server.access_key_id, password=server.secret_access_key
        )
        say(f"1. An embedded lakeFS at {server.endpoint}, its objects at {place.uri}")
        lake = Lake.create(client, "demo", f"{place.uri}/demo", options=place.options)
        plant_all(lake, scale)
        say(f"2. A lake with {len(lake.planted):,} objects of every kind, garbage among them")
        env = airflow.environment(
            STATE / "airflow",
            server.endpoint,
            server.access_key_id,
            server.secret_access_key,
            place.options,
        )
        planted = time.monotonic()
        airflow.migrate(env)
        before = proof.read_everything(lake)
        time.sleep(max(0.0, MIN_AGE_SECONDS + 2 - (time.monotonic() - planted)))
        conf = {
            "repository": "demo",
            "dry_run": dry_run,
            "unsafe_min_age_seconds": MIN_AGE_SECONDS,
            "unsafe_grace_seconds": GRACE_SECONDS,
            "max_delete_percent": 100,  # most of this lake is garbage, and no approval is possible
            "keep_unnamed_days": 0,  # the files of old commits are new
        }
        say("3. Airflow runs the DAG lakefs_gc, its steps on Spark (log: .dredge/demo/dag.log)")
        with young(lake, 20, MIN_AGE_SECONDS):
            keys = proof.list_keys(lake)
            finished = airflow.run_dag(env, "lakefs_gc", conf, STATE / "first.log")
            deleted_early = keys - proof.list_keys(lake)
            say(f"   The first run only finds candidates: {read_headline(lake)}")
            say(f"4. The second run, at least {GRACE_SECONDS} s later, deletes the candidates of both runs")
            finished = airflow.run_dag(env, "lakefs_gc", conf, STATE / "dag.log") and finished
        if deleted_early:
            say(f"   WRONG: the first run deleted {len(deleted_early):,} objects")
        return verdict(lake, before, finished and not deleted_early, dry_run, started)


def verdict(lake: Lake, before: proof.Reads, finished: bool, dry_run: bool, started: float) -> bool:
    """Print the table, the report's path and the verdict."""
    rows = proof.tabulate(lake.planted, proof.list_keys(lake))
    say("5. Outcome of every object\n\n" + proof.render(rows, dry_run) + "\n")
    lost = proof.unreadable(before, proof.read_everything(lake))
    for line in lost[:20]:
        say(f"   LOST {line}")
    say(f"6. Read back through the SDK: {len(before) - len(lost):,} of {len(before):,} live objects")
    right = not lost and all(row.right or dry_run for row in rows)
    if report := kept_report(lake):
        say(f"   Report: file://{report}")
    outcome, log = (
        "PASSED" if right and finished else "FAILED",
        "" if finished else ": see .dredge/demo/dag.log",
    )
    say(f"\n{outcome} after {time.monotonic() - started:.0f} s{log}")
    return right and finished


def read_headline(lake: Lake) -> str:
    """Return the headline of the newest run's report."""
    keys = [key for batch in lake.store.list("_lakefs/retention/") for key in batch["key"].to_pylist()]
    reports = [key for key in keys if key.endswith("/report.json") and "/unified/" in key]
    return str(json.loads(lake.store.get(reports[0]))["headline"]) if reports else "no report"


def kept_report(lake: Lake) -> Path | None:
    """Copy the run's report beside the log, because the store may be temporary; None without one."""
    keys = [key for batch in lake.store.list("_lakefs/retention/") for key in batch["key"].to_pylist()]
    reports = [key for key in keys if key.endswith("/report.html")]
    if not reports:
        return None
    (STATE / "report.html").write_bytes(lake.store.get(reports[0]))
    return STATE / "report.html"


if __name__ == "__main__":
    main()
