"""The files of staged addresses, and one scan of staging by the server: pages of addresses in files, copied here.

All files in the folders of a scan count: an empty page names no location, and so may the last page.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.namespaces import canonical_namespace, key_of
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.hashing import hash64
from dredge.lakefs import UncommittedPage
from dredge.lakefs.files.records import uncommitted_key
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.parts import read_parquet
from dredge.runs.payload import Detail, NamedPart, NamedParts, PartInfo, StepOutput
from dredge.sets.hashes import NONE, Hashes, unite, write_hashes
from dredge.storage import ObjectReader

log = logging.getLogger("dredge")

_ADDRESSES, _HASHES, _HEADS = "addresses", "hashes", "heads"
_PAGE_TRIES = 3
# In answers, U+FFFD replaces bytes of a path that are not UTF-8. Such a path cannot be requested.
REPLACED = "\ufffd"


class MarkUncommittedOutput(StepOutput):
    """The staged addresses of all branches."""

    STEP = "mark_uncommitted"
    INPUTS = (SliceListingOutput,)

    # Rows of staged addresses: `address`, the key relative to the namespace; and their sorted hashes.
    addresses = NamedParts(f"{_ADDRESSES}-")
    hashes = NamedParts(f"{_HASHES}-")
    # Rows of the branch heads during the reading of staging: `branch`, `commit_id`.
    heads = NamedPart(f"{_HEADS}-00000.parquet")
    # The server's ids of the scans; empty without a scan.
    server_runs: Detail[list[str]] = Detail("server_runs")

    @property
    def exact(self) -> bool:
        """Whether every staging record was read from the key-value store, so no staged entry can be hidden."""
        return bool(self.summary.details.get("kv", {}).get("exact", False))


class StagedFiles:
    """Writes staged addresses: files of rows, and beside each a file of sorted hashes."""

    def __init__(self, folder: RunFolder, where: str) -> None:
        self.addresses: list[PartInfo] = []
        self.hashes: list[PartInfo] = []
        self._folder = folder
        self._where = where

    @property
    def parts(self) -> list[PartInfo]:
        """All files."""
        return [*self.addresses, *self.hashes]

    def write(self, addresses: pa.ChunkedArray | pa.Array) -> Hashes:
        """Write addresses, in any order and with repetitions; return their hashes, sorted and distinct."""
        number = len(self.addresses)
        hashes = unite([hash64(addresses)])
        table = pa.table({"address": addresses})
        self.addresses.append(self._folder.write_table(self._where, number, table, _ADDRESSES))
        self.hashes.append(write_hashes(self._folder, f"{self._where}/{_HASHES}-{number:05d}.u64", hashes))
        return hashes


def write_heads(folder: RunFolder, heads: Collection[tuple[str, str]]) -> PartInfo:
    """Write (branch, head commit) pairs."""
    rows = sorted(heads)
    columns = {"branch": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return folder.write_table(MarkUncommittedOutput.STEP, 0, table, _HEADS)


class Extent(Struct, frozen=True):
    """The rows that a page of a scan may have covered. Rows are in (branch, path) order, by bytes."""

    branch: str = ""  # the first branch; "" for the first of all
    path: str = ""  # first path in that branch; earlier pages had the rows before it
    until: str | None = None  # the first branch of the next page; None on the last page
    into: bool = True  # whether the next page begins inside that branch, so this page had some of its rows

    @classmethod
    def between(cls, token: str | None, following: str | None) -> Extent:
        """The extent of a page between its continuation token and that of the next page; unbounded on the side of an
        unreadable or missing token."""
        begin, end = _mark(token), _mark(following)
        branch, path = begin or ("", "")
        return cls(branch, path, end[0] if end else None, bool(end and end[1]))

    @classmethod
    def skipped_by(cls, token: str | None) -> Extent | None:
        """Rows possibly skipped by the server between two pages, though both have a location.

        A token cannot spell a path that is not UTF-8, so the next page begins at another path, maybe far behind it.
        None for a token with an exact path.
        """
        mark = _mark(token)
        if mark is None or REPLACED not in mark[1]:
            return None
        return cls(*mark, until=mark[0])

    def after(self, branch: str) -> str | None:
        """The path of a branch behind which the page's rows are; None when the page has no rows of it."""
        name, first = branch.encode(), self.branch.encode()
        if name < first:
            return None
        if self.until is not None:
            last = self.until.encode()
            if name > last or (name == last and not self.into):
                return None
        # A page begins with its path, a list of changes begins behind its path: a shorter path sorts before it.
        inside = name == first and REPLACED not in self.path
        return self.path[:-1] if inside else ""


