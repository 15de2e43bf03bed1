"""Lookups of objects: single ones, and many with names close to each other, as one page of a listing has a thousand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dredge.errors import NotFoundError
from dredge.storage.model import ObjectReader

if TYPE_CHECKING:
    import pyarrow as pa


def exists(reader: ObjectReader, key: str) -> bool:
    """Whether an object exists; raises like `stat` if the store refuses to answer."""
    try:
        reader.stat(key)
    except NotFoundError:
        return False
    return True


PAGE_ROWS = 1000
LOOKS_PER_PAGE = 12
"""Lookups of single objects at the price of a page of a listing. Amazon S3 charges a page like 12.5 of them,
and takes five to ten times as long for one; versitygw takes 80 times as long (21 ms of its processor, and a quarter
of one for a look)."""

LOOKUPS_A_THREAD = 8
"""Lookups in flight for each listing in flight: a lookup is short, and waits for the network most of the time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Pages of a listing, compared with names.

    Attributes:
        names: wanted names up to the end of the pages, after those of the stretch before.
    """

    names: Sequence[str]
    found: pa.RecordBatch
    listed: int


def find_neighbours(reader: ObjectReader, prefix: str, names: Sequence[str]) -> Iterator[Stretch]:
    """List from the first to the last of some names; every name is in one stretch. The caller may stop early.

    Args:
        names: distinct, in byte order, at least one.

    Raises:
        FormatError: this store cannot list between these names; single lookups may still work.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from dredge.storage.listing_schema import LISTING_SCHEMA

    first = 0
    # The first name itself must be listed too, so the listing starts after a name one character shorter.
    for batch in reader.list(prefix, names[0][:-1], names[-1] + "\0"):
        stop = bisect_right(names, batch["key"][-1].as_py(), first)
        asked = names[first:stop]
        there = pc.is_in(batch["key"], pa.array(asked, pa.string()))
        yield Stretch(asked, batch.filter(there), batch.num_rows)
        first = stop
    yield Stretch(names[first:], pa.RecordBatch.from_pylist([], LISTING_SCHEMA), 0)
