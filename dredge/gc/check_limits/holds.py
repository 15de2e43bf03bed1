"""Which candidates are held, and by which code: the one place that reads the column `hold` and the proofs.

    hold       proof                                             code
    null       -                                                 null: the sweep may delete it
    same_size  its size is settled, and it is among the cleared  null
    same_size  anything else, also none at all                   served, too_many, no_answer or no_path
    any other  -                                                 the hold itself, also one that nobody knows
    nothing so far, and not among the confirmed                  waiting

Counting, limits, the report and the sweep all ask here. No hold but `same_size` can be lifted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.approve.output import GuardsOutput
from dredge.errors import FormatError
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.slice_listing import SliceListingOutput
from dredge.gc.subtract import SAME_SIZE, SubtractOutput, why_of_hold
from dredge.runs.figures import EXAMPLES_MAX, Figures
from dredge.runs.folder import RunFolder
from dredge.runs.pending import rows
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite, write_hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFiles:
    """What was proved about candidates that are held for their size; a payload. `Holds` reads it.

    Attributes:
        size_verdicts: rows of the sizes that were looked into, each with what holds objects of that size.
        served: sorted hashes of the candidates that a branch reads.
        cleared: sorted hashes of the candidates that may go.
        ambiguous: sorted hashes of candidates whose address lakeFS shows for an object with another key; None: there
            are none.
        confirmed: files of sorted hashes of the candidates that an earlier run found and that have waited since.
        waits: whether all others wait.
    """

    size_verdicts: PartInfo
    served: PartInfo
    cleared: PartInfo
    ambiguous: PartInfo | None = None
    confirmed: tuple[PartInfo, ...] = ()
    waits: bool = True


class CheckLimitsOutput(GuardsOutput):
    """What each guard found, and which candidates are held."""

    INPUTS = (SliceListingOutput, MarkUncommittedOutput, ListCommittedOutput, SubtractOutput)

    @property
    def held(self) -> list[dict[str, Any]]:
        """Candidates that stay, by code: code, why, objects, bytes, examples."""
        found: list[dict[str, Any]] = self.detail("held")
        return found

    @property
    def pending(self) -> dict[str, Any]:
        """Figures of the pending list after this run (`dredge.runs.pending.figures`); {} in older runs."""
        found: dict[str, Any] = self.summary.details.get("pending", {})
        return found

    @property
    def would_delete(self) -> list[dict[str, Any]]:
        """What may go, by the reason why it is garbage: reason, objects, bytes, examples."""
        found: list[dict[str, Any]] = self.detail("would_delete")
        return found

    def may_go(self, candidates: SubtractOutput) -> Sequence[PartInfo]:
        """Files of hashes of all that the run may delete, at most.

        Args:
            candidates: of the run.
        """
        files = self.hold_files
        # A run of an earlier version deleted what it found itself.
        waits = self.summary.details.get("waits", False)
        return files.confirmed if waits else [*candidates.hashes, files.cleared]

    @property
    def hold_files(self) -> HoldFiles:
        """What was proved about candidates that are held."""
        return HoldFiles(
            size_verdicts=self.part("sizes-00000.parquet"),
            served=self.part("served.u64"),
            cleared=self.part("cleared.u64"),
            ambiguous=next(iter(self.parts("ambiguous.u64")), None),
            confirmed=tuple(self.parts("confirmed-")),
            waits=self.summary.details.get("waits", True),
        )


HOLD_COLUMNS = ["hash", "size", "hold"]
"""Columns of the candidates that are needed to tell what is held."""


@dataclass(frozen=True, slots=True)
class Holds:
    """What is held of the candidates of a run.

    Attributes:
        verdicts: about candidates that are held for their size.
        cleared: hashes of those of them that may go, sorted and distinct.
        ambiguous: hashes of candidates whose address lakeFS shows for an object with another key, sorted and distinct.
        confirmed: hashes of candidates that have waited, sorted and distinct; None where none has to.
    """

    verdicts: Verdicts
    cleared: Hashes
    ambiguous: Hashes = field(default_factory=lambda: NONE)
    confirmed: Hashes | None = field(default_factory=lambda: NONE)

    @classmethod
    def of(cls, folder: RunFolder, files: HoldFiles) -> Holds:
        """Read what check_limits proved.

        Args:
            folder: the run folder.
            files: that check_limits wrote.

        Raises:
            FormatError: a file is not as it was written.
        """
        verdicts = Verdicts.read(folder, files.size_verdicts, files.served)
        ambiguous = NONE if files.ambiguous is None else read_hashes(folder, files.ambiguous)
        confirmed = read_confirmed(folder, files)
        return cls(verdicts, read_hashes(folder, files.cleared), ambiguous, confirmed)

    def codes_of(self, rows: pa.Table) -> pa.StringArray:
        """The code that holds each candidate; null for those that may go.

        Args:
            rows: candidates, with at least `HOLD_COLUMNS`.

        Raises:
            FormatError: a column is missing.
        """
        if missing := sorted(set(HOLD_COLUMNS) - set(rows.column_names)):
            raise FormatError(f"candidates without {', '.join(missing)}: nobody can tell what is held")
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
        """The codes of candidates that are held for their size; null for those that the proofs clear."""
        found = self.verdicts.codes_of(rows)
        # Another object may have the hash of a cleared one, so the verdict must be about this one, too.
        cleared = pa.array(contains(self.cleared, rows["hash"].to_numpy()))
        return pc.if_else(cleared, found, pc.coalesce(found, TOO_MANY))


def read_confirmed(folder: RunFolder, files: HoldFiles) -> Hashes | None:
    """Read the hashes of the candidates that have waited; None where none has to.

    Raises:
        FormatError: a file is not as it was written.
    """
    if not files.waits:
        return None
    return unite([read_hashes(folder, part) for part in files.confirmed])


def with_hold(rows: pa.Table) -> pa.Table:
    """Candidates that the classification held, whatever was proved about them since."""
    return rows.filter(pc.is_valid(rows["hold"]))


def held_for_size(rows: pa.Table) -> pa.Table:
    """Candidates whose hold a proof may lift."""
    return rows.filter(pc.equal(rows["hold"], SAME_SIZE))


def why_held(code: str) -> str:
    """Half a sentence for people about what holds an object; the code itself when nobody knows it."""
    return WHY.get(code) or why_of_hold(code) or code


SERVED = "identical_served"
TOO_MANY = "identical_too_many"
NO_ANSWER = "identical_no_answer"
NO_PATH = "identical_no_path"
AMBIGUOUS = "ambiguous_address"
WAITING = rows.WAITING

_SAME_SIZE = "as long as an object in a branch head, so a branch may read this copy of it;"
WHY = {
    SERVED: "a branch reads it: a copy of what is committed, which lakeFS does not show as uncommitted",
    TOO_MANY: f"{_SAME_SIZE} more requests than allowed were needed to ask every branch",
    NO_ANSWER: f"{_SAME_SIZE} lakeFS did not answer for every path",
    NO_PATH: f"{_SAME_SIZE} a path is not UTF-8, and lakeFS cannot be asked about it",
    AMBIGUOUS: "lakeFS shows this address for an object whose key may be another one: it words keys decoded"
    " (`a%20b` as `a b`) and without a query",
    WAITING: "it waits: only what an earlier run found, and what has waited since, is deleted",
}
"""Half a sentence for people about each code."""
UNSETTLED = (TOO_MANY, NO_ANSWER, NO_PATH)
"""Those that reading the key-value store would settle."""


_CODES = (None, *UNSETTLED)
_FREE = 0


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts about candidates that are held for their size.

    Attributes:
        sizes: that were looked into, sorted and distinct.
        codes: of each, as an index into (None, *UNSETTLED): None is that nothing else holds it.
        served: hashes of the addresses that a branch reads, sorted and distinct.
    """

    sizes: Hashes
    codes: npt.NDArray[np.int8]
    served: Hashes

    @classmethod
    def make(cls, sizes: Hashes, held: dict[str, Hashes], served: Hashes) -> Verdicts:
        """Make verdicts.

        Args:
            sizes: that were looked into, sorted and distinct.
            held: some of them, by the code that holds them; the last one counts.
            served: hashes of what a branch reads.
        """
        found = np.full(len(sizes), _FREE, np.int8)
        for code, some in held.items():
            found[contains(np.sort(some), sizes)] = _CODES.index(code)
        return cls(sizes, found, served)

    def codes_of(self, rows: pa.Table) -> pa.StringArray:
        """The code that holds each of some candidates that are held for their size; null for those that may go.

        Args:
            rows: candidates, with `hash` and `size`.
        """
        sizes = rows["size"].to_numpy().astype(np.uint64)
        found = np.full(rows.num_rows, TOO_MANY, object)
        if len(self.sizes):
            place = np.minimum(np.searchsorted(self.sizes, sizes), len(self.sizes) - 1)
            indices = self.codes[place]
            # A size or a code that nobody knows proves nothing.
            settled = (self.sizes[place] == sizes) & (indices >= _FREE) & (indices < len(_CODES))
            found[settled] = np.array(_CODES, object)[indices[settled]]
        found[contains(self.served, rows["hash"].to_numpy())] = SERVED
        return pa.array(found, pa.string())

    def write(self, folder: RunFolder) -> list[PartInfo]:
        """Write them down.

        Args:
            folder: the run folder.
        """
        where = CheckLimitsOutput.STEP
        rows = pa.table({"size": pa.array(self.sizes), "code": pa.array(self.codes)})
        return [
            folder.write_table(where, 0, rows, "sizes"),
            write_hashes(folder, f"{where}/served.u64", self.served),
        ]

    @classmethod
    def read(cls, folder: RunFolder, sizes: PartInfo, served: PartInfo) -> Verdicts:
        """Read what `write` wrote; raises FormatError when it is not as it was."""
        rows = folder.read_part(sizes)
        return cls(rows["size"].to_numpy(), rows["code"].to_numpy(), read_hashes(folder, served))