def _mark(token: str | None) -> tuple[str, str] | None:
    """Branch and path of a continuation token: base64 of JSON."""
    if token is None:
        return None
    try:
        value = json.loads(base64.b64decode(token, validate=True))
        return str(value["branch"]), str(value["path"] or "")
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None


class ServerScan(Struct):
    """A scan of staging."""

    server_run: str = ""  # the server's id of the scan
    pages: int = 0  # number of answers
    empty_pages: int = 0  # answers without a location
    # folders of the other answers, as keys with a trailing slash
    locations: set[str] = field(default_factory=set)
    unsafe: list[Extent] = field(default_factory=list)  # extents of possibly lost rows
    # the server's files: `key`, `rows`, `size_bytes`
    files: list[dict[str, Any]] = field(default_factory=list)
    rows: int = 0  # addresses, with repetitions
    hashes: Hashes = field(default_factory=lambda: NONE)  # of the addresses


def scan_server(run: Run, files: StagedFiles, deadline: float) -> ServerScan:
    """Let the server scan staging until a deadline by `running_seconds`, and copy its addresses to `files`."""
    scan = ServerScan()
    for token, page in _pages(run, deadline):
        _note_page(run, scan, token, page)
    keys = _file_keys(run.reader, scan)
    pieces = []
    for key, data in run.reader.get_many(keys):
        table = read_parquet(data)
        if "physical_address" not in table.column_names:
            raise FormatError(f"{key} has no column physical_address. Nothing was deleted.")
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


def _file_keys(reader: ObjectReader, scan: ServerScan) -> list[str]:
    """Keys of all files in the folders of the answers, and in the default folder of the scan."""
    folders = scan.locations | {uncommitted_key(scan.server_run)}
    keys = [
        key for folder in sorted(folders) for batch in reader.list(folder) for key in batch["key"].to_pylist()
    ]
    with_rows = scan.pages - scan.empty_pages
    if len(keys) < with_rows:
        raise RefusedError(
            f"{with_rows} pages of scan {scan.server_run} wrote a file each, but the store has {len(keys)} files:"
            " staged addresses are missing. Nothing was deleted. Start a new run; if it repeats, read the lakeFS log."
        )
    return keys


def _pages(run: Run, deadline: float) -> Iterator[tuple[str | None, UncommittedPage]]:
    """Yield each page with its own token; None for the first page."""
    token: str | None = None
    seen: set[str] = set()
    while True:
        page = _read_page(run, token)
        yield token, page
        if page.token is None:
            return
        if page.token in seen:
            raise RefusedError(
                f"lakeFS returned the same continuation token twice, so scan {page.run_id} of staging makes no"
                " progress. Nothing was deleted. The server is overloaded, or its setting"
                " ugc.prepare_interval is too short: raise it, then start a new run."
            )
        seen.add(page.token)
        token = page.token
        if running_seconds() > deadline:
            raise RefusedError(
                "the scan of staging did not end within"
                f" {run.plan.config.safety.scan_deadline_seconds:.0f} s. Nothing was deleted. Raise"
                " scan_deadline_seconds if the repository is that large."
            )


def _read_page(run: Run, token: str | None) -> UncommittedPage:
    for attempt in range(1, _PAGE_TRIES + 1):
        try:
            return run.client.prepare_uncommitted(run.plan.repository, token)
        except NotFoundError as error:
            # The deletion of the last branch of a page fails the whole page; the next try skips the branch.
            if "branch not found" in str(error) and attempt < _PAGE_TRIES:
                continue
            raise RefusedError(
                f"{error}. Staging may still have entries. Nothing was deleted. 'commit not found' means a branch"
                " whose head commit is missing: repair it by a hard reset."
            ) from None
    raise AssertionError("unreachable")


def canonical_staged(addresses: pa.ChunkedArray, namespace: str) -> pa.ChunkedArray:
    """Return staged addresses as keys, relative to the namespace, as the server wrote them by contract; the key of a
    full address in the namespace is added."""
    if addresses.null_count:
        raise FormatError("lakeFS wrote a staged row without an address. Nothing was deleted.")
    texts = addresses.cast(pa.string())
    prefix = canonical_namespace(namespace)
    full = pc.starts_with(texts, prefix)
    if pc.any(full).as_py():
        stripped = pc.utf8_slice_codeunits(texts.filter(full), len(prefix))
        texts = pa.chunked_array([*texts.chunks, *stripped.chunks])
    return texts
