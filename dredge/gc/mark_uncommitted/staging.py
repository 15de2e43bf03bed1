"""Step mark_uncommitted: the staged addresses of all branches, proved complete.

    branches → pages until no token → every file of the scan's folder → branches again → proof

A server can lose rows without a sign, so each scan is compared with the branches' own lists of changes (`proof`). After
creations or deletions of branches, when servers lose rows, the scan is repeated first. Extra rows only keep garbage.

If the plan says so, every staging record of every branch is read from lakeFS's key-value store. The server's answer
lacks entries that branches serve: identical bytes uploaded again over a committed object, entries of the oldest kind,
rows lost with a branch. The records include all these and every row of the server. Records of the server's own store
(`StoreCheck`) are complete, and no scan is needed, except with `live_source`. In doubt the scan is proved as without
records, and the records count as well: a copy of the store may lack the rows that the scan lost.

Records are read after the listing and before commits: an entry moves from staging into a commit, never back.

    repository record
      → branch records  ←──────────────────────────────┐  until every named
      → every record of each token, current and sealed ┘  token was read
      → recorded copies

With snapshots (PostgreSQL, SQLite), one round is enough. Without (DynamoDB; each read is consistent and later than the
read before), an entry staged at the end of the first list of branches is

    in a token of the list                     read, or removed before: by a commit, whose range was written since the
                                               cutoff (such ranges count), or dropped
    in a token created during the list         in a token of the next list, or removed as above
    sealed meanwhile                           read by the token's name, which never changes
    moved to another branch (merge, copy)      merged: a commit wrote it; copied: its bytes are a new object, or the
                                               copy is recorded before it is staged, and copies are read last
    of a deleted branch                        garbage, except in the cases above

An entry staged later has a young object, or one of a head (heads seen during the read count, with the commits that
rules keep behind them), or is found by the re-check, which repeats all of this.

Every recorded address is live, including those hidden by a newer record. Doubtful records are exact only if they have
every address of the server; otherwise branches are asked about candidates, as without records.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/staging/manager.go
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from dredge.errors import RefusedError
from dredge.gc.config import AUTO
from dredge.gc.index.store import growing
from dredge.gc.mark_uncommitted.kv_store import (
    Before,
    ReadCommits,
    RecordedCommits,
    RepositoryRecords,
    StoreCheck,
    list_branches,
    look_before,
    read_checked,
)
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
from dredge.runs.payload import StepSummary
from dredge.runs.run import Ahead, StepRecord
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite

log = logging.getLogger("dredge")

_BATCH_ROWS = 100_000


def mark_uncommitted(run: Run, runner: TaskRunner | None = None, alone: bool = False) -> StepSummary:
    """Read the staged addresses of all branches. `alone`: the next step runs in another process. Raises RefusedError:
    no proof of completeness."""
    seen = Ahead(lambda _: look_before_scan(run))
    return run.step(
        MarkUncommittedOutput,
        lambda record: _mark(run, record, seen.result(record.inputs), alone),
        ahead=seen,
    )


def look_before_scan(run: Run) -> Before | None:
    """Ask the server before its key-value store is read; None if another scan comes first."""
    config = run.plan.config
    if not config.read_kv or config.live_source != AUTO:
        return None
    return look_before(run.client, run.plan.repository)


def _mark(run: Run, record: StepRecord, seen: Before | None, alone: bool) -> None:
    # The proof of the key-value store covers its commits too, for `list_committed` in this process.
    with growing(run, alone):
        staging = scan_staging(run, MarkUncommittedOutput.STEP, with_commits=run.folder.goes_on, seen=seen)
    if staging.commits is not None:
        run.commits_of_try[record.attempt.number] = staging.commits
    record.parts.extend(staging.files.parts)
    record.parts.append(write_heads(run.folder, staging.heads))
    scans = staging.scans
    files = [file for scan in scans for file in scan.files]
    record.counts.update(
        rows=staging.rows,
        pages=sum(scan.pages for scan in scans),
        empty_pages=sum(scan.empty_pages for scan in scans),
        files=len(files),
        scans=len(scans),
        branches=len(staging.branches),
    )
    record.details.update(server_runs=[scan.server_run for scan in scans], server_files=files)
    if staging.records is not None:
        _note_records(record, staging.records)
    if staging.proof is not None:
        _note_proof(record, staging.proof)
    if len(scans) > 1:
        record.warn(
            "branches were created or deleted during the scan of staging, or a scan was not proved complete:"
            f" {len(scans)} scans were united"
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
            f"the server's scan of staging lost rows, such as {address!r} ({path!r} on {branch}); every branch was"
            " asked for its uncommitted changes"
        )


def _note_records(record: StepRecord, records: Records) -> None:
    record.counts.update(
        kv_tokens=records.tokens,
        kv_rows=records.rows,
        kv_unseen_addresses=records.unseen,
        kv_missing_addresses=records.missing,
    )
    record.details["kv"] = records.figures()
    if records.check.doubt:
        record.warn(f"staging was read from the key-value store and from lakeFS: {records.check.doubt}")
    if records.missing:
        record.warn(
            f"{records.missing:,} uncommitted addresses of the server are not in the key-value store. They were"
            " committed or dropped meanwhile, or it is the wrong store; so branches are asked about candidates with"
            " the size of an object in a branch head"
        )


class Records(Struct):
    """The staging records of a repository."""

    check: StoreCheck = field(default_factory=lambda: StoreCheck(""))  # of the store
    branches: dict[str, str] = field(default_factory=dict)  # head by name
    heads: set[tuple[str, str]] = field(default_factory=set)  # (branch, commit) pairs seen during the read
    tokens: int = 0  # number of staging tokens
    rows: int = 0  # number of records, without tombstones
    unseen: int = 0  # distinct addresses missing from the server's answer
    missing: int = 0  # distinct addresses of the server's answer without a record
    commits: RecordedCommits | None = None  # read after the staging records, if they were asked for

    @property
    def exact(self) -> bool:
        """Whether the records have every address of the server, and no other data can be staged."""
        return self.missing == 0 and not self.check.refuted and not self.check.partial

    def figures(self) -> dict[str, Any]:
        """Figures for the step's summary."""
        return {
            "location": self.check.location,
            "doubt": self.check.doubt,
            "tokens": self.tokens,
            "rows": self.rows,
            "unseen": self.unseen,
            "missing": self.missing,
            "exact": self.exact,
        }


