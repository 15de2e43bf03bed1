"""Holds: what keeps a candidate in the store although nothing live names it.

    candidates that the classification found → HOLDS, in order: the first that applies → column `hold`, null: none
                                               (a hold that may be lifted counts only where no other applies)

A held candidate is counted, reported and written to the ledger under its hold's code, and it is not deleted. To add
a hold, write one function and name it in `HOLDS`: counts, limits, the report and the sweep follow by themselves. Only
`SAME_SIZE` may be lifted later on, by a proof about each object (`dredge.gc.check_limits.holds`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.plan import Plan
from dredge.gc.storage_classes import HELD as HELD_CLASSES
from dredge.sets.live import LocatedSet, in_any
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.storage.schemes import canonical_scheme
from dredge.undo.pins import PINNED

UNREADABLE = "unreadable"
ARCHIVED = "archived"
UPLOAD_PARTS = "upload_parts"
NESTED = "nested"
SAME_SIZE = "same_size"

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What holds may know besides the rows.

    Attributes:
        head_sizes: sizes of the entries of branch heads, or more; none where everything that any branch has staged
            was read and is live.
        pinned: hashes of what is kept because somebody brought it back.
        uploading: objects whose uploads in parts may still be going on; None: none.
        nested: beginnings of addresses that are kept because another repository lies there.
        undescribed: whether the store refused to describe the objects, so that rows say nothing but the address.
    """

    head_sizes: tuple[LocatedSet, ...] = ()
    pinned: tuple[LocatedSet, ...] = ()
    uploading: pa.Array | None = None
    nested: tuple[str, ...] = ()
    undescribed: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason to keep candidates.

    Attributes:
        code: what the column `hold`, the ledger and the report call it.
        why: half a sentence for people.
        applies: tells of each row of the listing's schema whether it is held; pure.
        may_be_lifted: whether a proof may lift it later on.
    """

    code: str
    why: str
    applies: Callable[[pa.Table, Evidence], Mask]
    may_be_lifted: bool = False


def undescribed(rows: pa.Table, evidence: Evidence) -> Mask:
    """Objects of unknown age and size."""
    return np.full(rows.num_rows, evidence.undescribed)


def archived(rows: pa.Table, _evidence: Evidence) -> Mask:
    """Objects in a tier that cannot be read and is charged for when it is left early, until they are rehydrated."""
    if "storage_class" not in rows.column_names:  # no store of such tiers
        return np.zeros(rows.num_rows, bool)
    found = pc.is_in(rows["storage_class"], pa.array(HELD_CLASSES))
    return np.asarray(found, bool)


def upload_parts(rows: pa.Table, evidence: Evidence) -> Mask:
    """Parts of uploads that may still be going on, where lakeFS keeps them as objects."""
    if evidence.uploading is None or not len(evidence.uploading):
        return np.zeros(rows.num_rows, bool)
    return np.asarray(pc.is_in(targets_of(rows["address"]), evidence.uploading), bool)


def nested(rows: pa.Table, evidence: Evidence) -> Mask:
    """Objects below a folder in which another repository lies or has left its files."""
    return begin_with(rows["address"], evidence.nested)


def begin_with(addresses: pa.ChunkedArray, beginnings: Sequence[str]) -> Mask:
    """Tell of each address whether it begins with one of some texts."""
    begin = np.zeros(len(addresses), bool)
    for beginning in beginnings:
        begin |= np.asarray(pc.starts_with(addresses, beginning), bool)
    return begin


def same_size(rows: pa.Table, evidence: Evidence) -> Mask:
    """Objects as long as an entry of a branch head, whose content may be uploaded again there.

    Checksums are not compared: a link or an import may claim any, a copy keeps what was claimed, and the ETags of an
    encrypted store are not hashes of the content.
    """
    (found,) = in_any(evidence.head_sizes, [rows["size"].to_numpy().astype(np.uint64)])
    return found


def pinned(rows: pa.Table, evidence: Evidence) -> Mask:
    """Objects that were brought back after a run deleted them, until the end that was given (`dredge.undo.pins`)."""
    (held,) = in_any(evidence.pinned, [rows["hash"].to_numpy()])
    return held


HOLDS: list[Hold] = [
    Hold(UNREADABLE, "the store refuses to describe it, so that its age is unknown", undescribed),
    Hold(
        PINNED, "it was brought back after a run deleted it, and is kept until the end that was given", pinned
    ),
    Hold(
        NESTED,
        "another repository lies in this folder, or was deleted and has left its files; the report names the folder",
        nested,
    ),
    Hold(
        ARCHIVED,
        "it is archived: it cannot be read, and deleting it early is charged; rehydrated it may go",
        archived,
    ),
    Hold(
        UPLOAD_PARTS,
        "a part of an upload that may still be going on: on this store lakeFS keeps parts as objects",
        upload_parts,
    ),
    Hold(
        SAME_SIZE,
        "as long as an object in a branch head, so a branch may read this copy of it",
        same_size,
        may_be_lifted=True,
    ),
]
"""Every hold; of several that apply the first one counts, and one that may be lifted counts last."""


def holds_of(rows: pa.Table, evidence: Evidence) -> pa.StringArray:
    """The code of the hold that counts for each row; null for those that nothing holds.

    Args:
        rows: of the listing's schema.
        evidence: what is known besides.

    Raises:
        TypeError: a hold did not answer yes or no for each row, so nobody can tell what it keeps.
    """
    codes, held = np.full(rows.num_rows, None, object), np.zeros(rows.num_rows, bool)
    # What may be lifted comes last: else a proof about one hold would free what another one holds as well.
    for hold in sorted(HOLDS, key=lambda hold: hold.may_be_lifted):
        applies = np.asarray(hold.applies(rows, evidence))
        if applies.dtype != np.bool_ or applies.shape != held.shape:
            # Numbers would be taken for positions, and hold other rows than were meant.
            raise TypeError(f"hold {hold.code} gave {applies.dtype} {applies.shape} for {len(held)} rows")
        codes[applies & ~held] = hold.code
        held |= applies
    return pa.array(codes, pa.string())


def why_of_hold(code: str) -> str | None:
    """The sentence of a hold; None when no hold has the code."""
    return next((hold.why for hold in HOLDS if hold.code == code), None)


_PIECE = r"(?s)^(?P<target>.+)\.(?:part_[0-9]{5,}(?:_[0-9]+)*|multipart)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """Where parts of uploads are objects; a payload.

    Attributes:
        uri: of the storage namespace.
        since: an upload of which nothing was written from then on was given up.
    """

    uri: str
    since: datetime

    @classmethod
    def of(cls, plan: Plan) -> Uploads | None:
        """Of a run; None where parts are no objects, or none are to be held."""
        hours = plan.config.upload_hours
        if not hours or canonical_scheme(plan.namespace.partition("://")[0]) != "gs":
            return None
        return cls(uri=plan.namespace, since=plan.created_at - timedelta(hours=hours))


def targets_of(addresses: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The object that each address is a piece of, by its name; null for what is a piece of none."""
    return pc.struct_field(pc.extract_regex(addresses, _PIECE), "target")


