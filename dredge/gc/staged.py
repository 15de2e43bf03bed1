"""Mark uncommitted: everything that branches have staged, read to the end.

    branches → pages until no token → every file of the scan's folder → branches again

The union of all pages counts, whatever location an answer names: an empty page names none, also when it is
the last. When branches come or go meanwhile the server can lose rows of other branches without a sign, so the
scan is then made again and the results are united. Rows too many only keep garbage.

Where the plan says so, the staging records are read from lakeFS's key-value store as well (`staged_kv`): they
have what the server does not tell.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.context import Context
from dredge.gc.hashes import Hashes, read_hashes, unite, write_hashes
from dredge.gc.location import key_of
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.staged_kv import Records, read_records
from dredge.hashing import hash64
from dredge.lakefs import UncommittedPage
from dredge.runs.clock import running_seconds
from dredge.runs.folder import read_parquet
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import TaskRunner

log = logging.getLogger("dredge")

STEP = "staged"
SCANS = "_lakefs/retention/gc/uncommitted"
_PAGE_TRIES = 3


@dataclass(slots=True)
class Scan:
    """What the server's scans gave.

    Attributes:
        runs: the server's id of each scan.
        pages: answers.
        empty_pages: answers that named no location.
        files: the server's files: key, rows, size.
        rows: addresses in them, with repetitions.
        parts: our copies: addresses, and sorted hashes.
        branches: at the end, by name.
        records: what the key-value store has besides, when it was read.
    """

    runs: list[str] = field(default_factory=list)
    pages: int = 0
    empty_pages: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    parts: list[PartInfo] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    records: Records | None = None

    def hashes(self, context: Context) -> Hashes:
        """Of all addresses in the parts."""
        parts = [part for part in self.parts if part.name.endswith(".u64")]
        return unite([read_hashes(context.folder, part) for part in parts])


def mark_uncommitted(context: Context, runner: TaskRunner | None = None) -> StepSummary:
    """Read every page of the repository's uncommitted addresses.

    Args:
        context: of the run.
        runner: not needed; every step takes one.

    Raises:
        RefusedError: the scan cannot be proved complete.
    """
    return context.step(STEP, ["listing"], lambda record: _mark(context, record))


def _mark(context: Context, record: StepRecord) -> None:
    scan = scan_staging(context, STEP)
    record.parts.extend(scan.parts)
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
    if len(scan.runs) > 1:
        record.warn(f"branches came or went during the scan of staging; {len(scan.runs)} scans were united")


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


def scan_staging(context: Context, where: str) -> Scan:
    """Read everything that is staged: what the server tells, and what the key-value store has where the plan
    says so.

    Args:
        context: of the run.
        where: folder of the parts.

    Raises:
        RefusedError: no proof of completeness within the bounds.
    """
    scan = _scan_until_still(context, where)
    if context.plan.config.read_kv:
        scan.records = read_records(context, where, len(scan.files), scan.hashes(context))
        scan.parts.extend(scan.records.parts)
    return scan


def _scan_until_still(context: Context, where: str) -> Scan:
    """Scan until the set of branches stood still for a whole scan, and unite everything that was seen."""
    safety = context.plan.config.safety
    deadline = running_seconds() + safety.scan_deadline_seconds
    scan = Scan()
    before = _branches(context)
    log.info(
        "run %s: lakeFS scans staging (branches: %d); usually about 12 ms a branch and more where much is staged,"
        " in pages of a minute at most",
        context.plan.run_id,
        len(before),
    )
    for _ in range(safety.scan_rounds_max):
        _scan_once(context, scan, where, deadline)
        after = _branches(context)
        if after.keys() == before.keys():
            scan.branches = after
            return scan
        changed = sorted(after.keys() ^ before.keys())
        log.info("branches came or went during the scan (%s …): scanning again", ", ".join(changed[:3]))
        before = after
    raise RefusedError(
        f"branches of {context.plan.repository} came or went during each of {safety.scan_rounds_max} scans"
        " of staging, so none can be proved complete. Nothing was deleted. Run again at a quieter time, or"
        " raise scan_rounds_max."
    )


def _branches(context: Context) -> dict[str, str]:
    found = {branch.id: branch.commit_id for branch in context.client.branches(context.plan.repository)}
    if not found:
        raise RefusedError(
            f"lakeFS lists no branches of {context.plan.repository}; every repository has one. Nothing was"
            " deleted."
        )
    return found


def _scan_once(context: Context, scan: Scan, where: str, deadline: float) -> None:
    run_id, locations, pages = "", set[str](), 0
    with_rows = 0
    for page in _pages(context, deadline):
        if run_id and page.run_id != run_id:
            raise RefusedError(
                f"prepare_uncommitted changed its run id from {run_id} to {page.run_id} between pages."
                " Nothing was deleted."
            )
        run_id = page.run_id
        pages += 1
        if page.token is not None:
            log.info("run %s: staging scan: %d pages so far", context.plan.run_id, pages)
        if page.location:
            with_rows += 1
            locations.add(key_of(page.location, context.plan.namespace).rstrip("/") + "/")
        else:
            scan.empty_pages += 1
    locations.add(f"{SCANS}/{run_id}/uncommitted/")
    keys = _files(context, locations)
    if len(keys) < with_rows:
        raise RefusedError(
            f"{with_rows} pages of scan {run_id} wrote a file each, but {len(keys)} files are there: staged"
            " addresses are missing. Nothing was deleted. Start a new run; if it repeats, read the lakeFS"
            " log."
        )
    scan.runs.append(run_id)
    scan.pages += pages
    for key, data in context.reader.get_many(keys):
        _copy(context, scan, where, key, data)


def _pages(context: Context, deadline: float) -> Iterator[UncommittedPage]:
    token: str | None = None
    seen: set[str] = set()
    while True:
        page = _page(context, token)
        yield page
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
                f" {context.plan.config.safety.scan_deadline_seconds:.0f} s. Nothing was deleted. Raise"
                " scan_deadline_seconds if the repository is that large."
            )


def _page(context: Context, token: str | None) -> UncommittedPage:
    for attempt in range(1, _PAGE_TRIES + 1):
        try:
            return context.client.prepare_uncommitted(context.plan.repository, token)
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


def _files(context: Context, folders: set[str]) -> list[str]:
    keys: list[str] = []
    for folder in sorted(folders):
        for batch in context.reader.list(folder):
            keys.extend(batch["key"].to_pylist())
    return keys


def _copy(context: Context, scan: Scan, where: str, key: str, data: bytes) -> None:
    table = read_parquet(data)
    if "physical_address" not in table.column_names:
        raise FormatError(f"{key} has no column physical_address. Nothing was deleted.")
    addresses = canonical_staged(table["physical_address"], context.plan.namespace)
    hashes = unite([hash64(addresses)])
    index = len(scan.files)
    rows = pa.table({"address": addresses})
    scan.files.append({"key": key, "rows": table.num_rows, "size_bytes": len(data)})
    scan.rows += table.num_rows
    scan.parts.append(context.folder.write_table(where, index, rows, "addresses"))
    scan.parts.append(write_hashes(context.folder, f"{where}/hashes-{index:05d}.u64", hashes))


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
