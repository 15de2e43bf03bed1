"""The candidates of a run and their outcomes, a page of rows at a time.

Rows come from `subtract` with their holds before the sweep, and from the ledger after it. The position of the next page
follows from the last row, so every page costs the same. A position is the row's number in the listed order, size and
number by size, or the address by address. `object_rows` reads the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.approve import Owned, owned_by_branch
from dredge.gc.bulk_delete import BulkDeleteOutput, why_kept
from dredge.gc.check_limits import CheckLimitsOutput, Holds, why_held
from dredge.gc.run import Run
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.icechunk.collection.outputs import BulkDeleteOutput as IcechunkBulkDelete
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.repository import FOLDERS
from dredge.pages.history import uri_of
from dredge.pages.object_rows import HELD, MAY_GO, SCHEMA, Filter, Kept, Numbers, PartRows, Rows
from dredge.pages.places import KV, LAKEFS, Place
from dredge.runs import ledger
from dredge.runs.folder import RunFolder
from dredge.runs.payload import PartInfo, StepOutput
from dredge.sets.hashes import NONE
from dredge.storage import open_writer
from dredge.storage.parallel import ordered_map

PAGE_ROWS = 100
# Orders of rows, in words.
SORTS = {"": "as listed", "size": "largest first", "-size": "smallest first", "address": "by address"}
# Limit of rows searched for one page; a link continues the search.
LOOKED_AT_MAX = 2_000_000
_AT_ONCE = 4
_NONE: Numbers = np.empty(0, np.int64)
_PAGES_KEPT = 256
_OWNED_KEPT = 4


@dataclass(frozen=True, slots=True)
class Page:
    """A page of rows."""

    rows: pa.Table
    next: str  # position of the next page; "" at the end
    looked_at: int  # rows searched for this page, or excluded by the bounds of their group


_pages: Kept[Page] = Kept(_PAGES_KEPT)
_owned: Kept[Owned] = Kept(_OWNED_KEPT)


class Objects:
    """The objects of a run."""

    def __init__(self, place: Place, run_id: str) -> None:
        self._place = place
        self._uri = uri_of(place, run_id)
        self._folder = RunFolder(open_writer(self._uri, place.options), run_id)
        candidates, self.parts, self.is_settled = _parts(self._folder, place.kind)
        asks_guards = candidates is not None and not self.is_settled and place.kind == LAKEFS
        self._guards = _output(self._folder, CheckLimitsOutput) if asks_guards else None

    @property
    def num_rows(self) -> int:
        """Number of the objects."""
        return sum(part.rows for part in self.parts)

    def page(self, wanted: Filter, sort: str = "", start: str = "", limit: int = PAGE_ROWS) -> Page:
        """Read a page of rows. `start`: `next` of the previous page; "" for the first."""
        if sort not in SORTS:
            raise ConfigError("unknown order of objects: use the links in the table's head")
        guards = "" if self._guards is None else self._guards.summary.digest
        parts = tuple(part.sha256 for part in self.parts)
        key = (self._uri, parts, self.is_settled, guards, wanted, sort, start, limit)
        return _pages.get(key, lambda: self._page(wanted, sort, start, limit))

    def all(self, wanted: Filter) -> Iterator[pa.Table]:
        """Yield all rows part by part, for downloads; checks the digest of each part."""
        source = self._rows(wanted)
        tables = (source.shown(self._folder.read_part(part)) for part in self.parts)
        return (rows.filter(wanted.mask(rows, source.of_branch)) for rows in tables)

    def owned(self) -> Owned:
        """Return the candidates of a lakeFS run by branch; empty for other kinds."""
        if self._place.kind != LAKEFS:
            return Owned({}, [])
        key = (self._uri, tuple(part.sha256 for part in self.parts))
        return _owned.get(key, lambda: owned_by_branch(Run.open(self._uri, self._place.options)))

    def _rows(self, wanted: Filter) -> Rows:
        holds = None if self._guards is None else Holds.of(self._folder, self._guards.hold_files)
        of_branch = self.owned().hashes.get(wanted.branch, NONE) if wanted.branch else NONE
        return Rows(self._folder, self._uri, self.parts, self.is_settled, holds, of_branch)

    def _page(self, wanted: Filter, sort: str, start: str, limit: int) -> Page:
        rows = self._rows(wanted)
        if sort == "address":
            return self._by_address(rows, wanted, start, limit)
        if sort:
            return self._by_size(rows, wanted, start, limit, sign=-1 if sort == "size" else 1)
        return self._as_listed(rows, wanted, _number(start or "0"), limit)

    def _as_listed(self, source: Rows, wanted: Filter, start: int, limit: int) -> Page:
        found: list[pa.Table] = []
        missing, looked_at = limit, 0
        parts = [part for part in source.parts if part.end > start]
        matching = ordered_map(
            lambda part: part.matching(wanted, start), parts, _AT_ONCE if wanted.columns else 1
        )
        for part, rows in zip(parts, matching, strict=False):
            if looked_at >= LOOKED_AT_MAX:
                return Page(_together(found), str(part.first), looked_at)
            looked_at += part.end - max(part.first, start)
            if len(rows):
                found.append(part.take(rows[:missing]))
            if len(rows) > missing:
                return Page(_together(found), str(rows[missing]), looked_at)
            missing -= len(rows)
        return Page(_together(found), "", looked_at)

    def _by_size(self, source: Rows, wanted: Filter, start: str, limit: int, sign: int) -> Page:
        """Equal sizes are in the listed order. All sizes are read, and then the groups with rows of the page."""
        size, _, row = start.partition("-")
        after = (sign * _number(size), _number(row)) if start else None

        def best_of(part: PartRows) -> tuple[Numbers, Numbers]:
            rows = part.matching(wanted)
            return _best(sign * part.sizes(rows), rows, after, limit + 1)

        best = [(_NONE, _NONE), *ordered_map(best_of, source.parts, _AT_ONCE)]
        keys, rows = (np.concatenate(arrays) for arrays in zip(*best, strict=True))
        keys, rows = _best(keys, rows, None, limit + 1)
        goes_on = len(rows) > limit
        onwards = f"{sign * keys[limit - 1]}-{rows[limit - 1]}" if goes_on else ""
        return Page(source.take(rows[:limit]), onwards, self.num_rows)

    def _by_address(self, source: Rows, wanted: Filter, start: str, limit: int) -> Page:
        """Read groups with possible next addresses, the least first, until no other group can have one of them."""
        found = SCHEMA.empty_table()
        for group in source.groups_by_address(wanted, start):
            if found.num_rows > limit and found["address"][limit].as_py() <= group.least:
                break
            rows = group.part.rows_of(group.group, wanted)
            rows = rows.filter(pc.greater(rows["address"], start)) if start else rows
            found = _together([found, rows]).sort_by("address").slice(0, limit + 1)
        onwards = found["address"][limit - 1].as_py() if found.num_rows > limit else ""
        return Page(found.slice(0, limit).combine_chunks(), onwards, self.num_rows)


def outcomes_of(objects: Objects) -> tuple[str, ...]:
    """Return the possible outcomes of a run's objects."""
    return ledger.OUTCOMES if objects.is_settled else (MAY_GO, HELD)


