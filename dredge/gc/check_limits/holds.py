"""The held candidates and their codes: the only module with access to the column `hold` and the proofs.

    hold       proof                                             code
    null       -                                                 null: the sweep may delete it
    same_size  its size is settled, and it is among the cleared  null
    same_size  any other, or no proof                            served, too_many, no_answer or no_path
    any other  -                                                 the hold itself, also if unknown
    no code so far, and not among the confirmed                  waiting

Counts, limits, the report and the sweep use these codes. A proof lifts only `same_size`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.approve.records import GuardsOutput
from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SAME_SIZE, SubtractOutput, sums_by, why_of_hold
from dredge.runs.folder import RunFolder
from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up
from dredge.runs.payload import Detail, PartInfo
from dredge.runs.pending import rows
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite, write_hashes

SERVED = "identical_served"
TOO_MANY = "identical_too_many"
NO_ANSWER = "identical_no_answer"
NO_PATH = "identical_no_path"
AMBIGUOUS = "ambiguous_address"
WAITING = rows.WAITING

_SAME_SIZE = "same size as an object in a branch head; the branch may be reading this copy:"
# The text of each code in reports.
WHY = {
    SERVED: "a branch reads it: a copy of committed data, so lakeFS does not list it as uncommitted",
    TOO_MANY: f"{_SAME_SIZE} asking every branch took more requests than allowed",
    NO_ANSWER: f"{_SAME_SIZE} lakeFS did not answer for every path",
    NO_PATH: f"{_SAME_SIZE} a path is not UTF-8, and lakeFS cannot be asked about it",
    AMBIGUOUS: "lakeFS shows this address for an object whose key may be another one: it returns keys decoded"
    " (`a%20b` as `a b`) and without a query",
    WAITING: "it waits: a run deletes only objects that an earlier run found, after the grace",
}
# The records of the key-value store would decide these.
UNSETTLED = (TOO_MANY, NO_ANSWER, NO_PATH)

# The columns of candidates needed for `Holds.codes_of`.
HOLD_COLUMNS = ["hash", "size", "hold"]
_CODES = (None, *UNSETTLED)
_FREE = 0


class HoldFiles(Struct, frozen=True, kw_only=True):
    """Files of the proofs about held candidates; a payload. `Holds` reads them."""

    size_verdicts: PartInfo  # rows of verdicts by size
    served: PartInfo  # sorted hashes of the candidates read by a branch
    cleared: PartInfo  # sorted hashes of the candidates whose hold is lifted
    # sorted hashes of candidates whose address lakeFS shows for another key; None for none
    ambiguous: PartInfo | None = None
    confirmed: tuple[PartInfo, ...] = ()  # files of sorted hashes of the candidates whose wait is over
    waits: bool = True  # all other candidates wait


class CheckLimitsOutput(GuardsOutput):
    """The findings of the guards, and the held candidates."""

    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput, SubtractOutput)

    # Held candidates by code: code, why, objects, bytes, examples.
    held: Detail[list[dict[str, Any]]] = Detail("held")
    # Figures of the pending list after this run (`dredge.runs.pending.rows`).
    pending: Detail[dict[str, Any]] = Detail("pending", default={})
    # Candidates to be deleted, by reason: reason, objects, bytes, examples.
    would_delete: Detail[list[dict[str, Any]]] = Detail("would_delete")

    def may_go(self, candidates: SubtractOutput) -> Sequence[PartInfo]:
        """Files of hashes of all deletable candidates of the run."""
        files = self.hold_files
        return files.confirmed if files.waits else [*candidates.hashes, files.cleared]

    @property
    def hold_files(self) -> HoldFiles:
        """Files of the proofs about held candidates."""
        return HoldFiles(
            size_verdicts=self.part("sizes-00000.parquet"),
            served=self.part("served.u64"),
            cleared=self.part("cleared.u64"),
            ambiguous=next(iter(self.parts("ambiguous.u64")), None),
            confirmed=tuple(self.parts("confirmed-")),
            waits=self.detail("waits"),
        )


class Verdicts(Struct, frozen=True):
    """Verdicts about candidates held for their size.

    A verdict is about a size: once every possible path on every branch was asked, all its candidates are cleared except
    those in an answer.
    """

    sizes: Hashes  # of the verdicts, sorted and distinct
    codes: npt.NDArray[np.int8]  # of each, as an index into (None, *UNSETTLED); None clears
    served: Hashes  # hashes of the addresses read by a branch, sorted and distinct

    @classmethod
    def make(cls, sizes: Hashes, held: dict[str, Hashes], served: Hashes) -> Verdicts:
        """Make verdicts about sorted distinct sizes from those that a code holds; the last code counts."""
        found = np.full(len(sizes), _FREE, np.int8)
        for code, some in held.items():
            found[contains(np.sort(some), sizes)] = _CODES.index(code)
        return cls(sizes, found, served)

    def codes_of(self, rows: pa.Table) -> pa.StringArray:
        """The code of each candidate held for its size; null if cleared."""
        sizes = rows["size"].to_numpy().astype(np.uint64)
        found = np.full(rows.num_rows, TOO_MANY, object)
        if len(self.sizes):
            place = np.minimum(np.searchsorted(self.sizes, sizes), len(self.sizes) - 1)
            indices = self.codes[place]
            # An unknown size or code proves nothing.
            settled = (self.sizes[place] == sizes) & (indices >= _FREE) & (indices < len(_CODES))
            found[settled] = np.array(_CODES, object)[indices[settled]]
        found[contains(self.served, rows["hash"].to_numpy())] = SERVED
        return pa.array(found, pa.string())

    def write(self, folder: RunFolder) -> list[PartInfo]:
        """Write the verdicts to two files."""
        where = CheckLimitsOutput.STEP
        rows = pa.table({"size": pa.array(self.sizes), "code": pa.array(self.codes)})
        return [
            folder.write_table(where, 0, rows, "sizes"),
            write_hashes(folder, f"{where}/served.u64", self.served),
        ]

    @classmethod
    def read(cls, folder: RunFolder, sizes: PartInfo, served: PartInfo) -> Verdicts:
        """Read the files of `write`; raises FormatError if damaged."""
        rows = folder.read_part(sizes)
        return cls(rows["size"].to_numpy(), rows["code"].to_numpy(), read_hashes(folder, served))


class Holds(Struct, frozen=True):
    """The held candidates of a run. All hashes are sorted and distinct."""

    verdicts: Verdicts
    cleared: Hashes  # hashes of candidates whose hold for their size is lifted
    # hashes of candidates whose address lakeFS shows for another key
    ambiguous: Hashes = field(default_factory=lambda: NONE)
    # hashes of candidates whose wait is over; None if none has to wait
    confirmed: Hashes | None = field(default_factory=lambda: NONE)

    @classmethod
    def of(cls, folder: RunFolder, files: HoldFiles) -> Holds:
        """Read the proofs of a run; raises FormatError for damaged files."""
        verdicts = Verdicts.read(folder, files.size_verdicts, files.served)
        ambiguous = NONE if files.ambiguous is None else read_hashes(folder, files.ambiguous)
        confirmed = unite([read_hashes(folder, part) for part in files.confirmed]) if files.waits else None
        return cls(verdicts, read_hashes(folder, files.cleared), ambiguous, confirmed)

    def codes_of(self, rows: pa.Table) -> pa.StringArray:
        """The code of each candidate; null if the sweep may delete it. Raises FormatError: a column is missing."""
        if missing := sorted(set(HOLD_COLUMNS) - set(rows.column_names)):
            raise FormatError(f"candidates without {', '.join(missing)}: their holds are unknown")
        codes_found = self._without_ambiguous(rows)
        if self.confirmed is not None:
            waits = pa.array(~contains(self.confirmed, rows["hash"].to_numpy()))
            codes_found = pc.if_else(pc.and_(waits, pc.is_null(codes_found)), WAITING, codes_found)
        is_held = pa.array(contains(self.ambiguous, rows["hash"].to_numpy()))
        return pc.if_else(pc.and_(is_held, pc.is_null(codes_found)), AMBIGUOUS, codes_found)

    def _without_ambiguous(self, rows: pa.Table) -> pa.StringArray:
        if rows["hold"].null_count == rows.num_rows:
            return pa.nulls(rows.num_rows, pa.string())
        found = pa.concat_arrays(rows["hold"].chunks)
        same_size = pc.fill_null(pc.equal(found, SAME_SIZE), False)
        return pc.replace_with_mask(found, same_size, self._proved(rows.filter(same_size)))

    def _proved(self, rows: pa.Table) -> pa.StringArray:
        found = self.verdicts.codes_of(rows)
        # Another object may have the hash of a cleared one, so the verdict must be about this one too.
        cleared = pa.array(contains(self.cleared, rows["hash"].to_numpy()))
        return pc.if_else(cleared, found, pc.coalesce(found, TOO_MANY))


def held_for_size(rows: pa.Table) -> pa.Table:
    """Candidates held for their size; a proof may lift the hold."""
    return rows.filter(pc.equal(rows["hold"], SAME_SIZE))


def why_held(code: str) -> str:
    """The text of a code in reports; the code itself when unknown."""
    return WHY.get(code) or why_of_hold(code) or code


class Tally(Struct):
    """The held candidates, counted."""

    # examples: `address`, `size`, and `branch` and `path` where a branch serves it
    by_code: dict[str, Figures] = field(default_factory=dict)
    # the same candidates as in `by_code`, by the reason why they are garbage
    by_reason: dict[str, Figures] = field(default_factory=dict)
    cleared: Hashes = field(default_factory=lambda: NONE)  # hashes of candidates whose hold is lifted
    rows_with_hold: int = 0  # candidates held by subtract

    @property
    def objects(self) -> int:
        """The number of held candidates."""
        return sum(held.objects for held in self.by_code.values())

    @property
    def size_bytes(self) -> int:
        """The total size of held candidates."""
        return sum(held.size_bytes for held in self.by_code.values())

    def add(self, rows: pa.Table, codes: pa.StringArray, shown: Mapping[str, tuple[str, str]]) -> None:
        """Count candidates with a code; it is null for rows that are not held. `shown` has branch and path of served
        objects."""
        held = rows.append_column("code", codes).filter(pc.is_valid(codes))
        self.by_reason = add_up([self.by_reason, sums_by("reason", held)])
        for code, found in sums_by("code", held).items():
            some = held.filter(pc.equal(held["code"], code)).slice(0, EXAMPLES_MAX)
            found = replace(found, examples=tuple(_examples(some, shown)))
            self.by_code[code] = self.by_code.get(code, Figures()) + found

    def add_waiting(self, by_reason: Mapping[str, Figures], examples: list[dict[str, Any]]) -> None:
        """Count waiting candidates."""
        if by_reason:
            total = sum(by_reason.values(), Figures())
            self.by_code[WAITING] = replace(total, examples=tuple(examples))
            self.by_reason = add_up([self.by_reason, by_reason])

    def objects_of(self, *codes: str) -> int:
        """The number of candidates held by some codes."""
        return sum(self.by_code[code].objects for code in codes if code in self.by_code)

    def to_details(self) -> list[dict[str, Any]]:
        """Held candidates by code: `code`, `why`, `objects`, `bytes`, `examples`."""
        return [
            {"code": code, "why": why_held(code), **held.to_details()}
            for code, held in sorted(self.by_code.items())
        ]


def _examples(rows: pa.Table, shown: Mapping[str, tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for row in rows.select(["address", "size"]).to_pylist():
        yield row | dict(zip(("branch", "path"), shown.get(row["address"], ()), strict=False))


def count_held(
    run: Run, candidates: SubtractOutput, verdicts: Verdicts, shown: Mapping[str, tuple[str, str]]
) -> Tally:
    """Count the candidates held by subtract, and find those cleared by the verdicts; `shown` has branch and path of
    served objects, by address."""
    tally, cleared = Tally(), list[Hashes]()
    for part in candidates.with_holds:
        rows = run.folder.read_part(part, ["address", "reason", *HOLD_COLUMNS])
        rows = rows.filter(pc.is_valid(rows["hold"]))
        for_size = held_for_size(rows)
        cleared.append(unite([for_size.filter(verdicts.codes_of(for_size).is_null())["hash"].to_numpy()]))
        tally.add(rows, Holds(verdicts, cleared[-1], confirmed=None).codes_of(rows), shown)
        tally.rows_with_hold += rows.num_rows
    tally.cleared = unite(cleared)
    if tally.rows_with_hold != candidates.counts["held_objects"]:
        raise FormatError(
            f"the files of candidates have {tally.rows_with_hold} held objects, their summary counts"
            f" {candidates.counts['held_objects']}. Nothing was deleted. Start a new run."
        )
    return tally


def count_ambiguous(
    run: Run,
    candidates: SubtractOutput,
    tally: Tally,
    ambiguous: Hashes,
    shown: Mapping[str, tuple[str, str]],
    holds: Holds,
) -> None:
    """Count candidates with an ambiguous address and no other hold; `shown` has their branch and path in lakeFS."""
    for part in candidates.candidates:
        rows = run.folder.read_part(part, ["address", "reason", *HOLD_COLUMNS])
        rows = rows.filter(pa.array(contains(ambiguous, rows["hash"].to_numpy())))
        rows = rows.filter(holds.codes_of(rows).is_null())
        tally.add(rows, pa.array([AMBIGUOUS] * rows.num_rows, pa.string()), shown)
