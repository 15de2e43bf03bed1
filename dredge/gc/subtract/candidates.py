"""Candidates: listed objects outside the live set, each with the reason why it is garbage, and its hold, if any.

A hold is a reason for keeping a candidate in the store although it is not live.

    candidates → HOLDS in order: the first applicable hold → column `hold`, null for none
                 (a liftable hold counts only without another hold)

A held candidate is counted, reported and written to the ledger with the code of its hold, and not deleted. To add a
hold, write a function and name it in `HOLDS`: counts, limits, the report and the sweep follow. A proof can lift only
`SAME_SIZE` (see `dredge.gc.check_limits.holds`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import FormatError
from dredge.gc.config import GCConfig
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.namespaces import DATA
from dredge.gc.pending.known import NAME, Known
from dredge.gc.run import Plan
from dredge.gc.slice_listing import LISTED, SliceListingOutput
from dredge.gc.storage_classes import HELD as HELD_CLASSES
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up
from dredge.runs.payload import Detail, NamedParts, PartInfo, StepOutput, from_file
from dredge.sets.hashes import unite, write_hashes
from dredge.sets.live import LiveSet, LocatedSet, ShardedSet, in_any
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.storage.schemes import canonical_scheme
from dredge.undo.pins import PINNED

UNREADABLE = "unreadable"
ARCHIVED = "archived"
UPLOAD_PARTS = "upload_parts"
NESTED = "nested"
SAME_SIZE = "same_size"
SAME_SIZE_THERE = "same_size_there"

type Mask = npt.NDArray[np.bool_]


class Evidence(Struct, frozen=True, kw_only=True):
    """Evidence for holds, in addition to the rows."""

    # sizes of the entries of branch heads; empty where all staging records were read
    head_sizes: tuple[LocatedSet, ...] = ()
    # sizes of the entries of branch heads of referring repositories whose staging records were not read
    sizes_there: tuple[LocatedSet, ...] = ()
    pinned: tuple[LocatedSet, ...] = ()  # hashes of restored objects
    uploading: pa.Array | None = None  # objects with possibly unfinished multipart uploads; None for none
    nested: tuple[str, ...] = ()  # prefixes of addresses kept because of another repository
    undescribed: bool = False  # the store refused to describe the objects; only their addresses are known


class Hold(Struct, frozen=True):
    """A reason to keep candidates."""

    code: str
    why: str  # its text in reports
    applies: Callable[[pa.Table, Evidence], Mask]  # returns a mask of the held rows; pure
    may_be_lifted: bool = False  # a proof may lift it later


def undescribed(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold objects of unknown age and size."""
    return np.full(rows.num_rows, evidence.undescribed)


def archived(rows: pa.Table, _evidence: Evidence) -> Mask:
    """Hold objects in a tier without read access and with an early deletion fee, until they are rehydrated."""
    if "storage_class" not in rows.column_names:  # a store without such tiers
        return np.zeros(rows.num_rows, bool)
    found = pc.is_in(rows["storage_class"], pa.array(HELD_CLASSES))
    return np.asarray(found, bool)