def read_records(
    run: Run,
    files: StagedFiles,
    shown: Hashes,
    with_commits: bool = False,
    seen: Before | None = None,
) -> Records:
    """Read every staging record of the repository, then refs and commits if wanted; write the addresses missing in
    the server's answer `shown` (sorted and distinct hashes) to `files`. `seen` as in `read_checked`."""
    log.info("run %s: reading all staging records from the key-value store; usually seconds", run.plan.run_id)
    sink = _Sink(files, shown)
    plan = run.plan

    def read(found: RepositoryRecords) -> Records:
        records = _read(run, found, sink)
        records.commits = RecordedCommits(found) if with_commits else None
        return records

    records, check = read_checked(run.client, plan.repository, plan.namespace, read, seen=seen)
    sink.finish()
    records.check = check
    records.unseen, records.missing = sink.unseen, sink.missing
    log.info("run %s: staging records: %s", run.plan.run_id, records.figures())
    return records


def _read(run: Run, found: RepositoryRecords, sink: _Sink) -> Records:
    """Read tokens until every named token was read, then recorded copies."""
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
            f"branches of {run.plan.repository} changed their staging tokens during each of {rounds_max} reads of"
            f" {found.location}. Nothing was deleted. Run again at a quieter time, or raise scan_rounds_max."
        )
    records.rows += sink.take(found.copies())
    records.branches, records.tokens = found.heads, len(read)
    return records


class _Sink:
    """Collects addresses, and writes those missing from the server's answer in bounded batches."""

    def __init__(self, files: StagedFiles, shown: Hashes) -> None:
        self.unseen = self.missing = 0
        self._files = files
        self._shown = shown
        self._waiting: list[str] = []
        self._seen = np.zeros(len(shown), bool)
        self._unseen = NONE

    def take(self, entries: Iterable[tuple[str, ...]]) -> int:
        """Add the possible keys of entries; return the number of entries."""
        count = 0
        for keys in entries:
            count += 1
            self._waiting.extend(keys)
            if len(self._waiting) >= _BATCH_ROWS:
                self._flush()
        return count

    def finish(self) -> None:
        """Write the rest, and set the figures."""
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
        if new.any():
            self._unseen = unite([self._unseen, self._files.write(addresses.filter(pa.array(new)))])


