"""What may become of each candidate that is suspect: nobody reads it, or the reason why it stays.

The guard works it out once, and the sweep reads it. A verdict is about a size: when every path of every branch
that could serve an object of that size was asked, all candidates of that size may go that no answer named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.gc.sets.files import read_hashes, write_hashes
from dredge.gc.sets.hashes import Hashes, contains
from dredge.gc.subtract import reasons
from dredge.gc.subtract.classify import SIZE
from dredge.runs.folder import RunFolder
from dredge.runs.summary import PartInfo

_SIZES = "sizes"
_SERVED = "served.u64"
_CODES = ("", *reasons.HELD_BY_SIZE)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts about suspects.

    Attributes:
        sizes: that were looked into, sorted and distinct.
        codes: of each, as an index into ("", *HELD_BY_SIZE): "" is that nothing else holds it.
        served: hashes of the addresses that a branch reads, sorted and distinct.
    """

    sizes: Hashes
    codes: npt.NDArray[np.int8]
    served: Hashes

    @classmethod
    def of(cls, sizes: Hashes, codes: dict[str, Hashes], served: Hashes) -> Verdicts:
        """Make verdicts.

        Args:
            sizes: that were looked into.
            codes: some of them, by the code that holds them; the last one counts.
            served: what a branch reads.
        """
        found = np.zeros(len(sizes), np.int8)
        for code, held in codes.items():
            found[contains(np.sort(held), sizes)] = _CODES.index(code)
        return cls(sizes, found, served)

    def codes_of(self, rows: pa.Table) -> npt.NDArray[np.str_]:
        """The code that holds each candidate; "" for those that may go.

        Args:
            rows: of the candidates, with `hash`, `size` and `suspect`.
        """
        suspects = np.array(rows["suspect"].to_pylist(), object)
        sizes = rows["size"].to_numpy().astype(np.uint64)
        codes = np.full(rows.num_rows, reasons.TOO_MANY, object)
        if len(self.sizes):
            place = np.minimum(np.searchsorted(self.sizes, sizes), len(self.sizes) - 1)
            known = self.sizes[place] == sizes
            codes[known] = np.array(_CODES, object)[self.codes[place[known]]]
        codes[contains(self.served, rows["hash"].to_numpy())] = reasons.SERVED
        codes[suspects == reasons.UNREADABLE] = reasons.UNREADABLE
        codes[suspects == ""] = ""
        unknown = ~np.isin(suspects, ["", SIZE, reasons.UNREADABLE])
        codes[unknown] = reasons.TOO_MANY
        return codes.astype(str)

    def write(self, folder: RunFolder, step: str) -> list[PartInfo]:
        """Write them as parts of a step."""
        rows = pa.table({"size": pa.array(self.sizes), "code": pa.array(self.codes)})
        return [
            folder.write_table(step, 0, rows, _SIZES),
            write_hashes(folder, f"{step}/{_SERVED}", self.served),
        ]

    @classmethod
    def read(cls, folder: RunFolder, parts: list[PartInfo]) -> Verdicts:
        """Read what `write` wrote; raises FormatError when it is not as it was."""
        rows = folder.read_part(parts[0])
        return cls(rows["size"].to_numpy(), rows["code"].to_numpy(), read_hashes(folder, parts[1]))
