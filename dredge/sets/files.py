"""Sets of hashes as files of a folder."""

from __future__ import annotations

from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets import hashes as plain
from dredge.sets import refcounts
from dredge.sets.hashes import Hashes
from dredge.sets.refcounts import Counted


def write_hashes(folder: RunFolder, name: str, hashes: Hashes) -> PartInfo:
    """Write a set as a part; by convention its name ends with `.u64`."""
    return folder.write_bytes(name, plain.to_bytes(hashes), len(hashes))


def read_hashes(folder: RunFolder, part: PartInfo) -> Hashes:
    """Read a set.

    Raises:
        FormatError: not as it was written.
    """
    return plain.from_bytes(folder.read_bytes(part), part.name)


def write_counted(folder: RunFolder, name: str, counted: Counted) -> PartInfo:
    """Write hashes with their counts as a part; by convention its name ends with `.counts`."""
    return folder.write_bytes(name, refcounts.to_bytes(counted), len(counted.hashes))


def read_counted(folder: RunFolder, part: PartInfo) -> Counted:
    """Read hashes with their counts.

    Raises:
        FormatError: not as it was written.
    """
    return refcounts.from_bytes(folder.read_bytes(part), part.rows, part.name)