class Staging(Struct):
    """The staged addresses read so far."""

    files: StagedFiles
    scanned: Hashes = field(default_factory=lambda: NONE)  # hashes of the addresses of the server's scans
    scans: list[ServerScan] = field(default_factory=list)
    rows: int = 0  # addresses of the scans, with repetitions, and those only known to branches
    branches: dict[str, str] = field(default_factory=dict)  # head by name, at the end
    # (branch, commit) pairs seen before, between and after the scans
    heads: set[tuple[str, str]] = field(default_factory=set)
    proof: Proof | None = None  # of the last scan; None if the records are the proof
    records: Records | None = None  # of the key-value store; None without it
    commits: ReadCommits | None = None  # of the key-value store, if its records are the proof

    def see_branches(self, run: Run) -> dict[str, str]:
        """List the branches, and record their heads; return head by name."""
        branches = list_branches(run.client, run.plan.repository)
        found = {branch.id: branch.commit_id for branch in branches}
        self.heads.update(found.items())
        return found

    def scan(self, run: Run, deadline: float) -> ServerScan:
        """Let the server scan once more, and add its addresses."""
        scan = scan_server(run, self.files, deadline)
        self.scanned = unite([self.scanned, scan.hashes])
        self.scans.append(scan)
        self.rows += scan.rows
        return scan


def scan_staging(run: Run, where: str, with_commits: bool = False, seen: Before | None = None) -> Staging:
    """Read the staged addresses from the key-value store, the server, or both, until they are proved complete. Where
    its records alone are the proof, the store's commits are read after them if wanted. `seen`: from `look_before_scan`,
    if it was asked before."""
    staging = Staging(StagedFiles(run.folder, where))
    deadline = running_seconds() + run.plan.config.safety.scan_deadline_seconds
    if not run.plan.config.read_kv:
        _scan_until_proved(run, staging, deadline)
        return staging
    if run.plan.config.live_source == AUTO:
        if _read_records_alone(run, staging, with_commits, seen):
            return staging
        _scan_until_proved(run, staging, deadline)
    else:
        staging.branches = staging.see_branches(run)
        staging.scan(run, deadline)
    staging.records = read_records(run, staging.files, staging.scanned)
    staging.heads |= staging.records.heads | staging.records.check.heads
    if staging.records.check.doubt and staging.proof is None:
        # Doubtful records are no proof of the rows that the server lost.
        _scan_until_proved(run, staging, deadline)
    # Without exact records, branches are asked about the heads of this time.
    staging.see_branches(run)
    return staging


def _read_records_alone(run: Run, staging: Staging, with_commits: bool, seen: Before | None) -> bool:
    """Read the staging records; return whether they are proved complete. Their addresses are live in both cases."""
    records = read_records(run, staging.files, NONE, with_commits=with_commits, seen=seen)
    staging.heads |= records.heads | records.check.heads
    if records.check.doubt:
        log.warning(
            "run %s: lakeFS is asked for its scan of staging: %s", run.plan.run_id, records.check.doubt
        )
        return False
    staging.records, staging.branches = records, records.branches
    staging.commits = None if records.commits is None else (records.commits, records.check)
    staging.rows = sum(part.rows for part in staging.files.addresses)
    return True


def _scan_until_proved(run: Run, staging: Staging, deadline: float) -> None:
    """Scan until a scan is proved complete, and unite all scans.

    If branches were created or deleted, the scan is repeated; the last round asks every branch for all its changes.
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
            log.info("branches changed during the scan (%s …): scanning again", ", ".join(moved[:3]))
            continue
        proof = prove(run, after, staging.scanned, scan.unsafe, bool(moved), give_up_at)
        _add_proof(staging, proof, after)
        if not proof.missing:
            return
        give_up_at, why = proof.too_many, _explain(proof, moved, scan.unsafe)
        log.info("the scan is not proved complete (%s): scanning again", why)
    raise RefusedError(
        f"staging of {run.plan.repository} could not be proved complete in {safety.scan_rounds_max} scans. {why}."
        " Nothing was deleted. Run again when fewer branches are made and deleted, or raise staged_questions_max"
        f" ({safety.staged_questions_max:,}) or scan_rounds_max; or set kv_conn_id to lakeFS's own key-value store,"
        " not a copy: its records are the proof."
    )


def _add_proof(staging: Staging, proof: Proof, branches: dict[str, str]) -> None:
    staging.proof, staging.branches = proof, branches
    if proof.addresses:
        staging.files.write(pa.array(sorted(proof.addresses), pa.string()))
        staging.rows += len(proof.addresses)


def _explain(proof: Proof, moved: list[str], unsafe: Collection[Extent]) -> str:
    if moved:
        cause = f"During the last scan branches such as {', '.join(moved[:3])} were created or deleted"
    elif proof.lost is not None:
        branch, path, address = proof.lost
        cause = f"The last scan did not show {address!r}, which is {path!r} on {branch}"
    elif unsafe:
        cause = (
            "The last scan had pages without a file, as after the deletion of a branch, or pages that end at a path"
            f" that is not UTF-8 ({len(unsafe)} together)"
        )
    else:
        cause = "The end of a branch did not show whether the last scan was complete"
    return f"{cause}, and the branches' own lists prove nothing: {proof.missing}"
