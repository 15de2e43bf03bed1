"""One scan of staging by the server: pages of addresses, written by the server as files, copied by us.

The union of all files counts, whatever location an answer names: an empty page names none, also when it is the last.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.mark_uncommitted.extents import Extent
from dredge.gc.mark_uncommitted.output import StagedFiles
from dredge.gc.namespaces import canonical_namespace, key_of
from dredge.gc.run import Run
from dredge.lakefs import UncommittedPage
from dredge.lakefs.files.gc_files import uncommitted_key
from dredge.runs.clock import running_seconds
from dredge.runs.parts import read_parquet
from dredge.sets.hashes import NONE, Hashes, unite

log = logging.getLogger("dredge")

_PAGE_TRIES = 3


@dataclass(slots=True)
class ServerScan:
    """What a scan gave.

    Attributes:
        server_run: the server's id of the scan.
        pages: the server's answers.
        empty_pages: answers that named no location.
        locations: folders of the others, as keys that end with "/".
        unsafe: what pages may have covered and not shown.
        files: the server's files: `key`, `rows`, `size_bytes`.
        rows: addresses in them, with repetitions.
        hashes: of these addresses.
    """

    server_run: str = ""
    pages: int = 0
    empty_pages: int = 0
    locations: set[str] = field(default_factory=set)
    unsafe: list[Extent] = field(default_factory=list)
    files: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0
    hashes: Hashes = field(default_factory=lambda: NONE)


def scan_server(run: Run, files: StagedFiles, deadline: float) -> ServerScan:
    """Have the server scan staging, and copy what it found.

    Args:
        run: the run.
        files: takes the addresses.
        deadline: when to give up, as `running_seconds` tells the time.

    Raises:
        RefusedError: answers contradict each other, files are missing, or the deadline has passed.
        FormatError: a file is not as the server writes them.
    """
    scan = ServerScan()
    for token, page in _pages(run, deadline):
        _note_page(run, scan, token, page)
    keys = _file_keys(run, scan)
    pieces = []
    for key, data in run.reader.get_many(keys):
        table = _read_file(key, data)
        pieces.append(files.write(canonical_staged(table["physical_address"], run.plan.namespace)))
        scan.files.append({"key": key, "rows": table.num_rows, "size_bytes": len(data)})
        scan.rows += table.num_rows
    scan.hashes = unite(pieces)
    return scan


def _note_page(run: Run, scan: ServerScan, token: str | None, page: UncommittedPage) -> None:
    if scan.server_run and page.run_id != scan.server_run:
        raise RefusedError(
            f"prepare_uncommitted changed its run id from {scan.server_run} to {page.run_id} between pages."
            " Nothing was deleted."
        )
    scan.server_run = page.run_id
    scan.pages += 1
    if page.token is not None:
        log.info("run %s: staging scan: %d pages so far", run.plan.run_id, scan.pages)
    if page.location:
        scan.locations.add(key_of(page.location, run.plan.namespace).rstrip("/") + "/")
    else:
        scan.empty_pages += 1
        scan.unsafe.append(Extent.between(token, page.token))
    if (skipped := Extent.skipped_by(page.token)) is not None:
        scan.unsafe.append(skipped)


def _file_keys(run: Run, scan: ServerScan) -> list[str]:
    """Keys of all files in the folders that answers named, and in the one that a scan writes to by default."""
    folders = scan.locations | {uncommitted_key(scan.server_run)}
    keys = [
        key
        for folder in sorted(folders)
        for batch in run.reader.list(folder)
        for key in batch["key"].to_pylist()
    ]
    with_rows = scan.pages - scan.empty_pages
    if len(keys) < with_rows:
        raise RefusedError(
            f"{with_rows} pages of scan {scan.server_run} wrote a file each, but {len(keys)} files are there: staged"
            " addresses are missing. Nothing was deleted. Start a new run; if it repeats, read the lakeFS log."
        )
    return keys


def _pages(run: Run, deadline: float) -> Iterator[tuple[str | None, UncommittedPage]]:
    """Every page, with the token that it was asked for with; None for the first."""
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


def _read_file(key: str, data: bytes) -> pa.Table:
    table = read_parquet(data)
    if "physical_address" not in table.column_names:
        raise FormatError(f"{key} has no column physical_address. Nothing was deleted.")
    return table


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