def why(row: dict[str, str | None]) -> str:
    """Explain the outcome of an object (a row of `SCHEMA`) in a sentence."""
    code, outcome = row["code"] or "", row["outcome"] or ""
    if row["message"]:
        return str(row["message"])
    if outcome == HELD:
        return why_held(code)
    if outcome == ledger.KEPT and code:
        return why_kept(code)
    return REASONS.get(row["reason"] or "", "")


def _parts(folder: RunFolder, kind: str) -> tuple[StepOutput | None, list[PartInfo], bool]:
    """The result with the candidates, the parts to show, and whether they are the ledger's."""
    if kind == KV:
        raise NotFoundError("a run of the trash cleaner has rows instead of objects: see the page of the run")
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


def _output[O: StepOutput](folder: RunFolder, output: type[O]) -> O | None:
    summary = folder.read_summary(output.STEP) or folder.read_incomplete(output.STEP)
    return None if summary is None else output.of(summary)


def _best(keys: Numbers, rows: Numbers, after: tuple[int, int] | None, most: int) -> tuple[Numbers, Numbers]:
    """The least keys after a key and its row, with their rows; equal keys are in the order of rows."""
    if after is not None:
        key, row = after
        beyond = (keys > key) | ((keys == key) & (rows > row))
        keys, rows = keys[beyond], rows[beyond]
    if len(keys) > most:
        near = keys <= np.partition(keys, most - 1)[most - 1]
        keys, rows = keys[near], rows[near]
    order = np.lexsort((rows, keys))[:most]
    return keys[order], rows[order]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError("the position in the list of objects is invalid: start from the first page")
    return int(text)


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *tables])