@dataclass(slots=True)
class Held:
    """Candidates that stay for one reason.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
        examples: a few of them: `address`, `size`, and `branch` and `path` where a branch serves it.
    """

    objects: int = 0
    size_bytes: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What is held of the candidates.

    Attributes:
        by_code: what stays, by the code that holds it.
        by_reason: the same, by the reason why it would be garbage.
        cleared: hashes of candidates that were held for their size and may go.
        cleared_examples: addresses of a few of these, by the reason why they are garbage.
        rows_with_hold: candidates that the classification held.
    """

    by_code: dict[str, Held] = field(default_factory=dict)
    by_reason: dict[str, Held] = field(default_factory=dict)
    cleared: Hashes = field(default_factory=lambda: NONE)
    cleared_examples: dict[str, list[str]] = field(default_factory=dict)
    rows_with_hold: int = 0

    @property
    def objects(self) -> int:
        """How many candidates stay."""
        return sum(held.objects for held in self.by_code.values())

    @property
    def size_bytes(self) -> int:
        """Their sizes together."""
        return sum(held.size_bytes for held in self.by_code.values())

    def add_waiting(self, by_reason: Mapping[str, Figures], examples: list[dict[str, Any]]) -> None:
        """Count candidates that wait.

        Args:
            by_reason: why they are garbage.
            examples: a few of them.
        """
        if not by_reason:
            return
        total = sum(by_reason.values(), Figures())
        self.by_code[WAITING] = Held(total.objects, total.size_bytes, examples)
        for reason, found in by_reason.items():
            held = self.by_reason.setdefault(reason, Held())
            held.objects += found.objects
            held.size_bytes += found.size_bytes

    def objects_of(self, *codes: str) -> int:
        """How many candidates some codes hold."""
        return sum(self.by_code[code].objects for code in codes if code in self.by_code)

    def to_details(self) -> list[dict[str, Any]]:
        """What is held, by code: `code`, `why`, `objects`, `bytes`, `examples`."""
        return [
            {
                "code": code,
                "why": why_held(code),
                "objects": held.objects,
                "bytes": held.size_bytes,
                "examples": held.examples,
            }
            for code, held in sorted(self.by_code.items())
        ]


def count_held(
    run: Run, candidates: SubtractOutput, verdicts: Verdicts, shown: Mapping[str, tuple[str, str]]
) -> Tally:
    """Count what is held, and find what is cleared.

    Args:
        run: this run.
        candidates: of subtract.
        verdicts: about candidates that are held for their size.
        shown: branch and path of some of those that a branch serves, by address.

    Raises:
        FormatError: subtract counted other holds than there are.
    """
    tally, cleared = Tally(), list[Hashes]()
    for part in candidates.with_holds:
        rows = with_hold(run.folder.read_part(part, ["address", "reason", *HOLD_COLUMNS]))
        cleared.append(_cleared(rows, verdicts))
        _count(tally, rows, Holds(verdicts, unite(cleared[-1:]), confirmed=None), shown)
    tally.cleared = unite(cleared)
    if tally.rows_with_hold != candidates.counts["held_objects"]:
        raise FormatError(
            f"{tally.rows_with_hold} candidates are held, {candidates.counts['held_objects']} were counted."
            " Nothing was deleted. Start a new run."
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
    """Count candidates that are held because lakeFS shows their address for an object with another key.

    Args:
        run: this run.
        candidates: of subtract.
        tally: grows.
        ambiguous: hashes of these candidates.
        shown: branch and path that lakeFS shows, by address.
        holds: what else holds candidates; those are counted already.
    """
    held = tally.by_code.setdefault(AMBIGUOUS, Held())
    for part in candidates.candidates:
        rows = run.folder.read_part(part, ["address", "reason", *HOLD_COLUMNS])
        rows = rows.filter(pa.array(contains(ambiguous, rows["hash"].to_numpy())))
        rows = rows.filter(holds.codes_of(rows).is_null())
        sizes, why = rows["size"].to_numpy(), np.array(rows["reason"].to_pylist(), object)
        _add(held, sizes, np.ones(len(sizes), bool))
        for row in range(min(rows.num_rows, EXAMPLES_MAX - len(held.examples))):
            held.examples.append(_example(rows["address"][row].as_py(), int(sizes[row]), shown))
        for reason in {*why.tolist()}:
            _add(tally.by_reason.setdefault(reason, Held()), sizes, why == reason)


def _cleared(rows: pa.Table, verdicts: Verdicts) -> Hashes:
    """Hashes of the candidates that are held for their size alone and may go."""
    rows = held_for_size(rows)
    found: Hashes = rows.filter(verdicts.codes_of(rows).is_null())["hash"].to_numpy()
    return found


def _count(tally: Tally, rows: pa.Table, holds: Holds, shown: Mapping[str, tuple[str, str]]) -> None:
    found = holds.codes_of(rows)
    codes, free = np.array(found.to_pylist(), object), found.is_null().to_numpy(zero_copy_only=False)
    sizes = rows["size"].to_numpy()
    why = np.array(rows["reason"].to_pylist(), object)
    tally.rows_with_hold += rows.num_rows
    for code in np.unique(codes[~free].astype(str)).tolist():
        held = tally.by_code.setdefault(code, Held())
        _add(held, sizes, codes == code)
        for row in _first(codes == code, EXAMPLES_MAX - len(held.examples)):
            held.examples.append(_example(rows["address"][row].as_py(), int(sizes[row]), shown))
    for reason in np.unique(why.astype(str)).tolist():
        _add(tally.by_reason.setdefault(reason, Held()), sizes, ~free & (why == reason))
        examples = tally.cleared_examples.setdefault(reason, [])
        for row in _first(free & (why == reason), EXAMPLES_MAX - len(examples)):
            examples.append(rows["address"][row].as_py())


def _add(held: Held, sizes: npt.NDArray[np.int64], which: npt.NDArray[np.bool_]) -> None:
    held.objects += int(which.sum())
    held.size_bytes += int(sizes[which].sum())


def _first(which: npt.NDArray[np.bool_], count: int) -> Iterator[int]:
    yield from np.flatnonzero(which)[: max(0, count)].tolist()


def _example(address: str, size: int, shown: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    found = {"address": address, "size": size}
    if address in shown:
        branch, path = shown[address]
        return {**found, "branch": branch, "path": path}
    return found
