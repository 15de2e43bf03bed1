"""Staging read from lakeFS's key-value store itself: every record of every token of every branch.

The server's answer about uncommitted objects leaves out what branches read all the same: the same bytes uploaded again
over a committed object, entries of the oldest kind, rows that it lost with a branch. The records have them all, and
whatever the server lists is one of them. They are read after the listing and before commits are, for the same reason:
an entry moves from staging into a commit, never back.

    repository record
      → branch records  ←──────────────────────────────┐  until no branch names
      → every record of each token, current and sealed ┘  a token that was not read
      → recorded copies

Where the store gives a view of one moment (PostgreSQL, SQLite), all of this is read as of that moment, and one round
is enough: what is staged then is in one of the tokens that branches name then.

Where it does not (DynamoDB; every read is consistent by itself and later than the one before), take the moment at which
the first list of branches was complete, and an entry that is staged then:

    in a token that the list names             it is read, or was taken out before: by a commit, which wrote a range
                                               with it since the cutoff (and those ranges count), or dropped
    in a token that was made during the list   the next list names it, or the same was done to it before
    sealed meanwhile                           tokens are never renamed: a sealed one is read by its name
    moved to another branch (merge, copy)      merged: a commit wrote it; copied: its bytes are a new object, or the
                                               copy is recorded before it is staged, and records are read last
    of a branch that is deleted                dead, unless something else names it: one of the cases above

An entry that is staged after that moment has an object that is young, or one that a head had (heads that were seen
count, with what rules keep behind them), or is found by the re-check, which reads all of this again.

Whatever a record names is live, also where a newer one hides it. What the records are worth says `kv_standing`: only
where they are proved to be the server's own, as of now, the server need not be asked. Elsewhere they are read besides
its answer, after its last page, and count as exact only when they have every address that the server showed; where
they are not exact, their addresses are live like all others, and branches are asked about suspects as without records.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/staging/manager.go

Everything that is staged: the server's scans united, until what they gave is proved complete.

    branches → pages until no token → every file of the scan's folder → branches again → proof

A server can lose rows without a sign, so each scan is compared with the branches' own lists of changes, and what it
may have lost is asked for (`proof`). When branches come or go meanwhile, which is when servers lose rows, the scan is
made again first. Rows too many only keep garbage.

Where the plan says so, the staging records are read from lakeFS's key-value store (`kv_records`): they have what the
server does not show, and are the proof. Where the store is proved to be the server's own, as of now, they are
everything, and the server is not asked for a scan. Where `live_source` says so, it is, and both count. In doubt its
scan is proved as without records, which count besides: a copy of the store may lack just what the server's scan lost.

Mark uncommitted: everything that branches have staged, read to the end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.config import AUTO
from dredge.gc.mark_uncommitted.kv_store import KVAccess, RepositoryRecords, Standing, look
from dredge.gc.mark_uncommitted.proof import Proof, prove
from dredge.gc.mark_uncommitted.staged import (
    Extent,
    MarkUncommittedOutput,
    ServerScan,
    StagedFiles,
    scan_server,
    write_heads,
)
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.runs.clock import running_seconds
from dredge.runs.steps import StepRecord
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite

log = logging.getLogger("dredge")

_BATCH_ROWS = 100_000


@dataclass(slots=True)
class Records:
    """What the staging records gave.

    Attributes:
        standing: what they are worth.
        branches: head by name.
        heads: every branch with each commit that it was seen at.
        tokens: number of staging tokens that were read.
        rows: number of records, without tombstones.
        unseen: number of distinct addresses that the server had not shown.
        missing: number of distinct addresses that the server had shown, and that no record names (any more).
    """

    standing: Standing = field(default_factory=lambda: Standing(""))
    branches: dict[str, str] = field(default_factory=dict)
    heads: set[tuple[str, str]] = field(default_factory=set)
    tokens: int = 0
    rows: int = 0
    unseen: int = 0
    missing: int = 0

    @property
    def exact(self) -> bool:
        """Whether the records had everything that the server showed, and tell of everything that can be staged."""
        return self.missing == 0 and not self.standing.refuted and not self.standing.partial

    def figures(self) -> dict[str, Any]:
        """Figures for the step's summary."""
        return {
            "location": self.standing.location,
            "doubt": self.standing.doubt,
            "tokens": self.tokens,
            "rows": self.rows,
            "unseen": self.unseen,
            "missing": self.missing,
            "exact": self.exact,
        }


def read_records(run: Run, files: StagedFiles, shown: Hashes, access: KVAccess | None = None) -> Records:
    """Read every staging record of the repository.

    Args:
        run: the run.
        files: takes the addresses that the server did not show.
        shown: hashes of what the server showed as uncommitted, sorted and distinct; none where it was not asked.
        access: None reads the environment.

    Raises:
        ConfigError: the store is not named, or does not exist.
        RefusedError: it is not the store of this repository, or never stands still.
        FormatError: a record cannot be read.
    """
    log.info("run %s: reading all staging records from the key-value store; usually seconds", run.plan.run_id)
    sink = _Sink(files, shown)
    records, standing = look(run, lambda found: _read(run, found, sink), access)
    sink.finish()
    records.standing = standing
    records.unseen, records.missing = sink.unseen, sink.missing
    log.info("run %s: staging records: %s", run.plan.run_id, records.figures())
    return records


