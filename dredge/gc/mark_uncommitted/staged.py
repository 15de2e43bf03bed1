"""What mark_uncommitted hands to later steps, and the files that a scan of staging writes.

What a page of the server's scan may have covered: which rows of which branches.

Rows come in (branch, path) order, by the bytes of the names. A page is asked for with the continuation token that the
one before it gave; a token is base64 of JSON, with the branch and the path at which the page begins.

One scan of staging by the server: pages of addresses, written by the server as files, copied by us.

The union of all files counts, whatever location an answer names: an empty page names none, also when it is the last.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.namespaces import canonical_namespace, key_of
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.hashing import hash64
from dredge.lakefs import UncommittedPage
from dredge.lakefs.files.gc_files import uncommitted_key
from dredge.runs.clock import running_seconds
from dredge.runs.folder import RunFolder
from dredge.runs.parts import read_parquet
from dredge.runs.summary import PartInfo, StepOutput
from dredge.sets.hashes import NONE, Hashes, read_hashes, unite, write_hashes

log = logging.getLogger("dredge")

_ADDRESSES, _HASHES, _HEADS = "addresses", "hashes", "heads"


class MarkUncommittedOutput(StepOutput):
    """Everything that branches have staged."""

    STEP = "mark_uncommitted"
    INPUTS = (SliceListingOutput,)

    @property
    def addresses(self) -> list[PartInfo]:
        """Rows of staged addresses: `address`, the key relative to the namespace."""
        return self.parts(f"{_ADDRESSES}-")

    @property
    def hashes(self) -> list[PartInfo]:
        """Sorted hashes of the staged addresses."""
        return self.parts(f"{_HASHES}-")

    @property
    def heads(self) -> PartInfo:
        """Rows of the branch heads that were seen while staging was read: `branch`, `commit_id`."""
        return self.part(f"{_HEADS}-00000.parquet")

    @property
    def exact(self) -> bool:
        """Whether every staging record was read from the key-value store, so that no staged entry can be hidden."""
        found: bool = self.summary.details.get("kv", {}).get("exact", False)
        return found

    @property
    def server_runs(self) -> list[str]:
        """Ids that the server gave to the scans; none where it was not asked for one."""
        found: list[str] = self.detail("server_runs")
        return found


class StagedFiles:
    """Writes staged addresses: files of rows, and beside each a file of the hashes of its addresses.

    Args:
        folder: the run folder.
        where: folder of the files in it.

    Attributes:
        addresses: files of rows.
        hashes: files of sorted hashes.
    """

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
        """Write some addresses, in any order and with repetitions; gives their hashes, sorted and distinct."""
        number = len(self.addresses)
        hashes = unite([hash64(addresses)])
        table = pa.table({"address": addresses})
        self.addresses.append(self._folder.write_table(self._where, number, table, _ADDRESSES))
        self.hashes.append(write_hashes(self._folder, f"{self._where}/{_HASHES}-{number:05d}.u64", hashes))
        return hashes

    def read_hashes(self) -> Hashes:
        """The hashes of all addresses so far."""
        return unite([read_hashes(self._folder, part) for part in self.hashes])


def write_heads(folder: RunFolder, heads: Collection[tuple[str, str]]) -> PartInfo:
    """Write branches, each with a commit that it was seen at."""
    rows = sorted(heads)
    columns = {"branch": [name for name, _ in rows], "commit_id": [commit for _, commit in rows]}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return folder.write_table(MarkUncommittedOutput.STEP, 0, table, _HEADS)


REPLACED = "\ufffd"
"""Stands in answers for bytes of a path that are not UTF-8; under such a name nothing can be asked."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a page of the scan may have covered: from a branch, and a path in it, up to a branch.

    Attributes:
        branch: the first one; "" for the beginning.
        path: rows of the first branch before it were on earlier pages.
        until: the branch that the next page begins with; None when there was no next page.
        into: whether the next page begins inside that branch, so that this one had some of it.
    """

    branch: str = ""
    path: str = ""
    until: str | None = None
    into: bool = True

    @classmethod
    def between(cls, token: str | None, following: str | None) -> Extent:
        """The extent of a page.

        Args:
            token: that it was asked for with; None for the first.
            following: the token that it gave; None for the last.

        Returns:
            Everything, on a side whose token is not understood.
        """
        begin, end = _mark(token), _mark(following)
        branch, path = begin or ("", "")
        return cls(branch, path, end[0] if end else None, bool(end and end[1]))

    @classmethod
    def skipped_by(cls, token: str | None) -> Extent | None:
        """What the server may have passed over between two pages, though both have a location: a token cannot spell
        a path that is not UTF-8, so the next page begins at another one, which may lie far behind it.

        Args:
            token: between the pages; None for none.

        Returns:
            The branch; None for a path that the token spells as it is.
        """
        mark = _mark(token)
        if mark is None or REPLACED not in mark[1]:
            return None
        return cls(*mark, until=mark[0])

    def after(self, branch: str) -> str | None:
        """The path of a branch behind which the page's rows lie; None when it cannot have had any."""
        name, first = branch.encode(), self.branch.encode()
        if name < first:
            return None
        if self.until is not None:
            last = self.until.encode()
            if name > last or (name == last and not self.into):
                return None
        # A page begins with its path, a list of changes behind one: a shorter path lies before it.
        inside = name == first and REPLACED not in self.path
        return self.path[:-1] if inside else ""


def _mark(token: str | None) -> tuple[str, str] | None:
    """Branch and path that a continuation token names."""
    if token is None:
        return None
    try:
        value = json.loads(base64.b64decode(token, validate=True))
        return str(value["branch"]), str(value["path"] or "")
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None


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
