"""What deleting candidates costs because their storage class charges for more days than they have been there.

Listings do not tell when an object came into its class, so its last modification stands for it: what was moved there
later costs more than this says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.storage_classes import MINIMUM_DAYS, early_fee
from dredge.runs.rendering import size_text

_MICROSECONDS_OF_A_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """Objects of one class whose minimum is not over; a payload.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
        byte_days: sum of bytes times days that are left.
    """

    objects: int = 0
    size_bytes: int = 0
    byte_days: int = 0

    def __add__(self, other: Early) -> Early:
        return Early(
            objects=self.objects + other.objects,
            size_bytes=self.size_bytes + other.size_bytes,
            byte_days=self.byte_days + other.byte_days,
        )


def early_deletions(rows: pa.Table, as_of: datetime) -> dict[str, Early]:
    """Count objects whose minimum is not over, by class.

    Args:
        rows: with `size`, `last_modified` and `storage_class`.
        as_of: when they are deleted, by the store's clock.
    """
    if rows["storage_class"].null_count == rows.num_rows:
        return {}
    now, found = round(as_of.timestamp() * 1e6), dict[str, Early]()
    for name in pc.unique(rows["storage_class"]).to_pylist():
        if name not in MINIMUM_DAYS:
            continue
        own = rows.filter(pc.fill_null(pc.equal(rows["storage_class"], name), False))
        sizes = own["size"].to_numpy()
        ages = (now - own["last_modified"].cast(pa.int64()).to_numpy()) / _MICROSECONDS_OF_A_DAY
        left = np.maximum(MINIMUM_DAYS[name] - ages, 0.0)
        is_early = left > 0
        if is_early.any():
            found[name] = Early(
                objects=int(is_early.sum()),
                size_bytes=int(sizes[is_early].sum()),
                byte_days=round(float((sizes * left).sum())),
            )
    return found


def add_early(found: Iterable[Mapping[str, Early]]) -> dict[str, Early]:
    """Add up figures by class."""
    total: dict[str, Early] = {}
    for figures in found:
        for name, more in figures.items():
            total[name] = total.get(name, Early()) + more
    return total


def early_details(found: Mapping[str, Early]) -> dict[str, dict[str, Any]]:
    """As summaries have it, by class: `objects`, `bytes`, `fee_usd` by the list price."""
    return {
        name: {
            "objects": early.objects,
            "bytes": early.size_bytes,
            "fee_usd": round(early_fee(name, early.byte_days), 4),
        }
        for name, early in sorted(found.items())
    }


def early_text(details: Mapping[str, Mapping[str, Any]]) -> str:
    """Word it for people; "" where nothing is early."""
    told = [
        f"{early['objects']:,} objects ({size_text(early['bytes'])}) of class {name}, which charges for"
        f" {MINIMUM_DAYS.get(name, 0)} days at least: about {early['fee_usd']:,.2f} US dollars"
        for name, early in details.items()
    ]
    return "; ".join(told)