def _read(run: Run, found: RepositoryRecords, sink: _Sink) -> Records:
    """Read tokens until every one that a branch names was read, then recorded copies."""
    records = Records()
    found.keys = run.keys
    read: set[str] = set()
    rounds_max = run.plan.config.safety.scan_rounds_max
    for _ in range(rounds_max):
        branches = found.branches()
        records.heads |= {(branch.name, branch.commit_id) for branch in branches}
        new = [token for branch in branches for token in branch.tokens if token not in read]
        if not new and read:
            break
        for token in new:
            records.rows += sink.take(found.staged(token))
        read.update(new)
        if found.consistent:
            break
    else:
        raise RefusedError(
            f"branches of {run.plan.repository} changed their staging tokens during each of {rounds_max} looks at"
            f" {found.location}. Nothing was deleted. Run again at a quieter time, or raise scan_rounds_max."
        )
    records.rows += sink.take(found.copies())
    records.branches, records.tokens = found.heads, len(read)
    return records


class _Sink:
    """Collects addresses, and writes those that the server had not shown, a bounded number at a time.

    Attributes:
        unseen: number of distinct addresses that the server had not shown.
        missing: number of distinct addresses that it had shown, and that were not among these.
    """

    def __init__(self, files: StagedFiles, shown: Hashes) -> None:
        self.unseen = self.missing = 0
        self._files = files
        self._shown = shown
        self._waiting: list[str] = []
        self._seen = np.zeros(len(shown), bool)
        self._unseen = NONE

    def take(self, entries: Iterable[tuple[str, ...]]) -> int:
        """Add the keys that entries may mean; gives the number of entries."""
        count = 0
        for keys in entries:
            count += 1
            self._waiting.extend(keys)
            if len(self._waiting) >= _BATCH_ROWS:
                self._flush()
        return count

    def finish(self) -> None:
        """Write what waits, and count."""
        self._flush()
        self.unseen = len(self._unseen)
        self.missing = len(self._shown) - int(np.count_nonzero(self._seen))

    def _flush(self) -> None:
        addresses = pa.array(self._waiting, pa.string())
        self._waiting = []
        hashes = hash64(addresses)
        was_shown = contains(self._shown, hashes)
        self._seen[np.searchsorted(self._shown, hashes[was_shown])] = True
        new = ~was_shown
        if not new.any():
            return
        self._unseen = unite([self._unseen, self._files.write(addresses.filter(pa.array(new)))])


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


def mark_uncommitted(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Read every page of the repository's uncommitted addresses.

    Args:
        run: the run.
        runner: not needed; every step takes one.

    Raises:
        RefusedError: the scan cannot be proved complete.
    """
    return run.step(MarkUncommittedOutput, lambda record: _mark(run, record))


def _mark(run: Run, record: StepRecord) -> None:
    staging = scan_staging(run, MarkUncommittedOutput.STEP)
    record.parts.extend(staging.files.parts)
    record.parts.append(write_heads(run.folder, staging.heads))
    scans = len(staging.server_runs)
    record.counts.update(
        rows=staging.rows,
        pages=staging.pages,
        empty_pages=staging.empty_pages,
        files=len(staging.server_files),
        scans=scans,
        branches=len(staging.branches),
    )
    record.details.update(
        server_runs=staging.server_runs,
        server_files=staging.server_files,
    )
    if staging.records is not None:
        _note_records(record, staging.records)
    if staging.proof is not None:
        _note_proof(record, staging.proof)
    if scans > 1:
        record.warn(
            f"branches came or went while staging was scanned, or a scan could not be proved complete; {scans}"
            " scans were united"
        )


def _note_proof(record: StepRecord, proof: Proof) -> None:
    record.counts.update(
        changed_branches=proof.changed_branches,
        changes=proof.changes,
        branches_asked_for_all=proof.asked_for_all,
        questions=proof.questions,
        unscanned_addresses=len(proof.addresses),
    )
    if proof.lost is not None:
        branch, path, address = proof.lost
        record.warn(
            f"the server's scan of staging had lost rows, such as {address!r} ({path!r} on {branch}); every branch was"
            " asked for what it has uncommitted"
        )


def _note_records(record: StepRecord, records: Records) -> None:
    record.counts.update(
        kv_tokens=records.tokens,
        kv_rows=records.rows,
        kv_unseen_addresses=records.unseen,
        kv_missing_addresses=records.missing,
    )
    record.details["kv"] = records.figures()
    if records.standing.doubt:
        record.warn(
            f"staging was not read from the key-value store alone, but lakeFS was asked, too: {records.standing.doubt}"
        )
    if records.missing:
        record.warn(
            f"{records.missing:,} addresses that the server showed as uncommitted were not in its key-value store"
            " afterwards. They were committed or dropped meanwhile, or the store is not the right one; branches are"
            " therefore asked which of the candidates with the content of a branch head they serve"
        )