def upload_parts(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold parts of possibly unfinished uploads."""
    if evidence.uploading is None or not len(evidence.uploading):
        return np.zeros(rows.num_rows, bool)
    return np.asarray(pc.is_in(targets_of(rows["address"]), evidence.uploading), bool)


def nested(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold objects in folders of other repositories, also of deleted repositories."""
    return begin_with(rows["address"], evidence.nested)


def begin_with(addresses: pa.ChunkedArray, prefixes: Sequence[str]) -> Mask:
    """The mask of the addresses with a prefix."""
    begin = np.zeros(len(addresses), bool)
    for prefix in prefixes:
        begin |= np.asarray(pc.starts_with(addresses, prefix), bool)
    return begin


def same_size(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold objects of the size of an entry in a branch head: identical content may be staged there again."""
    # Checksums are not compared: a link or an import may claim any, a copy keeps the claimed one, and the ETags of an
    # encrypted store are not hashes of the content.
    (found,) = in_any(evidence.head_sizes, [rows["size"].to_numpy().astype(np.uint64)])
    return found


def same_size_there(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold objects of the size of an entry in a branch head of a referring repository, for the same reason."""
    (found,) = in_any(evidence.sizes_there, [rows["size"].to_numpy().astype(np.uint64)])
    return found


def pinned(rows: pa.Table, evidence: Evidence) -> Mask:
    """Hold restored objects until the end of their pin."""
    (held,) = in_any(evidence.pinned, [rows["hash"].to_numpy()])
    return held


# The first one that applies counts; one that may be lifted counts last.
HOLDS: list[Hold] = [
    Hold(UNREADABLE, "the store refuses to describe it, so its age is unknown", undescribed),
    Hold(PINNED, "it was restored after a run deleted it, and is kept until the end of its pin", pinned),
    Hold(
        NESTED,
        "its folder belongs to another repository, or a deleted one left its files; the report has the folder",
        nested,
    ),
    Hold(
        ARCHIVED,
        "it is archived: it cannot be read, and deleting it early is charged; rehydrated it may be deleted",
        archived,
    ),
    Hold(
        UPLOAD_PARTS,
        "a part of an upload that may be in progress: on this store lakeFS keeps parts as objects",
        upload_parts,
    ),
    Hold(
        SAME_SIZE_THERE,
        "same size as an object in a branch head of a referring repository, whose staging records were not read"
        " (kv_conn_id reads them); the branch may be reading this copy",
        same_size_there,
    ),
    Hold(
        SAME_SIZE,
        "same size as an object in a branch head; the branch may be reading this copy",
        same_size,
        may_be_lifted=True,
    ),
]


def holds_of(rows: pa.Table, evidence: Evidence, holds: Sequence[Hold] | None = None) -> pa.StringArray:
    """The code of the hold on each row of a listing; null without a hold."""
    codes, held = np.full(rows.num_rows, None, object), np.zeros(rows.num_rows, bool)
    # Liftable holds last: else a proof about one hold would free objects of another one.
    for hold in sorted(HOLDS if holds is None else holds, key=lambda hold: hold.may_be_lifted):
        applies = np.asarray(hold.applies(rows, evidence))
        if applies.dtype != np.bool_ or applies.shape != held.shape:
            # Numbers would be used as positions, and hold other rows.
            raise TypeError(f"hold {hold.code} gave {applies.dtype} {applies.shape} for {len(held)} rows")
        codes[applies & ~held] = hold.code
        held |= applies
    return pa.array(codes, pa.string())


def why_of_hold(code: str) -> str | None:
    """The text of a hold; None for an unknown code."""
    return next((hold.why for hold in HOLDS if hold.code == code), None)


# Multipart uploads on Google Cloud Storage, where lakeFS keeps the parts as objects (pkg/block/gs):
#
#     <address>.multipart             written at the beginning of an upload, deleted at its end
#     <address>.part_00001            a part
#     <address>.part_00001_1          composed parts, in layers of 32 (`…_1_2`), while the upload is completed
#     <address>                       the object
#
# Parts are not staged, so each looks like garbage once it is older than the minimum age, however long the upload takes.
# All parts of an upload are held while one of them is new; an upload without a new part was abandoned.
_PIECE = r"(?s)^(?P<target>.+)\.(?:part_[0-9]{5,}(?:_[0-9]+)*|multipart)$"


class Uploads(Struct, frozen=True, kw_only=True):
    """Where parts of uploads are objects; a payload."""

    uri: str  # of the storage namespace
    since: datetime  # an upload without a part written since then was abandoned

    @classmethod
    def of(cls, plan: Plan) -> Uploads | None:
        """The uploads of a run; None where parts are no objects, or `multipart_idle_hours` is 0."""
        hours = plan.config.multipart_idle_hours
        if not hours or canonical_scheme(plan.namespace.partition("://")[0]) != "gs":
            return None
        return cls(uri=plan.namespace, since=plan.created_at - timedelta(hours=hours))


def targets_of(addresses: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The object of each part, by name; null for other addresses."""
    return pc.struct_field(pc.extract_regex(addresses, _PIECE), "target")


def going_on(uploads: Uploads, rows: pa.Table, threads: int) -> pa.Array:
    """The objects with possibly unfinished uploads, for the parts among some rows of a listing."""
    targets = targets_of(rows["address"])
    if targets.null_count == rows.num_rows:
        return pa.array([], pa.string())
    new = targets.filter(_is_new(rows["last_modified"], uploads)).drop_null().unique()
    # Newer parts of these may be too young for the listing, or in the listing of another task.
    old = pc.unique(targets.filter(pc.invert(pc.is_in(targets, new))).drop_null()).to_pylist()
    reader = open_reader(uploads.uri)
    touched = ordered_map(partial(_is_touched, reader, uploads), old, threads)
    found = [target for target, is_touched in zip(old, touched, strict=True) if is_touched]
    return pa.array([*new.to_pylist(), *found], pa.string())


def _is_touched(reader: ObjectReader, uploads: Uploads, target: str) -> bool:
    for batch in reader.list(f"{target}."):
        own = pc.fill_null(pc.equal(targets_of(batch["key"]), target), False)
        if pc.any(pc.and_(own, _is_new(batch["last_modified"], uploads))).as_py():
            return True
    return False


def _is_new(times: pa.Array | pa.ChunkedArray, uploads: Uploads) -> pa.BooleanArray:
    return pc.greater_equal(times, pa.scalar(uploads.since, pa.timestamp("us", tz="UTC")))


EXPIRED = "expired"
NEVER_LINKED = "never_linked"
UNREFERENCED = "unreferenced"

# The reasons of candidates, each with its text in reports.
REASONS = {
    EXPIRED: "referenced by expired commits only",
    NEVER_LINKED: "uploaded to an address that lakeFS handed out, and not linked now",
    UNREFERENCED: "not referenced: overwritten, deleted or reset before a commit, or its history was deleted",
}

# `reason` is a key of `REASONS`; `hold` is the code of a hold, null without one.
CANDIDATES = pa.schema(
    [*LISTED, pa.field("reason", pa.string(), nullable=False), pa.field("hold", pa.string())]
)

# lakeFS signs the addresses that it hands out for uploads.
_SIGNED = r",[A-Za-z0-9_-]{43}$"


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
        """The pending list before this run; raises FormatError if it is damaged."""
        return from_file(Known, json.loads(folder.read_bytes(self.part(NAME))))


def _stem(part: PartInfo) -> str:
    return part.name.partition("-")[2].partition(".")[0]


class SubtractConfig(Struct, frozen=True, kw_only=True):
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


class Candidates(Struct, frozen=True, kw_only=True):
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
            "the hashes of the listing do not match its addresses. Nothing was deleted. Start a new run."
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
