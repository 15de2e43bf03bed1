"""What ranges name: from the committed index, and from the range files where the index has nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.index.decoding import RangeHashes, decode
from dredge.gc.index.metaranges import Metaranges, read_files
from dredge.gc.index.ranges import Ranges
from dredge.gc.index.store import CommittedIndex, read_part
from dredge.gc.namespaces import METADATA
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")


def addresses_of(
    reader: ObjectReader, state: ObjectWriter, namespace: str, ranges: Ranges
) -> Iterator[RangeHashes]:
    """Give what some ranges name, each range once, in any order.

    Args:
        reader: on the storage namespace.
        state: the folder of the index; it is only read: what it lacks is decoded and not kept.
        namespace: URI.
        ranges: what metaranges say of them.

    Raises:
        RefusedError: a range is missing.
        FormatError: a range is damaged.
    """
    index = CommittedIndex.load(state, namespace)
    groups, lacking = index.group(ranges)
    missing = set(lacking)
    for name, wanted in groups.items():
        ids = set(wanted)
        try:
            found = read_part(state, index.parts[name], lambda _: False)
        except FormatError as error:
            log.warning("the index's part %s is left out: %s", name, error)
            missing |= ids
            continue
        yield from (item for item in found if item.range_id in ids)
    yield from _decode(reader, namespace, {item: ranges[item] for item in ranges if item in missing})


def _decode(reader: ObjectReader, namespace: str, ranges: Ranges) -> Iterator[RangeHashes]:
    ordered = sorted(ranges, key=lambda item: (ranges[item].min_key, item))  # neighbours share blocks
    try:
        yield from decode(reader.get_many([METADATA + item for item in ordered]), ranges, namespace)
    except NotFoundError as error:
        raise RefusedError(f"a range is missing: {error}. What its commits name cannot be told.") from None


def with_metaranges(reader: ObjectReader, known: Metaranges, wanted: Iterable[str]) -> Metaranges:
    """Give some metaranges, read where they are not known.

    Args:
        reader: on the storage namespace.
        known: those that a run read; grows.
        wanted: ids; the empty one names nothing.

    Raises:
        RefusedError: one is missing.
        FormatError: one is damaged.
    """
    unread = sorted({item for item in wanted if item and item not in known.named})
    if unread:
        known.add(read_files(reader, unread))
    return known
