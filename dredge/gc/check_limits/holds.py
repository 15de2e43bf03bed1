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

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.gc.check_limits import codes
from dredge.gc.check_limits.output import HoldFiles
from dredge.gc.check_limits.verdicts import Verdicts
from dredge.gc.subtract import SAME_SIZE, why_of_hold
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, unite

COLUMNS = ["hash", "size", "hold"]
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
            rows: candidates, with at least `COLUMNS`.

        Raises:
            FormatError: a column is missing.
        """
        if missing := sorted(set(COLUMNS) - set(rows.column_names)):
            raise FormatError(f"candidates without {', '.join(missing)}: nobody can tell what is held")
        codes_found = self._without_ambiguous(rows)
        if self.confirmed is not None:
            waits = pa.array(~contains(self.confirmed, rows["hash"].to_numpy()))
            codes_found = pc.if_else(pc.and_(waits, pc.is_null(codes_found)), codes.WAITING, codes_found)
        is_held = pa.array(contains(self.ambiguous, rows["hash"].to_numpy()))
        return pc.if_else(pc.and_(is_held, pc.is_null(codes_found)), codes.AMBIGUOUS, codes_found)

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
        return pc.if_else(cleared, found, pc.coalesce(found, codes.TOO_MANY))


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
    return codes.WHY.get(code) or why_of_hold(code) or code
