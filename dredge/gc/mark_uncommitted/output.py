"""What mark_uncommitted hands to later steps, and the files that a scan of staging writes."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from dredge.gc.slice_listing import SliceListingOutput
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo, StepOutput
from dredge.sets.hashes import Hashes, read_hashes, unite, write_hashes

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
