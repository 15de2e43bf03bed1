"""`./run demo trash`: every kind of trash in lakeFS's key-value store, found, removed and restored beside a
server.
"""

import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import lakefs
from lakefs.client import Client

from demo.trash_database import At, make_server, running_postgres
from demo.trash_kinds import DAYS_AGO, Ground, plant
from demo.trash_proof import (
    Reads,
    Users,
    count_bytes,
    draw,
    missing,
    put,
    read_everything,
    tabulate,
    work_through,
)
from dredge.kv.opening import open_row_cleaner
from dredge.kv.rows import Row, RowCleaner, show
from dredge.storage import open_writer
from dredge.trash.findings import KINDS, TrashFinding, TrashLimits, TrashMargins
from dredge.trash.restore import restore, unqueue
from dredge.trash.state import TrashState
from dredge.trash.steps import CleanReport, clean
from lakefs_embedded.catalog import Settings
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server import ServerSettings, ThreadedServer

GRACE_SECONDS = 3.0
OLD, NEW, AGAIN = "archive", "shop", "bazaar"
_HEAD = ("kind", "what", "rows", "bytes", "verdict", "why")


@dataclass
class Installation:
    """A lakeFS installation with a current server, and the cleaner.

    Args:
        folder: of the demo.
        server: current server; hands deleted repositories over, as in the design's step 2.
        kv: the store, without the server.
        rows: the cleaner's access to the store.
    """

    folder: Path
    server: ThreadedServer
    kv: Store
    rows: RowCleaner

    def __post_init__(self) -> None:
        """Open a client, and the cleaner's state folder."""
        self.client = Client(
            host=self.server.endpoint,
            username=self.server.access_key_id,
            password=self.server.secret_access_key,
        )
        self.ground = Ground(self.kv, self.rows, self.namespace)
        self.state = TrashState(open_writer(f"file://{self.folder}/state"))
        # Only the grace is shortened: the old rows were written with a server clock of days ago.
        self.margins = replace(
            TrashMargins(),
            grace=timedelta(seconds=GRACE_SECONDS),
            unnamed=timedelta(seconds=GRACE_SECONDS),
            unsafe_short_grace=True,
        )

    def namespace(self, name: str) -> str:
        """Return the storage namespace of a repository."""
        return f"local://{self.folder}/lakefs/objects/{name}"

    def clean(self, *, dry_run: bool) -> CleanReport:
        """Scan, and remove trash after its grace."""
        return clean(
            self.rows,
            self.state,
            clock=now,
            margins=self.margins,
            limits=TrashLimits(),
            dry_run=dry_run,
        )


def trash_demo(folder: Path) -> bool:
    """Create trash, scan, clean, verify, restore; return whether all checks passed.

    Args:
        folder: emptied first; for objects and the cleaner's state. The database is removed at the end.
    """
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with running_postgres() as url, open_store(url) as kv:
        settings = ServerSettings.for_folder(
            folder / "lakefs", kv_url=url, catalog=Settings(life_cycle="step-2")
        )
        rows = open_row_cleaner(url)
        try:
            with ThreadedServer(settings) as server:
                problems = tell(Installation(folder, server, kv, rows))
        finally:
            rows.close()
    for problem in problems[:20]:
        say(f"   WRONG {problem}")
    say(f"\n{'FAILED' if problems else 'PASSED'} after {time.monotonic() - started:.0f} s")
    return not problems


