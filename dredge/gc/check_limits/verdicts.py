"""What may become of each candidate that is held for its size: nobody reads it, or the reason why it stays.

Check limits works it out once, and the sweep reads it. A verdict is about a size: when every path of every branch
that could serve an object of that size was asked, all candidates of that size may go that no answer named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.gc.check_limits import codes
from dredge.gc.check_limits.output import CheckLimitsOutput
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import Hashes, contains, read_hashes, write_hashes

_CODES = (None, *codes.UNSETTLED)
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
        found = np.full(rows.num_rows, codes.TOO_MANY, object)
        if len(self.sizes):
            place = np.minimum(np.searchsorted(self.sizes, sizes), len(self.sizes) - 1)
            indices = self.codes[place]
            # A size or a code that nobody knows proves nothing.
            settled = (self.sizes[place] == sizes) & (indices >= _FREE) & (indices < len(_CODES))
            found[settled] = np.array(_CODES, object)[indices[settled]]
        found[contains(self.served, rows["hash"].to_numpy())] = codes.SERVED
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
