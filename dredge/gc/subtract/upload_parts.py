"""Uploads in parts that may still be going on, where lakeFS keeps the parts as objects: on Google Cloud Storage.

    <address>.multipart             written when an upload begins, gone when it is completed
    <address>.part_00001            a part
    <address>.part_00001_1          parts put together, in layers (`…_1_2`), while it is completed
    <address>                       the object

Nothing stages a part, so each looks like garbage as soon as it is older than the minimum age, however long the upload
takes. All that belongs to an upload is held as long as anything of it was written lately; an upload that nobody has
touched for longer was given up.

Source: lakeFS pkg/block/gs (names of parts and markers, composing in layers of 32).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.run import Plan
from dredge.storage import ObjectReader, open_reader
from dredge.storage.parallel import ordered_map
from dredge.storage.schemes import canonical_scheme

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
        hours = plan.config.multipart_idle_hours
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
