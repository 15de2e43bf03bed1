"""Counts what is held, by code and by the reason why it would be garbage, with examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.gc.check_limits.codes import AMBIGUOUS, WAITING
from dredge.gc.check_limits.holds import COLUMNS, Holds, held_for_size, why_held, with_hold
from dredge.gc.check_limits.verdicts import Verdicts
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs.limits import EXAMPLES_MAX, Figures
from dredge.sets.hashes import NONE, Hashes, contains, unite


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
        rows = with_hold(run.folder.read_part(part, ["address", "reason", *COLUMNS]))
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
        rows = run.folder.read_part(part, ["address", "reason", *COLUMNS])
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