def tell(lake: Installation) -> list[str]:
    """Run the demo, and return the failed checks."""
    ground = lake.ground
    names = live(lake)
    say(f"1. A lakeFS on PostgreSQL at {lake.server.endpoint}, with the repositories {', '.join(names)}")
    handed_over(lake)
    plant(ground, OLD, AGAIN)
    before = read_everything(lake.client, names)
    say(
        f"2. Trash of {len(KINDS)} kinds, left {DAYS_AGO:g} days ago by servers that died, lost a race or deleted,"
        "\n   and beside it what a careless cleaner would take"
    )
    say(
        f"3. First scan, a dry run, in the middle of a reset of {OLD}/resetting.\n   The grace period is"
        f" {GRACE_SECONDS:g} seconds here instead of 24 hours: never do that where data counts\n"
    )
    first = look_during_reset(lake, before)
    say(draw(summary(first.scan.findings), _HEAD))
    users = Users(lake.client, [(NEW, "main"), (AGAIN, "main"), (OLD, "sealed"), (OLD, "queued")])
    users.start()
    time.sleep(GRACE_SECONDS + 0.2)
    rows = ground.all_rows()
    say("\n4. Second scan, a grace period later, and the clean, while others upload\n")
    report = lake.clean(dry_run=False)
    users.stop()
    problems = check_clean(lake, report, rows) + users.problems + check_reset(lake, first, report)
    freed = unqueue(lake.rows, lake.state, clock=now, dry_run=False)
    say(f"   Removed from the server's drop queue, because a branch uses it: {len(freed)} token")
    problems += prove(lake, names, before | users.written, len(users.written))
    problems += undo(lake, report, rows)
    return problems


def live(lake: Installation) -> list[str]:
    """Create live repositories with branches, tags, committed and staged objects."""
    lake.ground.create(lake.ground.server(), OLD)
    for name in (NEW, AGAIN):
        lakefs.Repository(name, lake.client).create(storage_namespace=lake.namespace(name))
    for name in (OLD, NEW, AGAIN):
        repository = lakefs.Repository(name, lake.client)
        for number in range(8):
            put(lake.client, name, "main", f"committed/{number}", f"{name} {number}".encode())
        commit = repository.branch("main").commit(message="first")
        repository.tag("v1").create(commit.id)
        repository.branch("topic").create("main")
        for branch in ("main", "topic"):
            for number in range(4):
                put(
                    lake.client,
                    name,
                    branch,
                    f"staged-{branch}/{number}",
                    f"{name} {branch} {number}".encode(),
                )
    repository = lakefs.Repository(OLD, lake.client)
    repository.branch("resetting").create("v1")
    put(lake.client, OLD, "resetting", "committed/0", b"about to be reset")
    return [OLD, NEW, AGAIN]


def handed_over(lake: Installation) -> None:
    """Delete a repository through today's server, which hands it to the cleaner."""
    repository = lakefs.Repository("handed", lake.client)
    repository.create(storage_namespace=lake.namespace("handed"))
    put(lake.client, "handed", "main", "a", b"committed")
    repository.branch("main").commit(message="once")
    found = lake.server.catalog.repositories.get_repository("handed")
    repository.delete()
    why = "deleted as in step 2 of lakeFS's design"
    lake.ground.say(found.partition, None, "deleted-repository", "trash", why)
    key = f"repo/handed/{found.instance_uid}".encode()
    lake.ground.say(b"graveler_deleted", key, "deleted-repository", "trash", "hands that repository over")


def look_during_reset(lake: Installation, before: Reads) -> CleanReport:
    """Scan during a reset by prefix, between its rows and the update of the branch."""
    looks: list[CleanReport] = []
    naming = At("set_if", key=b"branches/resetting")

    def look(operation: str, partition: bytes, key: bytes) -> None:
        if naming.is_it(operation, partition, key):
            looks.append(lake.clean(dry_run=True))

    make_server(lake.kv, watch=look).branches.reset_branch(
        OLD, "resetting", kind="common_prefix", path="committed/"
    )
    before[OLD, "resetting", "committed/0"] = before[OLD, "v1", "committed/0"]  # the effect of the reset
    return looks[0]


