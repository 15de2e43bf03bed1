"""What a mark found, as rows that the pending list is advanced by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dredge.gc.check_limits import Holds
from dredge.runs.folder import RunFolder
from dredge.runs.pending.rows import FOUND, YOUNG
from dredge.runs.summary import PartInfo

_TAKEN = ["address", "hash", "size", "etag", "last_modified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Files of rows; a payload.

    Attributes:
        candidates: rows of candidates.
        young: rows of young objects.
        cut: rows of either that were cut into shards (`FOUND`).
        before: rows of the list that were, or are to be, cut.
    """

    candidates: list[PartInfo] = field(default_factory=list)
    young: list[PartInfo] = field(default_factory=list)
    cut: list[PartInfo] = field(default_factory=list)
    before: list[PartInfo] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many objects were found."""
        return sum(part.rows for part in (*self.candidates, *self.young, *self.cut))

    def read_found(self, folder: RunFolder, holds: Holds) -> Iterator[pa.Table]:
        """Read what was found, as rows of `FOUND`.

        Args:
            folder: the run folder.
            holds: what holds candidates, `plain`.
        """
        for part in self.candidates:
            rows = folder.read_part(part, [*_TAKEN, "reason", "hold"])
            yield _as_cut(rows, holds.codes_of(rows), rows["reason"])
        for part in self.young:
            rows = folder.read_part(part, _TAKEN)
            nothing = pa.nulls(rows.num_rows, pa.string())
            yield _as_cut(rows, pa.array([YOUNG] * rows.num_rows, pa.string()), nothing)
        yield from folder.read_parts(self.cut)


def plain(holds: Holds) -> Holds:
    """What holds candidates but the wait itself."""
    return replace(holds, confirmed=None)


def _as_cut(rows: pa.Table, codes: pa.Array, reasons: pa.Array) -> pa.Table:
    columns = {name: rows[name] for name in _TAKEN}
    columns |= {"version_id": pa.nulls(rows.num_rows, pa.string()), "code": codes, "reason": reasons}
    cast = [columns[item.name].cast(item.type) for item in FOUND]
    return pa.Table.from_arrays(cast, schema=FOUND)