def going_on(uploads: Uploads, rows: pa.Table, threads: int) -> pa.Array:
    """The objects whose uploads may still be going on, of those that some rows are pieces of.

    The store is asked about an upload of which the rows have nothing new: its newer parts may be too young for a
    listing, or another task's.

    Args:
        uploads: where, and what counts as new.
        rows: of the listing's schema.
        threads: uploads that are looked at together.
    """
    targets = targets_of(rows["address"])
    if targets.null_count == rows.num_rows:
        return pa.array([], pa.string())
    new = targets.filter(_is_new(rows["last_modified"], uploads)).drop_null().unique()
    old = pc.unique(targets.filter(pc.invert(pc.is_in(targets, new))).drop_null()).to_pylist()
    reader = open_reader(uploads.uri)
    touched = ordered_map(partial(_is_touched, reader, uploads), old, threads)
    found = [target for target, is_touched in zip(old, touched, strict=True) if is_touched]
    return pa.array([*new.to_pylist(), *found], pa.string())


def _is_touched(reader: ObjectReader, uploads: Uploads, target: str) -> bool:
    """Whether anything of an upload was written lately."""
    for batch in reader.list(f"{target}."):
        own = pc.fill_null(pc.equal(targets_of(batch["key"]), target), False)
        if pc.any(pc.and_(own, _is_new(batch["last_modified"], uploads))).as_py():
            return True
    return False


def _is_new(times: pa.Array | pa.ChunkedArray, uploads: Uploads) -> pa.BooleanArray:
    return pc.greater_equal(times, pa.scalar(uploads.since, pa.timestamp("us", tz="UTC")))
