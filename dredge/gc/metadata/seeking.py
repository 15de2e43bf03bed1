"""Metaranges that a commit names and that are not there: which run deleted them, and whether a copy is left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow.compute as pc

from dredge.gc.metadata.output import MetadataOutput
from dredge.gc.metadata.taking import DELETED, find_copies, put_back
from dredge.gc.namespaces import METADATA
from dredge.gc.plan import METADATA_RUNS
from dredge.lakefs.files.ranges import read_metarange
from dredge.runs.folder import RunFolder, run_ids
from dredge.storage import StorageOptions, open_reader, open_writer

_EVER = 36_500.0
"""Days: whatever copies there are, they are the right ones."""


@dataclass(slots=True)
class Sought:
    """What was found of missing files.

    Attributes:
        back: names of those that were put back; with a metarange its ranges.
        deleted_by: id of the collection of metadata that deleted one, by name.
    """

    back: list[str] = field(default_factory=list)
    deleted_by: dict[str, str] = field(default_factory=dict)


def seek_metaranges(
    namespace: str,
    missing: Collection[str],
    there: Collection[str],
    now: datetime,
    options: StorageOptions | None = None,
) -> Sought:
    """Look for metaranges in the ledgers of collections of metadata, and put back what they have copies of.

    Args:
        namespace: URI of the storage namespace.
        missing: metaranges that are not there.
        there: names of the files that are.
        now: by the store's clock.
        options: how the store is reached; None reads the environment.

    Raises:
        FormatError: a ledger or a copy is damaged.
    """
    found = Sought(deleted_by=_deleted_by(namespace, missing, options))
    back = put_back(namespace, find_copies(namespace, missing, now, _EVER, options), options)
    reader = open_reader(namespace, options)
    ranges = {
        info.id
        for name in back
        for info in read_metarange(reader.get(METADATA + name), METADATA + name, expected_id=name).ranges
    }
    copies = find_copies(namespace, ranges.difference(there), now, _EVER, options)
    found.back = [*back, *put_back(namespace, copies, options)]
    return found


def _deleted_by(namespace: str, names: Collection[str], options: StorageOptions | None) -> dict[str, str]:
    root = f"{namespace.rstrip('/')}/{METADATA_RUNS}"
    found: dict[str, str] = {}
    for run_id in run_ids(open_reader(root, options)):  # the newest first
        folder = RunFolder(open_writer(f"{root}/{run_id}", options), run_id)
        summary = folder.last_summary(MetadataOutput.STEP) or folder.read_incomplete(MetadataOutput.STEP)
        for part in () if summary is None else MetadataOutput.of(summary).ledger:
            rows = folder.read_part(part, ["name", "outcome"])
            gone = rows.filter(pc.equal(rows["outcome"], DELETED))["name"].to_pylist()
            found = dict.fromkeys({*gone} & {*names}, run_id) | found
    return found
