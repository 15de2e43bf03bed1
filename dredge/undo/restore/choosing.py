"""Which of a run's deletions a restore takes back, and what that would be: for who wants to know before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.undo.deleted import SweptRun, swept_rows
from dredge.undo.restore.config import RestoreConfig
from dredge.undo.ways import OFF, WORDS

EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What a restore would bring back.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
        reasons: objects by the reason why they were deleted.
        examples: addresses of some.
        way: how: "versions", "quarantine" or "off".
        why_way: what that means, half a sentence.
    """

    objects: int
    size_bytes: int
    reasons: dict[str, int]
    examples: list[str]
    way: str
    why_way: str

    @property
    def can_come_back(self) -> bool:
        """Whether the run kept what it deleted; versions of the bucket may hold more than it knew."""
        return self.way != OFF


def foresee(config: RestoreConfig, swept: SweptRun) -> Choice:
    """Say what a restore would bring back. Only reads, and only the run's folder: whether versions and copies are there
    still, the restore itself finds out.

    Args:
        config: which deletions.
        swept: the run that deleted.

    Raises:
        FormatError: its files are damaged.
    """
    objects = size_bytes = 0
    reasons, examples = Counter[str](), list[str]()
    for part in swept.candidates:
        rows = fitting(
            swept_rows(swept.folder, part, swept.below),
            prefix_of(config),
            config.address is not None,
            config.reason,
        )
        objects += rows.num_rows
        size_bytes += pc.sum(rows["size"]).as_py() or 0
        for item in pc.value_counts(rows["reason"]).to_pylist():
            reasons[item["values"]] += item["counts"]
        examples += rows["address"].slice(0, EXAMPLES - len(examples)).to_pylist()
    return Choice(objects, size_bytes, dict(reasons), examples, swept.way, WORDS[swept.way])


def prefix_of(config: RestoreConfig) -> str:
    """What the addresses begin with that are asked for."""
    return config.address or config.prefix or ""


def fitting(rows: pa.Table, prefix: str, is_address: bool, reason: str | None) -> pa.Table:
    """The rows that are asked for.

    Args:
        rows: as `swept_rows` gives them.
        prefix: of the addresses.
        is_address: whether the prefix is a whole address.
        reason: why they were deleted; "" and None for any.
    """
    addresses = rows["address"]
    fits = pc.equal(addresses, prefix) if is_address else pc.starts_with(addresses, prefix)
    if reason:
        fits = pc.and_(fits, pc.equal(rows["reason"], reason))
    return rows.filter(fits).combine_chunks()