def check_clean(lake: Installation, report: CleanReport, before: set[Row]) -> list[str]:
    """Print the outcome of every row, and compare it with the expected one."""
    after = lake.ground.all_rows()
    planted = lake.ground.planted
    lines = tabulate(planted, report.scan.findings, before, after)
    say(draw((line.cells for line in lines), _HEAD))
    problems = [f"{line.kind} ({line.why}): {line.verdict}" for line in lines if not line.right]
    lost = missing(planted, before, after)
    problems += [f"{show(row.partition)} · {show(row.key)} is missing or changed" for row in sorted(lost)]
    unshown = set(KINDS) - {each.kind for each in planted if each.removed}
    problems += [f"no {kind} was made" for kind in sorted(unshown)]
    due = {(each.partition, each.key) for each in planted}
    problems += [
        f"{finding.name} is trash ({finding.kind}), but was not planted"
        for finding in report.scan.plan.findings
        if (finding.partition, finding.key) not in due
    ]
    if report.status != "done":
        problems.append(f"the clean ended as {report.status}: {report.message}")
    kept = len(before) - report.rows_removed
    say(
        f"\n   {report.rows_removed:,} rows removed, {kept - len(lost):,} others are unchanged, byte for byte"
    )
    say(f"   Report: file://{lake.folder}/state/runs/{report.scan.plan.run_id}/report.html")
    return problems


def check_reset(lake: Installation, first: CleanReport, second: CleanReport) -> list[str]:
    """Check that the reset's token was an orphan in the first scan only, and is the branch's token now."""
    branch = lake.server.catalog.branches.get_branch(OLD, "resetting")
    looks = [
        {finding.partition for finding in look.scan.findings if finding.kind == "staging-orphan"}
        for look in (first, second)
    ]
    named = {token.encode() for token in branch.tokens}
    if not named & looks[0] or named & looks[1]:
        return ["the token of the running reset is not an orphan in the first scan only"]
    say(f"   {show(min(named & looks[0]))}, an orphan in the first scan, belongs to the reset: kept")
    return []


def prove(lake: Installation, names: list[str], due: Reads, uploads: int) -> list[str]:
    """Read everything through the SDK, then use every repository; freed names too."""
    after = read_everything(lake.client, names)
    lost = [
        f"{'/'.join(at)} has other content: {after.get(at)}"
        for at, digest in due.items()
        if after.get(at) != digest
    ]
    held = len(due) - len(lost)
    say(
        f"\n5. Read back through the SDK: {held:,} of {len(due):,} objects, {uploads:,} written during the clean"
    )
    for name in ("half-made", "bygone", "handed"):
        space = lake.namespace(f"{name}-again")
        lakefs.Repository(name, lake.client).create(storage_namespace=space)
    problems = work_through(lake.client, [*names, "half-made", "bygone", "handed"])
    if not problems:
        say(
            f"   Every branch of {', '.join(names)} took a commit and was merged; deleted names are free again"
        )
    return lost + problems


def undo(lake: Installation, report: CleanReport, before: set[Row]) -> list[str]:
    """Restore one partition from the undo file."""
    run_id = report.scan.plan.run_id
    chosen = next(each for each in lake.ground.planted if each.removed and each.kind == "staging-orphan")
    due = chosen.select_rows(before)
    restore(lake.rows, lake.state, run_id, partitions=[chosen.partition], dry_run=False)
    back = chosen.select_rows(lake.ground.all_rows())
    if back != due:
        return [f"{len(back & due):,} of {len(due):,} rows of {show(chosen.partition)} were restored"]
    say(
        f"6. Restored from the undo file: {show(chosen.partition)}, {len(due):,} rows, {count_bytes(due):,} bytes,"
    )
    say("   equal to the last byte")
    return []


def summary(findings: Iterable[TrashFinding]) -> list[tuple[str, ...]]:
    """Return the findings of a scan as table lines: trash first, then waiting, then for a person."""
    groups: dict[tuple[str, str, str], list[TrashFinding]] = {}

    def order(finding: TrashFinding) -> tuple[int, str]:
        return ("trash", "wait", "report").index(finding.verdict), finding.kind

    for finding in sorted(findings, key=order):
        groups.setdefault((finding.kind, finding.verdict, finding.why), []).append(finding)
    return [
        (
            kind,
            f"{len(found)} {'partition' if found[0].key is None else 'key'}{'s' if len(found) > 1 else ''}",
            f"{sum(finding.rows for finding in found):,}",
            f"{sum(finding.size_bytes for finding in found):,}",
            verdict,
            why,
        )
        for (kind, verdict, why), found in groups.items()
    ]


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def say(text: str) -> None:
    """Print a line of the demo."""
    click.echo(text)
    sys.stdout.flush()
