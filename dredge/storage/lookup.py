"""A question that is asked of a store again and again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import NotFoundError
from dredge.storage.model import LISTING_SCHEMA, ObjectReader


def exists(reader: ObjectReader, key: str) -> bool:
    """Whether a store has an object. One that it will not describe raises, as `stat` does: that is no answer.

    Args:
        reader: where to look.
        key: the object's name.
    """
    try:
        reader.stat(key)
    except NotFoundError:
        return False
    return True


PAGE_ROWS = 1000
LOOKS_PER_PAGE = 12
"""Looks at single objects that cost a store as much as a page of a listing. Amazon S3 charges a page like 12.5 of them,
and takes five to ten times as long for one; versitygw takes 80 times as long (21 ms of its processor, and a quarter
of one for a look)."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What some pages of a listing say of some names.

    Attributes:
        names: those that lie up to the end of the pages, and behind the stretch before.
        found: rows of `LISTING_SCHEMA` of those of them that are there.
        listed: objects on the pages, whatever their names.
    """

    names: Sequence[str]
    found: pa.RecordBatch
    listed: int


def find_neighbours(reader: ObjectReader, prefix: str, names: Sequence[str]) -> Iterator[Stretch]:
    """List from the first to the last of some names, and tell which of them are there.

    Whoever wants no more stretches than pay ends the iteration; every name is in one of them.

    Args:
        reader: of the store.
        prefix: that all the names begin with.
        names: distinct, in the order of their bytes, at least one.

    Raises:
        FormatError: this store cannot list what lies between exactly; it may still tell of single objects.
    """
    first = 0
    # The first name itself must be listed too, so the listing starts after what is one character shorter.
    for batch in reader.list(prefix, names[0][:-1], names[-1] + "\0"):
        stop = bisect_right(names, batch["key"][-1].as_py(), first)
        asked = names[first:stop]
        there = pc.is_in(batch["key"], pa.array(asked, pa.string()))
        yield Stretch(asked, batch.filter(there), batch.num_rows)
        first = stop
    yield Stretch(names[first:], pa.RecordBatch.from_pylist([], LISTING_SCHEMA), 0)
