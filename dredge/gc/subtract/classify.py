"""Classifies objects that nothing live names: why each is garbage, and what holds it nevertheless."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.config import GCConfig
from dredge.gc.namespaces import DATA
from dredge.gc.slice_listing import LISTED
from dredge.gc.subtract import reasons
from dredge.gc.subtract.early_deletion import Early, add_early, early_deletions
from dredge.gc.subtract.holds import Evidence, holds_of
from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.upload_parts import Uploads, going_on
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet

CANDIDATES = pa.schema(
    [*LISTED, pa.field("reason", pa.string(), nullable=False), pa.field("hold", pa.string())]
)
"""Rows of candidates: `reason` is one of `REASONS`; `hold` is the code of what holds the object, null: nothing."""

_SIGNED = r",[A-Za-z0-9_-]{43}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtractConfig:
    """What every task of this step needs; a payload.

    Attributes:
        settings: what the user asked for.
        live: hashes of every address that is live.
        head_sizes: sizes of the entries of branch heads, or more, where an object of such a size may be read.
        expired: hashes of the addresses that only ranges of expired commits name.
        pinned: hashes of what is kept because somebody brought it back.
        as_of: the store's time when the run was planned; None counts no early deletions.
        uploads: where parts of uploads are objects; None: nowhere.
        nested: beginnings of addresses that are kept because another repository lies there.
        dead: hashes of the listing that are not live, where they were found shard by shard (`by_shard`).
    """

    settings: GCConfig
    live: LiveSet
    head_sizes: tuple[LocatedSet, ...]
    expired: ShardedSet
    pinned: tuple[LocatedSet, ...] = ()
    as_of: datetime | None = None
    uploads: Uploads | None = None
    nested: tuple[str, ...] = ()
    dead: ShardedSet | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Candidates that a task wrote; a payload.

    Attributes:
        parts: rows, and hashes of those that nothing holds.
        by_reason: figures of all of them; the examples are of those that nothing holds.
        by_hold: figures of the held ones.
        early: of those that nothing holds, by class, the ones that are charged for when they go now.
    """

    parts: list[PartInfo] = field(default_factory=list)
    by_reason: dict[str, Figures] = field(default_factory=dict)
    by_hold: dict[str, Figures] = field(default_factory=dict)
    early: dict[str, Early] = field(default_factory=dict)

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(
            parts=[*self.parts, *other.parts],
            by_reason=add_up([self.by_reason, other.by_reason]),
            by_hold=add_up([self.by_hold, other.by_hold]),
            early=add_early([self.early, other.early]),
        )

    @property
    def objects(self) -> int:
        """How many candidates there are."""
        return sum(figures.objects for figures in self.by_reason.values())

    @property
    def size_bytes(self) -> int:
        """Their sizes together."""
        return sum(figures.size_bytes for figures in self.by_reason.values())


def classify(
    folder: RunFolder, rows: pa.Table, config: SubtractConfig, undescribed: bool = False
) -> pa.Table:
    """Say of objects that are not live why each is garbage, and what holds it.

    Args:
        folder: the run folder.
        rows: of the listing's schema.
        config: of the step.
        undescribed: the store refused to describe the objects; rows say nothing but the address.

    Returns:
        Rows of `CANDIDATES`.

    Raises:
        FormatError: a row that cannot be a candidate.
    """
    _check(rows)
    evidence = Evidence(
        head_sizes=config.head_sizes,
        pinned=config.pinned,
        uploading=config.uploads and going_on(config.uploads, rows, config.settings.tuning.threads),
        nested=config.nested,
        undescribed=undescribed,
    )
    columns = [rows[name] for name in LISTED.names]
    columns += [_reasons(folder, rows, config.expired), holds_of(rows, evidence)]
    return pa.Table.from_arrays(columns, schema=CANDIDATES)


def _check(rows: pa.Table) -> None:
    addresses = rows["address"]
    strays = pc.invert(pc.starts_with(addresses, DATA))
    if pc.any(strays).as_py():
        stray = addresses.filter(strays)[0].as_py()
        raise FormatError(f"{stray!r} is not below {DATA} and can be no candidate. Nothing was deleted.")
    if not np.array_equal(hash64(addresses), rows["hash"].to_numpy()):
        raise FormatError(
            "hashes of the listing do not fit its addresses. Nothing was deleted. Start a new run."
        )


def _reasons(folder: RunFolder, rows: pa.Table, expired: ShardedSet) -> pa.Array:
    signed = pc.match_substring_regex(rows["address"], _SIGNED).to_numpy()
    (found,) = expired.find(folder, [rows["hash"].to_numpy()])
    why = np.where(found, reasons.EXPIRED, np.where(signed, reasons.NEVER_LINKED, reasons.UNREFERENCED))
    return pa.array(why, pa.string())


def write_candidates(
    folder: RunFolder,
    config: SubtractConfig,
    tables: Iterable[pa.Table],
    name: str,
    undescribed: bool = False,
) -> Candidates:
    """Classify rows that are not live and write them as candidates.

    Args:
        folder: the run folder.
        config: of the step.
        tables: rows of the listing's schema; each becomes a file.
        name: of the files; the same task must always give the same.
        undescribed: the store refused to describe the objects; rows say nothing but the address.
    """
    written = Candidates()
    for index, table in enumerate(tables):
        rows = classify(folder, table, config, undescribed)
        free = rows.filter(pc.is_null(rows["hold"]))
        part = folder.write_table(SubtractOutput.STEP, index, rows, f"part-{name}", grouped=True)
        hashes_name = f"{SubtractOutput.STEP}/hashes-{name}-{index:05d}.u64"
        hashes = write_hashes(folder, hashes_name, unite([free["hash"].to_numpy()]))
        early = {} if config.as_of is None else early_deletions(free, config.as_of)
        written += Candidates(
            parts=[part, hashes], by_reason=_by_reason(rows), by_hold=_by_hold(rows), early=early
        )
    return written


def _by_reason(rows: pa.Table) -> dict[str, Figures]:
    found = {}
    for group in _sums(rows, "reason"):
        of_reason = rows.filter(pc.and_(pc.equal(rows["reason"], group["reason"]), pc.is_null(rows["hold"])))
        examples = of_reason["address"].slice(0, EXAMPLES_MAX).to_pylist()
        found[group["reason"]] = Figures(
            objects=group["size_count"], size_bytes=group["size_sum"], examples=tuple(examples)
        )
    return found


def _by_hold(rows: pa.Table) -> dict[str, Figures]:
    return {
        group["hold"]: Figures(objects=group["size_count"], size_bytes=group["size_sum"])
        for group in _sums(rows, "hold")
        if group["hold"] is not None
    }


def _sums(rows: pa.Table, column: str) -> list[dict[str, Any]]:
    sums: list[dict[str, Any]] = (
        rows.group_by(column).aggregate([("size", "count"), ("size", "sum")]).to_pylist()
    )
    return sums
