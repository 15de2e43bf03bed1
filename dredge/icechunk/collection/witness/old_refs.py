"""`refs/` beside `repo`: left by an upgrade to spec 2, or written by a program that goes on with spec 1.

The repo info knows nothing of what such a program commits. A ref file or a tip that is later than the upgrade shows
one; files of before the upgrade are left over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dredge.errors import NotFoundError
from dredge.icechunk.format.refs import REFS_FOLDER, live_refs, parse_ref
from dredge.icechunk.format.snapshots import instant, parse_snapshot
from dredge.icechunk.repository import SNAPSHOTS
from dredge.storage import ObjectReader


@dataclass(frozen=True, slots=True)
class OldRef:
    """A ref of spec 1 in a repository of spec 2.

    Attributes:
        label: "branch:main" or "tag:v1".
        tip: id of the snapshot that it points to.
        written_at: time of its file, by the store's clock.
    """

    label: str
    tip: str
    written_at: datetime


def read_old_refs(reader: ObjectReader) -> list[OldRef]:
    """Read the refs of spec 1; [] when there are none.

    Raises:
        FormatError: a file in `refs/` is no ref, or holds no id.
    """
    times: dict[str, datetime] = {}
    for batch in reader.list(REFS_FOLDER):
        times |= zip(batch["key"].to_pylist(), batch["last_modified"].to_pylist(), strict=True)
    names = {key: ref for ref, key in live_refs([key for key in times if not key.endswith("/")]).items()}
    return [
        OldRef(":".join(names[key]), parse_ref(data, key), times[key])
        for key, data in reader.get_many(sorted(names))
    ]


def later_than(reader: ObjectReader, ref: OldRef, migrated_at: int | None) -> bool:
    """Whether a ref file or its tip is later than the upgrade; also when the time of the upgrade is not known.

    Args:
        reader: on the repository.
        ref: of spec 1.
        migrated_at: time of the upgrade (microseconds).
    """
    if migrated_at is None or ref.written_at > instant(migrated_at):
        return True
    key = SNAPSHOTS + ref.tip
    try:
        return parse_snapshot(reader.get(key), key).flushed_at > migrated_at
    except NotFoundError:
        return False
