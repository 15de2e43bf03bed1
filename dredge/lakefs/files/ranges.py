"""The values of records in tables, the ranges of a metarange, and the files of a namespace by kind."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from dredge.errors import FormatError
from dredge.lakefs.files import messages
from dredge.lakefs.files.sstable import METARANGES, Block, Record, read_table
from dredge.lakefs.files.sstable.layout import Envelope, get_uvarint, read_envelope
from dredge.storage import ObjectInfo, ObjectReader
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

PART_SIZE_MAX = 640 << 16


class Value(Struct, frozen=True):
    """The value of a table's record: an identity, and data.

        svarint(length of identity) · identity · svarint(length of data) · data     (the rest is ignored)

    The lengths are zig-zag numbers: 32 is the byte 40, 64 the bytes 80 01. Identity is 32 raw bytes in a range, and the
    range's id as 64 ASCII characters in a metarange. Source: lakeFS pkg/graveler/committed/value.go"""

    identity: bytes  # equal for equal content, whatever the address and time
    data: bytes  # an encoded entry, or an encoded RangeData

    @classmethod
    def decode(cls, raw: bytes, name: str) -> Value:
        """Decode the value of a table's record."""
        try:
            identity, at = _part(raw, 0)
            data, _ = _part(raw, at)
        except ValueError as error:
            raise FormatError(f"{name}: value {raw[:40].hex()}: {error}") from error
        return cls(identity, data)


def _part(raw: bytes, at: int) -> tuple[bytes, int]:
    zigzag, at = get_uvarint(raw, at, len(raw))
    length = zigzag >> 1
    if zigzag & 1 or length > PART_SIZE_MAX or at + length > len(raw):
        raise ValueError(f"identity or data has an impossible length in a value of {len(raw)} bytes")
    return raw[at : at + length], at + length


_HEX = frozenset("0123456789abcdef")


class RangeInfo(Struct, frozen=True):
    """A range of a metarange."""

    id: str  # 64 hex digits; the file is `_lakefs/<id>`
    min_key: bytes  # its first key; not reliable in files of old servers
    max_key: bytes  # its last key; ranges are sorted by it
    estimated_size: int
    count: int

    @classmethod
    def decode(cls, key: bytes, raw: bytes, name: str) -> RangeInfo:
        """Decode a record of a metarange."""
        value = Value.decode(raw, name)
        data = messages.decode(messages.RangeData, value.data, name)
        range_id = value.identity.decode("ascii", errors="replace")
        if not is_table_id(range_id):
            raise FormatError(f"{name}: {value.identity!r} is not the id of a range")
        if data.max_key != key:
            raise FormatError(f"{name}: a range's largest key {data.max_key!r} differs from its record's key")
        if data.count < 1:
            raise FormatError(f"{name}: a range of {data.count} records")
        return cls(range_id, data.min_key, data.max_key, data.estimated_size, data.count)


def is_table_id(text: str) -> bool:
    """Return whether a string has the form of an id of a range or metarange."""
    return len(text) == 64 and _HEX.issuperset(text)


class MetarangeReader:
    """Reads metaranges of successive commits, which share most blocks and records: each is read once."""

    def __init__(self) -> None:
        self.infos: dict[Record, RangeInfo] = {}
        self._seen: dict[bytes, Block] = {}

    def read(self, data: bytes, name: str, expected_id: str | None = None) -> list[Block]:
        """Read the blocks of a metarange; equal ones are the same object."""
        return read_table(data, name, kind=METARANGES, expected_id=expected_id, seen=self._seen).blocks

    def decode(self, block: Block, name: str) -> list[RangeInfo]:
        """Decode the ranges of a block."""
        new = (record for record in block.records if record not in self.infos)
        self.infos |= {record: RangeInfo.decode(*record, name) for record in new}
        return [self.infos[record] for record in block.records]


def read_metarange(data: bytes, name: str, expected_id: str | None = None) -> list[RangeInfo]:
    """Read the ranges of a metarange, sorted by key."""
    reader = MetarangeReader()
    found = [info for block in reader.read(data, name, expected_id) for info in reader.decode(block, name)]
    if len({info.id for info in found}) != len(found):
        raise FormatError(f"{name}: lists a range twice")
    return found


# Range and metarange files of a namespace, and those of refs dumps, by id.
type Files = dict[str, ObjectInfo]

METADATA = "_lakefs/"  # their folder
DUMP, DAMAGED = "refs dump", "damaged"
_TAIL_BYTES = 64 * 1024
_DIGITS = "0123456789abcdef"
_PAGE = 1000


def list_tables(reader: ObjectReader, at_least: int = 0) -> Files:
    """List range and metarange files and those of refs dumps, which have equal names. `at_least`: so many are known to
    be there; several pages of a remote store are listed by the first digits of names, side by side."""
    beginnings = _DIGITS if at_least >= _PAGE and reader.is_remote else ("",)
    levels = ordered_map(lambda beginning: reader.list_level(METADATA + beginning), beginnings)
    found = ((info.key.removeprefix(METADATA), info) for level in levels for info in level.objects)
    return {name: info for name, info in found if is_table_id(name)}


def read_kinds(reader: ObjectReader, files: Iterable[ObjectInfo]) -> dict[str, str]:
    """Read the kind of files of `_lakefs/`, by name: `ranges`, `metaranges`, `DUMP`, or `DAMAGED` if unreadable."""
    wanted = list(files)

    def read(info: ObjectInfo) -> str:
        try:
            return kind_of(open_table(reader, info))
        except FormatError:
            log.warning("%s has the name of a range or metarange and cannot be read as one", info.key)
            return DAMAGED

    kinds = ordered_map(read, wanted)
    return {info.key.removeprefix(METADATA): kind for info, kind in zip(wanted, kinds, strict=True)}


def find_metarange_before(reader: ObjectReader, time: datetime, known: Collection[str] = ()) -> str | None:
    """Find a metarange written before a time; known names are not opened."""
    older = {name: info for name, info in sorted(list_tables(reader).items()) if info.last_modified < time}
    found = next((name for name in older if name in known), None)
    if found is not None:
        return found
    kinds = read_kinds(reader, older.values())
    return next((name for name, kind in kinds.items() if kind == METARANGES), None)


def open_tables(reader: ObjectReader, files: Files) -> Iterator[tuple[str, Envelope]]:
    """Read the ends of files, by name."""
    return zip(files, ordered_map(lambda info: open_table(reader, info), list(files.values())), strict=True)


def kind_of(envelope: Envelope) -> str:
    """Return `ranges`, `metaranges`, or `DUMP`."""
    return envelope.kind if envelope.entity is None else DUMP


def open_table(reader: ObjectReader, info: ObjectInfo) -> Envelope:
    """Read the end of a file of `_lakefs/`."""
    size = min(info.size, _TAIL_BYTES)
    # S3 refuses a range of an empty file.
    tail = reader.get_range(info.key, info.size - size, size) if size else b""
    try:
        return read_envelope(bytes(info.size - size) + tail, info.key)
    except FormatError:  # its properties have long keys
        return read_envelope(reader.get(info.key), info.key)
