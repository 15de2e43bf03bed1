"""The bytes of a table file: RocksDB's block-based table, format 2, as a lakeFS server writes it.

    data block 0 … data block n-1           records; they tile the file from its first byte
    index partition 0 … m-1                 if a single index block is too small
    index block                             handles of the data blocks (or of the partitions)
    properties block                        name -> value
    metaindex block                         "rocksdb.properties" -> handle of that block
    footer, 53 bytes

    block     body (perhaps Snappy) · type (0 plain, 1 Snappy) · masked CRC-32C of body and type, u32 LE
    handle    uvarint offset · uvarint length, the trailer of 5 bytes not counted
    body      entries · restart offsets, u32 LE each · their number, u32 LE
    entry     uvarint shared · uvarint unshared · uvarint value length · unshared key bytes · value
    key       user key · u64 LE (sequence << 8 | kind): 01 00 … for a record, 11 ff … for a shortened
              index key; properties and metaindex keys have no such trailer
    footer    01 (CRC-32C) · metaindex handle · index handle · zeros up to byte 41 · 02 00 00 00 · magic

`shared` counts bytes of the previous key *with its trailer*, so a prefix can run into the trailer: after
`a` comes `a\\x01` with shared = 2, the second byte being the 01 of the first key's trailer.

Worked example, the end of a metarange of 1,022 bytes: `01 a307 21 7e 16 00…00 02000000 f7cff485b741e288`
says metaindex at 931 of length 33 and index at 126 of length 22; that index has the entry `00 09 02 62
11ffffffffffffff 00 79`: separator "b", data block at 0 of length 121.

Source: lakeFS pkg/graveler/sstable; the format as RocksDB and pebble document it.

The strict reader of whole records and the fast reader of columns both use this module.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cramjam
import crc32c
from msgspec import Struct

from dredge.errors import FormatError
from dredge.kernels.interface import BLOCK_SIZE_MAX

FOOTER_SIZE = 53
TRAILER_SIZE = 5
KEY_TRAILER_SIZE = 8
MAGIC = bytes.fromhex("f7cff485b741e288")
VERSION = 2
CHECKSUM_CRC32C = 1
PLAIN, SNAPPY = 0, 1
RECORD_TRAILER = b"\x01" + bytes(7)
SEPARATOR_TRAILER = b"\x11" + b"\xff" * 7
NO_KEY_TRAILER = b"\xff" + bytes(7)  # the index key of a table without records
_MASK_DELTA = 0xA282EAD8
_U32 = struct.Struct("<I")


class Handle(NamedTuple):
    """Offset and length of a block without its trailer."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The first byte after the block's trailer."""
        return self.offset + self.length + TRAILER_SIZE

    def __str__(self) -> str:
        return f"{self.offset} (+{self.length})"


class Footer(Struct, frozen=True):
    """The last 53 bytes."""

    metaindex: Handle
    index: Handle


def damaged(name: str, place: str, problem: str) -> FormatError:
    """Make the error for a damaged table."""
    return FormatError(f"{name}: {place}: {problem}")


def get_uvarint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode an unsigned number of at most 64 bits. Returns the number, and the position after it. Raises ValueError:
    the number is truncated, too long, or not in its shortest form."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64 or (byte == 0 and shift):
                break
            return value, at
        shift += 7
        if shift > 63:
            break
    raise ValueError("a number is cut off or too long")


def get_handle(data: bytes, at: int, end: int) -> tuple[Handle, int]:
    """Decode a handle; returns it with the position after it. Raises ValueError if it is truncated."""
    offset, at = get_uvarint(data, at, end)
    length, at = get_uvarint(data, at, end)
    return Handle(offset, length), at


def checksum(body: bytes | memoryview, block_type: int) -> int:
    """Return the checksum that a block stores: masked CRC-32C of body and type."""
    crc = crc32c.crc32c(bytes((block_type,)), crc32c.crc32c(body))
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def get_footer(data: bytes, name: str) -> Footer:
    """Decode the footer. Raises FormatError if the file is too short, or does not end in a valid footer."""
    if len(data) < FOOTER_SIZE:
        raise damaged(name, f"end of file at {len(data)}", f"shorter than a footer of {FOOTER_SIZE} bytes")
    start = len(data) - FOOTER_SIZE
    place = f"footer at {start}"
    tail = bytes(data[start:])
    if tail[-8:] != MAGIC:
        raise damaged(name, place, f"{tail[-8:].hex()} is not the end of a table: truncated, or another file")
    if (version := _U32.unpack_from(tail, FOOTER_SIZE - 12)[0]) != VERSION:
        raise damaged(name, place, f"format version is {version}, not {VERSION}")
    if tail[0] != CHECKSUM_CRC32C:
        raise damaged(name, place, f"checksum type is {tail[0]}, not {CHECKSUM_CRC32C} (CRC-32C)")
    try:
        metaindex, at = get_handle(tail, 1, FOOTER_SIZE - 12)
        index, at = get_handle(tail, at, FOOTER_SIZE - 12)
    except ValueError as error:
        raise damaged(name, place, str(error)) from error
    if any(tail[at : FOOTER_SIZE - 12]):
        raise damaged(name, place, "the padding behind the handles is not zero")
    return Footer(metaindex, index)


