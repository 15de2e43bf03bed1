"""Mark uncommitted: everything that branches have staged, read to the end.

    branches → pages until no token → every file of the scan's folder → branches again → proof

The union of all pages counts, whatever location an answer names: an empty page names none, also when it is
the last. A server can lose rows without a sign, so each scan is held against the branches' own lists of changes, and
what it may have lost is asked for (`staged_proof`). When branches come or go meanwhile, which is when servers lose
rows, the scan is made again first. Rows too many only keep garbage.

Where the plan says so, the staging records are read from lakeFS's key-value store as well (`staged_kv`): they
have what the server does not tell, and are the proof.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.mark_uncommitted.kv_records import Records, read_records
from dredge.gc.mark_uncommitted.proof import Extent, Proof, prove
from dredge.gc.namespaces import canonical_namespace, key_of
from dredge.gc.run import Run
from dredge.gc.sets.files import read_hashes, write_hashes
from dredge.gc.sets.hashes import NONE, Hashes, unite
from dredge.hashing import hash64
from dredge.lakefs import UncommittedPage
from dredge.runs.clock import running_seconds
from dredge.runs.folder import read_parquet
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner

log = logging.getLogger("dredge")

STEP = "mark_uncommitted"
HEADS = "heads"
SCANS = "_lakefs/retention/gc/uncommitted"
_PAGE_TRIES = 3


@dataclass(slots=True)
class Scan:
    """What the server's scans gave, and the branches besides.

    Attributes:
        runs: the server's id of each scan.
        pages: answers.
        empty_pages: answers that named no location.
        files: the server's files: key, rows, size.
        rows: addresses in them, with repetitions, and those that only the branches showed.
        parts: our copies: addresses, and sorted hashes.
        branches: at the end, by name.
        heads: every branch and commit that it was seen at, before, between and after the scans.
        proof: what the branches said about the last scan; None where the key-value store is read instead.
        records: what the key-value store has besides, when it was read.
    """

    runs: list[str] = field(default_factory=list)
    pages: int = 0
    empty_pages: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    parts: list[PartInfo] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    heads: set[tuple[str, str]] = field(default_factory=set)
    proof: Proof | None = None
    records: Records | None = None

    @property
    def next_part(self) -> int:
        """Number of the next part: each has addresses and hashes."""
        return len(self.parts) // 2

    def hashes(self, run: Run) -> Hashes:
        """Of all addresses in the parts."""
        parts = [part for part in self.parts if part.name.endswith(".u64")]
        return unite([read_hashes(run.folder, part) for part in parts])

    def add(self, run: Run, where: str, addresses: pa.ChunkedArray | pa.Array) -> None:
        """Write addresses as a part."""
        number = self.next_part
        hashes = unite([hash64(addresses)])
        table = pa.table({"address": addresses})
        self.parts.append(run.folder.write_table(where, number, table, "addresses"))
        self.parts.append(write_hashes(run.folder, f"{where}/hashes-{number:05d}.u64", hashes))


def mark_uncommitted(run: Run, runner: TaskRunner | None = None) -> StepSummary:
    """Read every page of the repository's uncommitted addresses.

    Args:
        run: of the run.
        runner: not needed; every step takes one.

    Raises:
        RefusedError: the scan cannot be proved complete.
    """
    return run.step_by_name(STEP, ["slice_listing"], lambda record: _mark(run, record))


def _mark(run: Run, record: StepRecord) -> None:
    scan = scan_staging(run, STEP)
    record.parts.extend(scan.parts)
    record.parts.append(_write_heads(run, scan))
    record.counts.update(
        rows=scan.rows,
        pages=scan.pages,
        empty_pages=scan.empty_pages,
        files=len(scan.files),
        scans=len(scan.runs),
        branches=len(scan.branches),
    )
    record.details.update(server_runs=scan.runs, server_files=scan.files)
    if scan.records is not None:
        _note_records(record, scan.records)
    if scan.proof is not None:
        _note_proof(record, scan.proof)
    if len(scan.runs) > 1:
        record.warn(
            f"branches came or went while staging was scanned, or a scan could not be proved complete; {len(scan.runs)}"
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


def _write_heads(run: Run, scan: Scan) -> PartInfo:
    rows = sorted(scan.heads)
    columns = {"branch": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return run.folder.write_table(STEP, 0, table, HEADS)


def _note_records(record: StepRecord, records: Records) -> None:
    record.counts.update(
        kv_tokens=records.tokens,
        kv_rows=records.rows,
        kv_unseen_addresses=records.unseen,
        kv_missing_addresses=records.missing,
    )
    record.details["kv"] = records.to_json()
    if not records.exact:
        record.warn(
            f"{records.missing:,} addresses that the server showed as uncommitted were not in its key-value store"
            " afterwards. They were committed or dropped meanwhile, or the store is not the right one; objects with"
            " the content of a branch head are therefore asked for one by one"
        )


def scan_staging(run: Run, where: str) -> Scan:
    """Read everything that is staged: what the server tells, and what the key-value store has where the plan
    says so.

    Args:
        run: of the run.
        where: folder of the parts.

    Raises:
        RefusedError: no proof of completeness within the bounds.
    """
    if not run.plan.config.read_kv:
        return _scan_until_proved(run, where)
    scan = Scan(branches=_branches(run))
    scan.heads.update(scan.branches.items())
    _scan_once(run, scan, where, _deadline(run))
    scan.records = read_records(run, where, scan.next_part, scan.hashes(run))
    scan.heads.update([*scan.branches.items(), *scan.records.branches.items()])
    scan.parts.extend(scan.records.parts)
    # Where the records are not exact, branches are asked about the heads of this time, as without records.
    scan.heads.update(_branches(run).items())
    return scan


def _deadline(run: Run) -> float:
    return running_seconds() + run.plan.config.safety.scan_deadline_seconds


def _scan_until_proved(run: Run, where: str) -> Scan:
    """Scan until a scan is proved complete, and unite everything that was seen.

    While branches come and go it is scanned again, as long as rounds are left; the last round is proved by asking
    every branch for everything.
    """
    safety, deadline = run.plan.config.safety, _deadline(run)
    scan, scanned, give_up_at = Scan(), NONE, None
    before, why = _branches(run), ""
    scan.heads.update(before.items())
    log.info(
        "run %s: lakeFS scans staging (branches: %d); usually about 12 ms a branch and more where much is staged,"
        " in pages of a minute at most",
        run.plan.run_id,
        len(before),
    )
    for left in reversed(range(safety.scan_rounds_max)):
        known = len(scan.parts)
        unsafe = _scan_once(run, scan, where, deadline)
        new = [read_hashes(run.folder, part) for part in scan.parts[known + 1 :: 2]]
        scanned = unite([scanned, *new])
        after = _branches(run)
        scan.heads.update(after.items())
        moved, before = sorted(after.keys() ^ before.keys()), after
        if moved and left:
            log.info("branches came or went during the scan (%s …): scanning again", ", ".join(moved[:3]))
            continue
        proof = prove(run, after, scanned, unsafe, bool(moved), give_up_at)
        scan.proof, scan.branches = proof, after
        if proof.addresses:
            scan.add(run, where, pa.array(sorted(proof.addresses), pa.string()))
            scan.rows += len(proof.addresses)
        if not proof.missing:
            return scan
        give_up_at, why = proof.too_many, _why(proof, moved, unsafe)
        log.info("the scan is not proved complete (%s): scanning again", why)
    raise RefusedError(
        f"staging of {run.plan.repository} could not be proved complete in {safety.scan_rounds_max} scans. {why}."
        " Nothing was deleted because of it. Run again when fewer branches are made and deleted, or raise"
        f" staged_questions_max ({safety.staged_questions_max:,}) or scan_rounds_max; or name lakeFS's key-value store"
        " (kv_conn_id), whose records are the proof."
    )


def _why(proof: Proof, moved: list[str], unsafe: list[Extent]) -> str:
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


def _branches(run: Run) -> dict[str, str]:
    found = {branch.id: branch.commit_id for branch in run.client.branches(run.plan.repository)}
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {run.plan.repository}; every repository has one. Nothing was"
            " deleted."
        )
    return found


def _scan_once(run: Run, scan: Scan, where: str, deadline: float) -> list[Extent]:
    """Read one scan of the server; gives the extents that it may have lost rows of."""
    run_id, locations, pages = "", set[str](), 0
    with_rows = 0
    unsafe: list[Extent] = []
    for token, page in _pages(run, deadline):
        if run_id and page.run_id != run_id:
            raise RefusedError(
                f"prepare_uncommitted changed its run id from {run_id} to {page.run_id} between pages."
                " Nothing was deleted."
            )
        run_id = page.run_id
        pages += 1
        if page.token is not None:
            log.info("run %s: staging scan: %d pages so far", run.plan.run_id, pages)
        if page.location:
            with_rows += 1
            locations.add(key_of(page.location, run.plan.namespace).rstrip("/") + "/")
        else:
            scan.empty_pages += 1
            unsafe.append(Extent.between(token, page.token))
        if (skipped := Extent.skipped_by(page.token)) is not None:
            unsafe.append(skipped)
    locations.add(f"{SCANS}/{run_id}/uncommitted/")
    keys = _files(run, locations)
    if len(keys) < with_rows:
        raise RefusedError(
            f"{with_rows} pages of scan {run_id} wrote a file each, but {len(keys)} files are there: staged"
            " addresses are missing. Nothing was deleted. Start a new run; if it repeats, read the lakeFS"
            " log."
        )
    scan.runs.append(run_id)
    scan.pages += pages
    for key, data in run.reader.get_many(keys):
        _copy(run, scan, where, key, data)
    return unsafe


def _pages(run: Run, deadline: float) -> Iterator[tuple[str | None, UncommittedPage]]:
    """Every page, with the token that it was asked for with."""
    token: str | None = None
    seen: set[str] = set()
    while True:
        page = _page(run, token)
        yield token, page
        if page.token is None:
            return
        if page.token in seen:
            raise RefusedError(
                f"prepare_uncommitted gave the same continuation token twice (scan {page.run_id}): it makes"
                " no progress. Nothing was deleted. The server is overloaded or its ugc.prepare_interval is"
                " too short; raise it."
            )
        seen.add(page.token)
        token = page.token
        if running_seconds() > deadline:
            raise RefusedError(
                "the scan of staging did not end within"
                f" {run.plan.config.safety.scan_deadline_seconds:.0f} s. Nothing was deleted. Raise"
                " scan_deadline_seconds if the repository is that large."
            )


def _page(run: Run, token: str | None) -> UncommittedPage:
    for attempt in range(1, _PAGE_TRIES + 1):
        try:
            return run.client.prepare_uncommitted(run.plan.repository, token)
        except NotFoundError as error:
            # A branch that goes while it is the last one of a page makes the whole page fail; asked again, it
            # is skipped.
            if "branch not found" in str(error) and attempt < _PAGE_TRIES:
                continue
            raise RefusedError(
                f"{error}. That does not mean that nothing is staged. Nothing was deleted. 'commit not"
                " found' means a branch whose head commit is missing: repair it by a hard reset."
            ) from None
    raise AssertionError("unreachable")


def _files(run: Run, folders: set[str]) -> list[str]:
    keys: list[str] = []
    for folder in sorted(folders):
        for batch in run.reader.list(folder):
            keys.extend(batch["key"].to_pylist())
    return keys


def _copy(run: Run, scan: Scan, where: str, key: str, data: bytes) -> None:
    table = read_parquet(data)
    if "physical_address" not in table.column_names:
        raise FormatError(f"{key} has no column physical_address. Nothing was deleted.")
    addresses = canonical_staged(table["physical_address"], run.plan.namespace)
    scan.files.append({"key": key, "rows": table.num_rows, "size_bytes": len(data)})
    scan.rows += table.num_rows
    scan.add(run, where, addresses)


def canonical_staged(addresses: pa.ChunkedArray, namespace: str) -> pa.ChunkedArray:
    """Give staged addresses the one form that keys have: relative to the namespace, raw.

    Args:
        addresses: as the server wrote them; relative by contract.
        namespace: URI.

    Raises:
        FormatError: a missing address.
    """
    if addresses.null_count:
        raise FormatError("the server wrote a staged row without an address. Nothing was deleted.")
    texts = addresses.cast(pa.string())
    prefix = canonical_namespace(namespace)
    full = pc.starts_with(texts, prefix)
    if pc.any(full).as_py():
        stripped = pc.utf8_slice_codeunits(texts.filter(full), len(prefix))
        texts = pa.chunked_array([*texts.chunks, *stripped.chunks])
    return texts
