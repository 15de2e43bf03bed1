"""The candidates of a run, and what became of them, a page of rows at a time.

Rows lie in parts of some 100,000, in the order in which they were listed. A page reads only the parts that it
shows, and goes on where the last one ended: (part, row). Another order takes a look at every part, once.
Before the sweep rows are those of `subtract` with what holds them; after it those of the ledger.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.bulk_delete import BulkDeleteOutput, why_kept
from dredge.gc.check_limits import CheckLimitsOutput, Holds, why_held
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.icechunk.collection.bulk_delete import BulkDeleteOutput as IcechunkBulkDelete
from dredge.icechunk.collection.kinds import FOLDERS
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.pages.history import uri_of
from dredge.pages.places import KV, LAKEFS, Place
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.output import StepOutput
from dredge.runs.summary import PartInfo
from dredge.storage import open_writer

PAGE_ROWS = 100
SORTS = {"": "as listed", "size": "largest first", "-size": "smallest first", "address": "by address"}
"""Orders of rows, in words."""
SORTED_MAX = 5000
"""Rows that a sorted list goes on for."""
PARTS_A_PAGE = 12
"""Parts that a page looks through for rows that match, before it stops and offers to go on."""
SCHEMA = pa.schema(
    [
        pa.field("address", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
    ]
)
MAY_GO, HELD = "may go", "held"
"""Outcomes of candidates that no sweep has met yet."""
_DIRECTIONS = {"size": "descending", "-size": "ascending"}
_TABLES_KEPT = 6
_ORDERS_KEPT = 12

type _Tables = OrderedDict[tuple[str, str], pa.Table]

_tables: _Tables = OrderedDict()
_orders: _Tables = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are wanted; "" and None ask for all.

    Attributes:
        prefix: of the address.
        reason: why it is garbage.
        outcome: what became of it.
        size_min: bytes.
        size_max: bytes.
    """

    prefix: str = ""
    reason: str = ""
    outcome: str = ""
    size_min: int | None = None
    size_max: int | None = None

    def mask(self, rows: pa.Table) -> pa.ChunkedArray | None:
        """Which of the rows are wanted; None for all."""
        wanted = []
        if self.prefix:
            wanted.append(pc.starts_with(rows["address"], pattern=self.prefix))
        for name, value in (("reason", self.reason), ("outcome", self.outcome)):
            if value:
                wanted.append(pc.equal(rows[name], value))
        if self.size_min is not None:
            wanted.append(pc.greater_equal(rows["size"], self.size_min))
        if self.size_max is not None:
            wanted.append(pc.less_equal(rows["size"], self.size_max))
        mask = None
        for item in wanted:
            mask = item if mask is None else pc.and_(mask, item)
        return mask


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows.

    Attributes:
        rows: of `SCHEMA`.
        next: where the next page begins; "" when there is none.
        looked_at: rows that were looked at for this page.
    """

    rows: pa.Table
    next: str
    looked_at: int


class Objects:
    """The objects of a run.

    Args:
        place: whose run.
        run_id: its id.

    Raises:
        NotFoundError: no such run.
        FormatError: its files are damaged.
    """

    def __init__(self, place: Place, run_id: str) -> None:
        self._uri = uri_of(place, run_id)
        self._folder = RunFolder(open_writer(self._uri, place.options), run_id)
        candidates, self.parts, self.is_settled = _parts(self._folder, place.kind)
        self._holds = None if candidates is None or self.is_settled else _holds(self._folder, place.kind)

    @property
    def num_rows(self) -> int:
        """How many objects there are."""
        return sum(part.rows for part in self.parts)

    def page(self, wanted: Filter, start: str = "", limit: int = PAGE_ROWS) -> Page:
        """Read rows in the order of their listing.

        Args:
            wanted: which.
            start: `next` of the page before; "" begins.
            limit: rows of a page.

        Raises:
            ConfigError: `start` is not from a page.
        """
        first, offset = _position(start, len(self.parts))
        found: list[pa.Table] = []
        looked_at = 0
        for number in range(first, len(self.parts)):
            if number - first >= PARTS_A_PAGE:
                return Page(_together(found), f"{number}-0", looked_at)
            rows = self._rows(self.parts[number])
            indices = _indices(rows, wanted)
            indices = indices[indices >= offset]
            missing = limit - sum(table.num_rows for table in found)
            found.append(rows.take(pa.array(indices[:missing])))
            looked_at += rows.num_rows - offset
            if len(indices) > missing:
                return Page(_together(found), f"{number}-{indices[missing]}", looked_at)
            offset = 0
        return Page(_together(found), "", looked_at)

    def sorted(self, wanted: Filter, sort: str, start: str = "", limit: int = PAGE_ROWS) -> Page:
        """Read rows in another order than that of their listing.

        Args:
            wanted: which.
            sort: of `SORTS`.
            start: `next` of the page before; "" begins.
            limit: rows of a page.

        Raises:
            ConfigError: there is no such order, or `start` is not from a page.
        """
        if sort not in SORTS or not (start or "0").isdecimal() or int(start or 0) >= SORTED_MAX:
            raise ConfigError("this is not an order of objects, or not where a page of them begins")
        first = int(start or 0)
        rows = self._in_order(wanted, sort)
        goes_on = rows.num_rows > first + limit
        return Page(rows.slice(first, limit), str(first + limit) if goes_on else "", self.num_rows)

    def _in_order(self, wanted: Filter, sort: str) -> pa.Table:
        """The first rows of all in an order; kept, as who looks at a page looks at the next one, too."""
        key = (self._uri, f"{self._holds is None} {self.is_settled} {sort} {wanted}")
        return _kept(_orders, _ORDERS_KEPT, key, lambda: self._put_in_order(wanted, sort))

    def _put_in_order(self, wanted: Filter, sort: str) -> pa.Table:
        first = ("address", "ascending") if sort == "address" else ("size", _DIRECTIONS[sort])
        keys = list(dict.fromkeys([first, ("address", "ascending")]))
        best: list[pa.Table] = []
        for part in self.parts:
            rows = self._rows(part)
            rows = rows.take(pa.array(_indices(rows, wanted)))
            best.append(rows.take(pc.select_k_unstable(rows, min(SORTED_MAX, rows.num_rows), keys)))
        found = _together(best)
        return found.take(pc.sort_indices(found, sort_keys=keys)[:SORTED_MAX]).combine_chunks()

    def all(self, wanted: Filter) -> Iterator[pa.Table]:
        """Read every row, a part at a time; for downloads."""
        for part in self.parts:
            rows = self._read(part)
            yield rows.take(pa.array(_indices(rows, wanted)))

    def _rows(self, part: PartInfo) -> pa.Table:
        """The rows of a part; the last few parts are kept, as who looks at a page looks at the next one, too."""
        key = (self._uri, part.sha256 + str(self._holds is None))
        return _kept(_tables, _TABLES_KEPT, key, lambda: self._read(part))

    def _read(self, part: PartInfo) -> pa.Table:
        if self.is_settled:
            return self._folder.read_part(part, SCHEMA.names).cast(SCHEMA)
        rows = self._folder.read_part(part)
        if self._holds is not None:
            codes = self._holds.codes_of(rows)
        else:
            codes = rows["hold"] if "hold" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
        reasons = rows["reason"] if "reason" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
        outcomes = pc.if_else(pc.is_null(codes), MAY_GO, HELD)
        nothing = pa.nulls(rows.num_rows, pa.string())
        return pa.table([rows["address"], rows["size"], reasons, outcomes, codes, nothing], schema=SCHEMA)


def outcomes_of(objects: Objects) -> tuple[str, ...]:
    """What can have become of the objects of a run."""
    return ledger.OUTCOMES if objects.is_settled else (MAY_GO, HELD)


def why(row: dict[str, str | None]) -> str:
    """Say in a sentence why an object is where it is.

    Args:
        row: of `SCHEMA`.
    """
    code, outcome = row["code"] or "", row["outcome"] or ""
    if row["message"]:
        return str(row["message"])
    if outcome == HELD:
        return why_held(code)
    if outcome == ledger.KEPT and code:
        return why_kept(code)
    return REASONS.get(row["reason"] or "", "")


def _parts(folder: RunFolder, kind: str) -> tuple[StepOutput | None, list[PartInfo], bool]:
    """What has the candidates, the parts to show, and whether they are the ledger's."""
    if kind == KV:
        raise NotFoundError("trash of a key-value store has rows, not objects: its run's page has them")
    swept: BulkDeleteOutput | IcechunkBulkDelete | None
    candidates: SubtractOutput | ListCandidatesOutput | None
    if kind == LAKEFS:
        swept, candidates = _output(folder, BulkDeleteOutput), _output(folder, SubtractOutput)
    else:
        swept, candidates = _output(folder, IcechunkBulkDelete), _output(folder, ListCandidatesOutput)
    if swept is not None and swept.settled:
        return candidates, swept.settled, True
    if isinstance(candidates, ListCandidatesOutput):
        return candidates, [part for kind in FOLDERS for part in candidates.candidates(kind)], False
    return candidates, [] if candidates is None else candidates.candidates, False


