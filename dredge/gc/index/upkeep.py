"""Maintenance of the committed index: small parts are compacted, damaged parts found and written again.

Nothing here deletes: old parts and manifests stay where they are and are not read any more, until
`dredge.gc.save_report.clean_up` removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dredge.errors import DredgeError, FormatError
from dredge.gc.index.ranges import RangeFacts, RangeHashes, Ranges, decode
from dredge.gc.index.store import PART_VALUES, CommittedIndex, NewPart, batches, read_part, write_part
from dredge.gc.namespaces import METADATA, Keys
from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.storage import ObjectReader, ObjectWriter

log = logging.getLogger("dredge")

_SMALL_BYTES = PART_VALUES * 8 // 4


def compact(state: ObjectWriter, namespace: str, label: str, ranges: Collection[str], parts_max: int) -> int:
    """Unite small parts with ranges still in use if there are more than `parts_max`, and write a checkpoint; return
    the number of united parts. `label` is the run id."""
    index = CommittedIndex.load(state, namespace)
    groups, _ = index.group(ranges)
    small = [name for name in groups if index.parts[name].size_bytes < _SMALL_BYTES]
    if len(small) <= parts_max:
        return 0
    united = list[str]()
    written = [
        write_part(state, f"{label}-compacted-{number:04d}", batch)
        for number, batch in enumerate(batches(_read(state, index, groups, small, united)))
    ]
    index.add(f"{label}-", written)
    index.checkpoint(label)
    log.info("committed index: %d parts united into %d", len(united), len(written))
    return len(united)


def _read(
    state: ObjectReader,
    index: CommittedIndex,
    groups: dict[str, list[str]],
    names: Sequence[str],
    united: list[str],
) -> Iterator[RangeHashes]:
    """Yield the wanted ranges of parts, and add the names of the undamaged parts to `united`."""
    for name in names:
        wanted = set(groups[name])
        try:
            ranges = read_part(state, index.parts[name], wanted.__contains__)
        except FormatError as error:
            log.warning("%s is not compacted: %s", name, error)
            continue
        united.append(name)
        yield from (item for item in ranges if item.range_id in wanted)


@dataclass(slots=True)
class Verified:
    """The result of a verification of the index."""

    ranges: int = 0  # number of ranges
    parts: int = 0  # number of parts
    damaged: list[str] = field(default_factory=list)  # names of missing or changed parts
    wrong: list[str] = field(default_factory=list)  # ids of ranges with other hashes than the index has
    unread: list[str] = field(default_factory=list)  # ids of missing or damaged ranges, not compared

    @property
    def is_good(self) -> bool:
        """Whether no part needs a repair."""
        return not self.damaged and not self.wrong


def verify_index(reader: ObjectReader, state: ObjectWriter, namespace: str, against_ranges: bool) -> Verified:
    """Compare every part of the index with its digest, and, if wanted, with its ranges, decoded again."""
    index = CommittedIndex.load(state, namespace)
    groups, _ = index.group(index.places)
    verified = Verified(ranges=len(index.places), parts=len(groups))
    for name, ids in groups.items():
        try:
            ranges = {item.range_id: item for item in read_part(state, index.parts[name], lambda _: True)}
            if missing := set(ids) - ranges.keys():
                raise FormatError(f"{name} lacks {len(missing)} ranges")
        except FormatError as error:
            log.warning("%s", error)
            verified.damaged.append(name)
            continue
        if against_ranges:
            for range_id in ids:
                _compare(reader, namespace, ranges[range_id], verified)
    return verified


def rebuild_index(
    reader: ObjectReader, state: ObjectWriter, namespace: str, label: str, verified: Verified
) -> int:
    """Decode the ranges of damaged parts and wrong ranges again; return their number."""
    index = CommittedIndex.load(state, namespace)
    groups, _ = index.group(index.places)
    damaged = (item for name in verified.damaged for item in groups.get(name, ()))
    # Ranges lost or replaced by another run since are skipped: a missing range is decoded when needed.
    todo = sorted({*verified.wrong, *damaged} & index.places.keys())
    fresh = (_decode(reader, namespace, item, index.places[item][1]) for item in todo)
    done = list[NewPart]()
    for number, batch in enumerate(batches(filter(None, fresh))):
        done.append(write_part(state, f"{label}-rebuilt-{number:04d}", batch))
    index.add(f"{label}-", done)
    return sum(len(part.ids) for part in done)


def _compare(reader: ObjectReader, namespace: str, indexed: RangeHashes, verified: Verified) -> None:
    fresh = _decode(reader, namespace, indexed.range_id, indexed.count)
    if fresh is None:
        verified.unread.append(indexed.range_id)
        return
    same = (fresh.count, fresh.outside) == (indexed.count, indexed.outside) and all(
        np.array_equal(getattr(fresh, name), getattr(indexed, name)) for name in ("addresses", "sizes")
    )
    if not same:
        verified.wrong.append(indexed.range_id)


def _decode(reader: ObjectReader, namespace: str, range_id: str, count: int) -> RangeHashes | None:
    """Decode a range; None if it is missing or damaged."""
    key = METADATA + range_id
    try:
        data = reader.get(key)
        facts: Ranges = {range_id: RangeFacts(count, b"", read_envelope(data, key, None, None).max_key)}
        return next(iter(decode([(key, data)], facts, Keys(namespace=namespace))))
    except DredgeError as error:
        log.warning("range %s cannot be decoded: %s", range_id, error)
        return None
