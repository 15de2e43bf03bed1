"""Everything that is staged: the server's scans united, until what they gave is proved complete.

    branches → pages until no token → every file of the scan's folder → branches again → proof

A server can lose rows without a sign, so each scan is compared with the branches' own lists of changes, and what it
may have lost is asked for (`proof`). When branches come or go meanwhile, which is when servers lose rows, the scan is
made again first. Rows too many only keep garbage.

Where the plan says so, the staging records are read from lakeFS's key-value store (`kv_records`): they have what the
server does not show, and are the proof. Where the store is proved to be the server's own, as of now, they are
everything, and the server is not asked for a scan. Where `live_source` says so, it is, and both count. In doubt its
scan is proved as without records, which count besides: a copy of the store may lack just what the server's scan lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.config import AUTO
from dredge.gc.mark_uncommitted.extents import Extent
from dredge.gc.mark_uncommitted.kv_records import Records, read_records
from dredge.gc.mark_uncommitted.output import StagedFiles
from dredge.gc.mark_uncommitted.proof import Proof, prove
from dredge.gc.mark_uncommitted.server_scan import ServerScan, scan_server
from dredge.gc.run import Run
from dredge.runs.clock import running_seconds
from dredge.sets.hashes import NONE, Hashes, unite

log = logging.getLogger("dredge")


@dataclass(slots=True)
class Staging:
    """What is staged, as far as it was read.

    Attributes:
        files: the addresses.
        scanned: hashes of those that the server's scans gave; the others only branches or records have.
        server_runs: the server's id of each scan.
        server_files: the server's files: `key`, `rows`, `size_bytes`.
        pages: the server's answers.
        empty_pages: answers that named no location.
        rows: addresses that the scans gave, with repetitions, and those that only the branches showed.
        branches: head by name, at the end.
        heads: every branch with each commit that it was seen at, before, between and after the scans.
        proof: what the branches said about the last scan; None where the records are the proof.
        records: what the key-value store has besides; None where it is not read.
    """

    files: StagedFiles
    scanned: Hashes = field(default_factory=lambda: NONE)
    server_runs: list[str] = field(default_factory=list)
    server_files: list[dict[str, Any]] = field(default_factory=list)
    pages: int = 0
    empty_pages: int = 0
    rows: int = 0
    branches: dict[str, str] = field(default_factory=dict)
    heads: set[tuple[str, str]] = field(default_factory=set)
    proof: Proof | None = None
    records: Records | None = None

    def see_branches(self, run: Run) -> dict[str, str]:
        """List the branches, and add their heads to those that were seen; gives head by name."""
        found = {branch.id: branch.commit_id for branch in run.client.branches(run.plan.repository)}
        if not found:
            raise RefusedError(
                f"lakeFS lists no branches of {run.plan.repository}; every repository has one. Nothing was deleted."
            )
        self.heads.update(found.items())
        return found

    def scan(self, run: Run, deadline: float) -> ServerScan:
        """Have the server scan once more, and add what it gives."""
        scan = scan_server(run, self.files, deadline)
        self.scanned = unite([self.scanned, scan.hashes])
        self.server_runs.append(scan.server_run)
        self.server_files += scan.files
        self.pages += scan.pages
        self.empty_pages += scan.empty_pages
        self.rows += scan.rows
        return scan


def scan_staging(run: Run, where: str) -> Staging:
    """Read everything that is staged: what the key-value store has where the plan says so, and what the server shows
    unless the store is proved to be the server's own, as of now.

    Args:
        run: the run.
        where: folder of the files, in the run folder.

    Raises:
        RefusedError: no proof of completeness within the bounds.
    """
    staging = Staging(StagedFiles(run.folder, where))
    deadline = running_seconds() + run.plan.config.safety.scan_deadline_seconds
    if not run.plan.config.read_kv:
        _scan_until_proved(run, staging, deadline)
        return staging
    if run.plan.config.live_source == AUTO:
        if _read_records_alone(run, staging):
            return staging
        _scan_until_proved(run, staging, deadline)
    else:
        staging.branches = staging.see_branches(run)
        staging.scan(run, deadline)
    staging.records = read_records(run, staging.files, staging.scanned)
    staging.heads |= staging.records.heads | staging.records.standing.heads
    if staging.records.standing.doubt and staging.proof is None:
        # Records of which nobody knows what they lack are no proof of what the server lost.
        _scan_until_proved(run, staging, deadline)
    # Where the records are not exact, branches are asked about the heads of this time, as without records.
    staging.see_branches(run)
    return staging


def _read_records_alone(run: Run, staging: Staging) -> bool:
    """Read the staging records; whether they are proved to be everything.

    Where they are not, what they name is live all the same.
    """
    records = read_records(run, staging.files, NONE)
    staging.heads |= records.heads | records.standing.heads
    if records.standing.doubt:
        log.warning(
            "run %s: lakeFS is asked for its scan of staging: %s", run.plan.run_id, records.standing.doubt
        )
        return False
    staging.records, staging.branches = records, records.branches
    staging.rows = sum(part.rows for part in staging.files.addresses)
    return True


def _scan_until_proved(run: Run, staging: Staging, deadline: float) -> None:
    """Scan until a scan is proved complete, and unite everything that was seen.

    While branches come and go it is scanned again, as long as rounds are left; the last round is proved by asking
    every branch for everything.
    """
    safety = run.plan.config.safety
    give_up_at: int | None = None
    why = ""
    before = staging.see_branches(run)
    log.info(
        "run %s: lakeFS scans staging (branches: %d); usually about 12 ms a branch and more where much is staged,"
        " in pages of a minute at most",
        run.plan.run_id,
        len(before),
    )
    for rounds_left in reversed(range(safety.scan_rounds_max)):
        scan = staging.scan(run, deadline)
        after = staging.see_branches(run)
        moved, before = sorted(after.keys() ^ before.keys()), after
        if moved and rounds_left:
            log.info("branches came or went during the scan (%s …): scanning again", ", ".join(moved[:3]))
            continue
        proof = prove(run, after, staging.scanned, scan.unsafe, bool(moved), give_up_at)
        _add_proof(staging, proof, after)
        if not proof.missing:
            return
        give_up_at, why = proof.too_many, _why(proof, moved, scan.unsafe)
        log.info("the scan is not proved complete (%s): scanning again", why)
    raise RefusedError(
        f"staging of {run.plan.repository} could not be proved complete in {safety.scan_rounds_max} scans. {why}."
        " Nothing was deleted because of it. Run again when fewer branches are made and deleted, or raise"
        f" staged_questions_max ({safety.staged_questions_max:,}) or scan_rounds_max; or name lakeFS's own key-value"
        " store (kv_conn_id): its records are the proof, but not those of a copy."
    )


def _add_proof(staging: Staging, proof: Proof, branches: dict[str, str]) -> None:
    staging.proof, staging.branches = proof, branches
    if proof.addresses:
        staging.files.write(pa.array(sorted(proof.addresses), pa.string()))
        staging.rows += len(proof.addresses)


def _why(proof: Proof, moved: list[str], unsafe: Collection[Extent]) -> str:
    """What called for a proof of the last scan, and why there is none."""
    if moved:
        cause = f"During the last one branches such as {', '.join(moved[:3])} came or went"
    elif proof.lost is not None:
        branch, path, address = proof.lost
        cause = f"The last one did not show {address!r}, which is {path!r} on {branch}"
    elif unsafe:
        cause = (
            f"The last one had pages without a file, as when a branch is deleted meanwhile, or pages that end at a path"
            f" that is not UTF-8 ({len(unsafe)} together)"
        )
    else:
        cause = "The end of a branch did not tell whether the last one showed all of it"
    return f"{cause}, and asking the branches themselves did not settle it: {proof.missing}"