def _holds(folder: RunFolder, kind: str) -> Holds | None:
    guards = _output(folder, CheckLimitsOutput) if kind == LAKEFS else None
    return None if guards is None else Holds.of(folder, guards.hold_files)


def _output[O: StepOutput](folder: RunFolder, output: type[O]) -> O | None:
    summary = folder.read_summary(output.STEP) or folder.read_incomplete(output.STEP)
    return None if summary is None else output.of(summary)


def _kept(tables: _Tables, most: int, key: tuple[str, str], make: Callable[[], pa.Table]) -> pa.Table:
    """Take a table from those that are kept, else make it and keep it instead of the one longest unused."""
    with _lock:
        if key in tables:
            tables.move_to_end(key)
            return tables[key]
    made = make()
    with _lock:
        tables[key] = made
        while len(tables) > most:
            tables.popitem(last=False)
    return made


def _position(start: str, num_parts: int) -> tuple[int, int]:
    if not start:
        return 0, 0
    part, dash, row = start.partition("-")
    if not (dash and part.isdecimal() and row.isdecimal()) or int(part) > num_parts:
        raise ConfigError("this is not where a page of objects begins: start from the first page")
    return int(part), int(row)


def _indices(rows: pa.Table, wanted: Filter) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    mask = wanted.mask(rows)
    if mask is None:
        return np.arange(rows.num_rows)
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy())


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()