def load_block(data: bytes, handle: Handle, name: str, place: str) -> bytes:
    """Load a block: verify its checksum and uncompress it."""
    where = f"{place} at {handle}"
    if handle.end > len(data):
        raise damaged(name, where, f"outside the file of {len(data)} bytes")
    end = handle.offset + handle.length
    body = memoryview(data)[handle.offset : end]
    block_type = data[end]
    stored = _U32.unpack_from(data, end + 1)[0]
    if (computed := checksum(body, block_type)) != stored:
        raise damaged(name, where, f"checksum is {computed:08x}, the file states {stored:08x}")
    if block_type == PLAIN:
        return bytes(body)
    if block_type != SNAPPY:
        raise damaged(name, where, f"compression type {block_type} is not written by lakeFS")
    try:
        length, _ = get_uvarint(bytes(body[:10]), 0, min(10, handle.length))
        if length > BLOCK_SIZE_MAX:
            raise ValueError(f"{length} bytes uncompressed")
        raw = bytes(cramjam.snappy.decompress_raw(body))
    except (ValueError, cramjam.DecompressionError) as error:
        raise damaged(name, where, f"Snappy cannot uncompress it: {error}") from error
    return raw


def block_entries(block: bytes, name: str, place: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield all entries of a block in order, checking the restart points: the complete key, including its trailer if it
    has one, and the value."""
    if len(block) < 8:
        raise damaged(name, place, f"{len(block)} bytes are too few for a block")
    number = _U32.unpack_from(block, len(block) - 4)[0]
    end = len(block) - 4 - 4 * number
    if number < 1 or end < 0:
        raise damaged(name, place, f"{number} restart points do not fit a block of {len(block)} bytes")
    restarts = struct.unpack_from(f"<{number}I", block, end)
    if restarts[0] != 0:
        raise damaged(name, place, "the first restart point is not the block's first byte")
    if end == 0 and number != 1:
        raise damaged(name, place, "restart points in an empty block")
    at = met = 0
    key = b""
    while at < end:
        start = at
        head = block[at : at + 2]
        try:
            if head.isascii():  # two lengths of a byte each
                shared, unshared = head
                at += 2
            else:
                shared, at = get_uvarint(block, at, end)
                unshared, at = get_uvarint(block, at, end)
            size = block[at]
            at += 1
            if size >= 0x80:
                size, at = get_uvarint(block, at - 1, end)
        except ValueError as error:
            raise damaged(name, f"{place}, entry at {start}", str(error)) from error
        if shared > len(key) or unshared + size > end - at:
            raise damaged(name, f"{place}, entry at {start}", "lengths run out of block or previous key")
        if met < number and restarts[met] == start:
            if shared:
                raise damaged(name, f"{place}, entry at {start}", "a restart point shares a prefix")
            met += 1
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + size]
        at += size
    if met != number and end:
        raise damaged(name, place, f"only {met} of {number} restart points are at an entry")


RANGES = "ranges"
METARANGES = "metaranges"
SINGLE_LEVEL, TWO_LEVEL = 0, 2
_KINDS = (b"ranges", b"metaranges")
_COMPUTED = frozenset({"min_key", "max_key", "count", "estimated_size_bytes"})
_PROPERTIES = b"rocksdb.properties"
_EXPECTED = {
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
}


class Expected(Struct, frozen=True):
    """Data of a range in its metarange: number of records, and the last key (empty if unknown)."""

    count: int
    max_key: bytes = b""


class Envelope(Struct, frozen=True):
    """Everything about a table except its records."""

    properties: dict[str, bytes]
    index: Handle  # the index block; the top block of a two-level index
    two_level: bool  # whether its entries point to partitions of the index rather than to data blocks
    data_size: int
    records: int
    blocks: int
    key_bytes: int  # total size of the keys, each with its trailer
    value_bytes: int
    max_key: bytes

    @property
    def kind(self) -> str:
        """`ranges` or `metaranges`."""
        return self.properties["type"].decode()

    @property
    def entity(self) -> str | None:
        """Kind of records of a refs dump (`commit`, `branch`, `tag`); None for a table of objects."""
        value = self.properties.get("entity")
        return None if value is None else value.decode(errors="replace")

    def check(self, name: str, records: int, last_key: bytes, sizes: Sequence[int]) -> None:
        """Compare with the records found. `sizes`: bytes of keys and of values."""
        if records != self.records:
            raise damaged(name, "records", f"{records} found, {self.records} in the properties")
        if last_key != self.max_key:
            problem = f"the last key is {last_key!r}, the properties say {self.max_key!r}"
            raise damaged(name, "records", problem)
        stated = (self.key_bytes, self.value_bytes)
        if tuple(sizes) != stated:
            problem = f"{sizes} bytes of keys and values found, {stated} in the properties"
            raise damaged(name, "records", problem)


def user_properties(properties: dict[str, bytes]) -> dict[str, bytes]:
    """Return the properties that are part of a table's id: `type`, and those of a refs dump."""
    return {
        key: value
        for key, value in properties.items()
        if not key.startswith("rocksdb.") and key not in _COMPUTED
    }


def read_envelope(
    data: bytes, name: str, kind: str | None = None, expected: Expected | None = None
) -> Envelope:
    """Read and check footer, metaindex and properties. `kind`: `ranges` or `metaranges` of objects; None accepts refs
    dumps as well."""
    footer = get_footer(data, name)
    if footer.metaindex.end != len(data) - FOOTER_SIZE:
        raise damaged(name, f"metaindex block at {footer.metaindex}", "does not end where the footer starts")
    where, properties = _read_properties(data, footer.metaindex, name)
    if where.end != footer.metaindex.offset:
        raise damaged(name, f"properties block at {where}", "does not end where the metaindex starts")
    if footer.index.end != where.offset:
        raise damaged(name, f"index block at {footer.index}", "does not end where the properties start")
    envelope = _interpret(properties, footer.index, name)
    if envelope.data_size > footer.index.offset:
        raise damaged(name, "properties", f"data of {envelope.data_size} bytes run into the index")
    if kind is not None:
        if envelope.entity is not None:
            raise damaged(name, "properties", f"a refs dump ({envelope.entity}), not a table of objects")
        if envelope.kind != kind:
            raise damaged(name, "properties", f"a table of {envelope.kind}, not of {kind}")
    if expected is not None and envelope.records != expected.count:
        raise damaged(name, "properties", f"{envelope.records} records instead of {expected.count}")
    if expected is not None and expected.max_key and envelope.max_key != expected.max_key:
        problem = f"the last key is {envelope.max_key!r}; the metarange says {expected.max_key!r}"
        raise damaged(name, "properties", problem)
    return envelope


def _read_properties(data: bytes, metaindex: Handle, name: str) -> tuple[Handle, dict[str, bytes]]:
    what, place = "metaindex block", f"metaindex block at {metaindex}"
    entries = list(block_entries(load_block(data, metaindex, name, what), name, what))
    if [key for key, _ in entries] != [_PROPERTIES]:
        names = ", ".join(repr(key) for key, _ in entries)
        raise damaged(name, place, f"has {names or 'nothing'}, not only properties")
    raw = entries[0][1]
    try:
        handle, at = get_handle(raw, 0, len(raw))
    except ValueError as error:
        raise damaged(name, place, str(error)) from error
    if at != len(raw):
        raise damaged(name, place, "bytes behind the handle of the properties")
    properties: dict[str, bytes] = {}
    last, what = b"", "properties block"
    for key, value in block_entries(load_block(data, handle, name, what), name, what):
        if key <= last:
            raise damaged(name, f"{what} at {handle}", f"{key!r} is out of order")
        last = key
        properties[key.decode(errors="surrogateescape")] = value
    return handle, properties


def _interpret(properties: dict[str, bytes], index: Handle, name: str) -> Envelope:
    for key, value in _EXPECTED.items():
        if properties.get(key, value) != value:
            raise damaged(name, "properties", f"{key} is {properties[key]!r}, not {value!r}")
    try:
        index_type = int.from_bytes(properties["rocksdb.block.based.table.index.type"], "little")
        kind = properties["type"]
        count = int(properties["count"])
        envelope = Envelope(
            properties=properties,
            index=index,
            two_level=index_type == TWO_LEVEL,
            data_size=_number(properties["rocksdb.data.size"]),
            records=_number(properties["rocksdb.num.entries"]),
            blocks=_number(properties["rocksdb.num.data.blocks"]),
            key_bytes=_number(properties["rocksdb.raw.key.size"]),
            value_bytes=_number(properties["rocksdb.raw.value.size"]),
            max_key=properties["max_key"],
        )
    except KeyError as error:
        raise damaged(name, "properties", f"{error.args[0]} is missing") from error
    except ValueError as error:
        raise damaged(name, "properties", str(error)) from error
    if index_type not in (SINGLE_LEVEL, TWO_LEVEL):
        raise damaged(name, "properties", f"index type {index_type} is neither one level (0) nor two (2)")
    if kind not in _KINDS:
        raise damaged(name, "properties", f"type is {kind!r}, neither ranges nor metaranges")
    if count != envelope.records:
        raise damaged(name, "properties", f"count is {count}, but there are {envelope.records} entries")
    return envelope


def _number(value: bytes) -> int:
    return get_uvarint(value, 0, len(value))[0]
