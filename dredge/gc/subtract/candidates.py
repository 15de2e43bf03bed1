"""Candidates: listed objects outside the live set, each with the reason why it is garbage, and its hold, if any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.config import GCConfig
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.pending.known import NAME, Known, known_list
from dredge.gc.slice_listing import LISTED, SliceListingOutput
from dredge.gc.subtract.holds import Evidence, Uploads, going_on, holds_of
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up
from dredge.runs.summary import Detail, NamedParts, PartInfo, StepOutput
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet

EXPIRED = "expired"
NEVER_LINKED = "never_linked"
UNREFERENCED = "unreferenced"

# The reasons of candidates, each with its text in reports.
REASONS = {
    EXPIRED: "referenced by expired commits only",
    NEVER_LINKED: "uploaded to an address that lakeFS handed out, and not linked (any more)",
    UNREFERENCED: "not referenced: overwritten, deleted or reset before a commit, or its history was deleted",
}

# `reason` is a key of `REASONS`; `hold` is the code of a hold, null without one.
CANDIDATES = pa.schema(
    [*LISTED, pa.field("reason", pa.string(), nullable=False), pa.field("hold", pa.string())]
)

# lakeFS signs the addresses that it hands out for uploads.
_SIGNED = r",[A-Za-z0-9_-]{43}$"
_MICROSECONDS_OF_A_DAY = 86_400_000_000


class SubtractOutput(StepOutput):
    """The candidates of a run."""

    STEP = "subtract"
    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput)

    # Rows of `CANDIDATES`.
    candidates = NamedParts("part-")
    # Sorted hashes of the candidates without a hold, a file for each of `candidates`.
    hashes = NamedParts("hashes-")
    # Rows of unreferenced objects younger than the cutoff.
    young = NamedParts("young-")
    # Objects, bytes and examples by reason.
    reasons: Detail[dict[str, dict[str, Any]]] = Detail("reasons")
    # Prefixes of addresses kept because of another repository, possibly a deleted one.
    nested: Detail[list[str]] = Detail("nested", default=[])

    @property
    def with_holds(self) -> list[PartInfo]:
        """The files of `candidates` with held rows: they have more rows than hashes."""
        free = {_stem(part): part.rows for part in self.hashes}
        return [part for part in self.candidates if free.get(_stem(part)) != part.rows]

    def known_list(self, folder: RunFolder) -> Known:
        """The pending list before this run."""
        return known_list(folder, self.part(NAME))


def _stem(part: PartInfo) -> str:
    return part.name.partition("-")[2].partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtractConfig:
    """The config of the step's tasks; a payload."""

    settings: GCConfig
    live: LiveSet  # hashes of all live addresses
    # sizes of the entries of branch heads; empty where all staging records were read
    head_sizes: tuple[LocatedSet, ...]
    expired: ShardedSet  # hashes of the addresses in ranges of expired commits only
    # sizes of the entries of branch heads of referring repositories whose staging records were not read
    sizes_there: tuple[LocatedSet, ...] = ()
    pinned: tuple[LocatedSet, ...] = ()  # hashes of restored objects
    uploads: Uploads | None = None  # where upload parts are objects; None elsewhere
    nested: tuple[str, ...] = ()  # prefixes of addresses kept because of another repository
    dead: ShardedSet | None = None  # hashes of the listing outside the live set, after a comparison by shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The candidates of a task; a payload."""

    # files of rows, and of hashes of the rows without a hold
    parts: list[PartInfo] = field(default_factory=list)
    by_reason: dict[str, Figures] = field(default_factory=dict)  # all candidates; examples are without a hold
    by_hold: dict[str, Figures] = field(default_factory=dict)  # held candidates

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(
            parts=[*self.parts, *other.parts],
            by_reason=add_up([self.by_reason, other.by_reason]),
            by_hold=add_up([self.by_hold, other.by_hold]),
        )

    @property
    def total(self) -> Figures:
        """All candidates."""
        return sum(self.by_reason.values(), Figures())


def classify(
    folder: RunFolder, rows: pa.Table, config: SubtractConfig, undescribed: bool = False
) -> pa.Table:
    """Add reasons and holds to unreferenced objects; return rows of `CANDIDATES`. `undescribed`: the store refused to
    describe the objects, and only their addresses are known."""
    _check(rows)
    evidence = Evidence(
        head_sizes=config.head_sizes,
        sizes_there=config.sizes_there,
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
    return pa.array(np.where(found, EXPIRED, np.where(signed, NEVER_LINKED, UNREFERENCED)), pa.string())


def write_candidates(
    folder: RunFolder,
    config: SubtractConfig,
    tables: Iterable[pa.Table],
    name: str,
    undescribed: bool = False,
) -> Candidates:
    """Classify unreferenced objects and write them as candidates, a file for each table; `name` is the same in each
    try of the task. `undescribed` as in `classify`."""
    written = Candidates()
    for index, table in enumerate(tables):
        rows = classify(folder, table, config, undescribed)
        free = rows.filter(pc.is_null(rows["hold"]))
        part = folder.write_table(SubtractOutput.STEP, index, rows, f"part-{name}", grouped=True)
        hashes_name = f"{SubtractOutput.STEP}/hashes-{name}-{index:05d}.u64"
        hashes = write_hashes(folder, hashes_name, unite([free["hash"].to_numpy()]))
        written += Candidates(
            parts=[part, hashes],
            by_reason=_by_reason(rows, free),
            by_hold=sums_by("hold", rows.filter(pc.is_valid(rows["hold"]))),
        )
    return written


def _by_reason(rows: pa.Table, free: pa.Table) -> dict[str, Figures]:
    found = {}
    for reason, sums in sums_by("reason", rows).items():
        examples = free["address"].filter(pc.equal(free["reason"], reason))[:EXAMPLES_MAX].to_pylist()
        found[reason] = replace(sums, examples=tuple(examples))
    return found


def sums_by(column: str, rows: pa.Table) -> dict[str, Figures]:
    """Count objects and bytes by a column."""
    groups = rows.group_by(column).aggregate([("size", "count"), ("size", "sum")]).to_pylist()
    return {
        group[column]: Figures(objects=group["size_count"], size_bytes=group["size_sum"]) for group in groups
    }
