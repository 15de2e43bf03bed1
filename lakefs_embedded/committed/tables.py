"""The writer: byte for byte the file of a lakeFS server for the same records.

Beyond the records, these rules decide the bytes:

* A block that holds more than 90 % of 4,096 bytes is closed before a record that would take it past 4,096; one
  that has reached 4,096 is closed before any record.
* Every 16th key of a data block and every key of an index block is a restart point.
* An index key is the shortest key that separates two blocks.
* An index that needs a second block becomes two-level.
* A block that Snappy shortens by less than an eighth stays uncompressed.

Source: lakeFS pkg/graveler/sstable/writer.go; cockroachdb/pebble sstable (2023-01) as its files show it.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import cramjam

from dredge.lakefs.files import messages
from dredge.lakefs.files.ident import TableHash
from dredge.lakefs.files.ranges import PART_SIZE_MAX, RangeInfo, Value
from dredge.lakefs.files.sstable.layout import (
    CHECKSUM_CRC32C,
    FOOTER_SIZE,
    KEY_TRAILER_SIZE,
    MAGIC,
    NO_KEY_TRAILER,
    PLAIN,
    RANGES,
    RECORD_TRAILER,
    SEPARATOR_TRAILER,
    SINGLE_LEVEL,
    SNAPPY,
    TRAILER_SIZE,
    TWO_LEVEL,
    VERSION,
    Footer,
    Handle,
    checksum,
)

_U32 = struct.Struct("<I")
_ONE_BYTE = 0x80
_SHORT = tuple(bytes((value,)) for value in range(_ONE_BYTE))
_HANDLE_SIZE_GUESS = 20
_NEVER = 1 << 31
_COMPRESSION = (
    b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; "
)


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """How records are cut into blocks. A server uses the defaults; tests also use others.

    Attributes:
        data: target size of a data block, in uncompressed bytes.
        index: target size of an index block, in uncompressed bytes.
        restart_interval: number of keys from one restart point of a data block to the next.
    """

    data: int = 4096
    index: int = 4096
    restart_interval: int = 16


SERVER_SIZES = BlockSizes()


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A finished table; `estimated_size` is in bytes, as a server estimates it when it closes the table."""

    id: str
    data: bytes
    count: int
    min_key: bytes
    max_key: bytes
    estimated_size: int

    @property
    def info(self) -> RangeInfo:
        """The table as a range of a metarange."""
        return RangeInfo(self.id, self.min_key, self.max_key, self.estimated_size, self.count)


class _BlockWriter:
    """A block under construction."""

    __slots__ = (
        "_interval",
        "_next_restart",
        "_target",
        "_threshold",
        "body",
        "entries",
        "last_key",
        "restarts",
    )

    def __init__(self, interval: int, target: int = 0) -> None:
        self._interval = interval
        self._target = target
        self._threshold = (target * 90 + 99) // 100
        self.clear()

    def clear(self) -> None:
        self.body = bytearray()
        self.restarts: list[int] = []
        self.entries = 0
        self.last_key = b""
        self._next_restart = 0

    def size(self) -> int:
        """Size in bytes of the block if it were finished now; an empty block counts no restart point."""
        return len(self.body) + 4 * len(self.restarts) + 4

    def is_full_for(self, key_size: int, value_size: int) -> bool:
        """Whether the block is to be closed before an entry of these sizes (the key with its trailer)."""
        if not self.entries:
            return False
        size = self.size()
        if size >= self._target:
            return True
        if size <= self._threshold:
            return False
        size += key_size + value_size + 4 + _uvarint_size(key_size) + _uvarint_size(value_size)
        if self.entries % self._interval == 0:
            size += 4
        return size > self._target

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry; the key with its trailer, if any."""
        if self.entries == self._next_restart:
            self._next_restart += self._interval
            self.restarts.append(len(self.body))
            shared = 0
        else:
            shared = shared_prefix(self.last_key, key)
        unshared = len(key) - shared
        if shared < _ONE_BYTE and unshared < _ONE_BYTE and len(value) < _ONE_BYTE:
            self.body += bytes((shared, unshared, len(value)))
        else:
            self.body += put_uvarint(shared) + put_uvarint(unshared) + put_uvarint(len(value))
        self.body += key[shared:]
        self.body += value
        self.entries += 1
        self.last_key = key

    def finish(self) -> bytes:
        """The body; the block can be cleared and used again."""
        restarts = self.restarts or [0]
        return bytes(self.body) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


class TableWriter:
    """Writes a table, record by record."""

    def __init__(self, kind: str = RANGES, sizes: BlockSizes = SERVER_SIZES) -> None:
        self._properties = {"type": kind}
        self._out = bytearray()
        self._block = _BlockWriter(sizes.restart_interval, sizes.data)
        self._index = _BlockWriter(1, sizes.index)
        self._partitions: list[tuple[bytes, bytes, int]] = []
        self._hash = TableHash()
        self._key_bytes = self._value_bytes = 0
        self.count = 0
        self.min_key = self.max_key = b""

    def add(self, key: bytes, value: bytes) -> None:
        """Append a record."""
        if self.count and key <= self.max_key:
            raise ValueError(f"key {key!r} does not come after {self.max_key!r}")
        if self._block.is_full_for(len(key) + KEY_TRAILER_SIZE, len(value)):
            self._flush_block(key)
        self._block.add(key + RECORD_TRAILER, value)
        self._hash.add(key, value)
        if not self.count:
            self.min_key = key
        self.count += 1
        self.max_key = key
        self._key_bytes += len(key) + KEY_TRAILER_SIZE
        self._value_bytes += len(value)

    def estimated_size(self) -> int:
        """Size in bytes of finished blocks and blocks under construction."""
        return len(self._out) + self._block.size() + self._index.size()

    def finish(self) -> WrittenTable:
        """Close the table. The writer cannot be used afterwards."""
        estimated_size = self.estimated_size()
        self._flush_block(None)
        data_size = len(self._out)
        facts = {"rocksdb.data.size": data_size}
        index = self._finish_index(facts)
        properties = self._write_properties(facts, estimated_size)
        metaindex = _BlockWriter(1)
        metaindex.add(b"rocksdb.properties", put_handle(properties))
        handle = self._write_block(metaindex.finish(), compress=False)
        self._out += put_footer(Footer(handle, index))
        return WrittenTable(
            id=self._hash.finish(self._properties),
            data=bytes(self._out),
            count=self.count,
            min_key=self.min_key,
            max_key=self.max_key,
            estimated_size=estimated_size,
        )

    def _flush_block(self, next_key: bytes | None) -> None:
        if next_key is None and not self._block.entries and self.count:
            return
        handle = self._write_block(self._block.finish())
        key = _index_key(self.max_key, next_key) if self.count else NO_KEY_TRAILER
        if self._index.is_full_for(len(key), _HANDLE_SIZE_GUESS):
            self._close_partition()
        self._index.add(key, put_handle(handle))
        self._block.clear()

    def _close_partition(self) -> None:
        self._partitions.append((self._index.last_key, self._index.finish(), self._index.entries))
        self._index.clear()

    def _finish_index(self, facts: dict[str, int]) -> Handle:
        if not self._partitions:
            facts["rocksdb.index.size"] = self._index.size() + TRAILER_SIZE
            facts["rocksdb.num.data.blocks"] = self._index.entries
            return self._write_block(self._index.finish())
        self._close_partition()
        top = _BlockWriter(1)
        for key, partition, _ in self._partitions:
            top.add(key, put_handle(self._write_block(partition)))
        facts["rocksdb.index.partitions"] = len(self._partitions)
        facts["rocksdb.top-level.index.size"] = top.size()
        partitions_size = sum(len(partition) for _, partition, _ in self._partitions)
        facts["rocksdb.index.size"] = partitions_size + top.size() + TRAILER_SIZE
        facts["rocksdb.num.data.blocks"] = sum(entries for _, _, entries in self._partitions)
        return self._write_block(top.finish())

    def _write_properties(self, facts: dict[str, int], estimated_size: int) -> Handle:
        facts["rocksdb.num.entries"] = self.count
        facts["rocksdb.raw.key.size"] = self._key_bytes
        facts["rocksdb.raw.value.size"] = self._value_bytes
        properties = _FIXED_PROPERTIES | {key: put_uvarint(value) for key, value in facts.items()}
        index_type = TWO_LEVEL if self._partitions else SINGLE_LEVEL
        properties["rocksdb.block.based.table.index.type"] = struct.pack("<I", index_type)
        properties |= {key: value.encode() for key, value in self._properties.items()}
        properties["min_key"], properties["max_key"] = self.min_key, self.max_key
        properties["count"] = b"%d" % self.count
        properties["estimated_size_bytes"] = b"%d" % estimated_size
        block = _BlockWriter(_NEVER)
        for key, value in sorted((key.encode(), value) for key, value in properties.items()):
            block.add(key, value)
        return self._write_block(block.finish(), compress=False)

    def _write_block(self, body: bytes, *, compress: bool = True) -> Handle:
        block_type = PLAIN
        if compress:
            smaller = bytes(cramjam.snappy.compress_raw(body))
            if len(smaller) < len(body) - len(body) // 8:
                body, block_type = smaller, SNAPPY
        handle = Handle(len(self._out), len(body))
        self._out += body
        self._out += put_trailer(body, block_type)
        return handle


def write_table(
    records: Iterable[tuple[bytes, bytes]],
    kind: str = RANGES,
    sizes: BlockSizes = SERVER_SIZES,
) -> WrittenTable:
    """Write a whole table; raises ValueError unless each key is greater than its predecessor."""
    writer = TableWriter(kind, sizes)
    for key, value in records:
        writer.add(key, value)
    return writer.finish()


def put_uvarint(value: int) -> bytes:
    """Encode an unsigned number, 7 bits per byte, least significant first."""
    if value < _ONE_BYTE:
        return _SHORT[value]
    out = bytearray()
    while value >= _ONE_BYTE:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_value(value: Value) -> bytes:
    """Encode the value of a record. Raises ValueError if a part is larger than a server accepts."""
    if len(value.identity) > PART_SIZE_MAX or len(value.data) > PART_SIZE_MAX:
        raise ValueError(f"the identity or the data of an entry has more than {PART_SIZE_MAX} bytes")
    parts = (
        put_uvarint(len(value.identity) << 1),
        value.identity,
        put_uvarint(len(value.data) << 1),
        value.data,
    )
    return b"".join(parts)


def put_range(info: RangeInfo) -> bytes:
    """Encode the value of a range's record in a metarange."""
    data = messages.RangeData(
        min_key=info.min_key, max_key=info.max_key, estimated_size=info.estimated_size, count=info.count
    )
    return put_value(Value(info.id.encode(), messages.encode(data)))


def put_handle(handle: Handle) -> bytes:
    """Encode a handle."""
    return put_uvarint(handle.offset) + put_uvarint(handle.length)


def put_trailer(body: bytes, block_type: int) -> bytes:
    """The 5 bytes after a block."""
    return bytes((block_type,)) + _U32.pack(checksum(body, block_type))


def put_footer(footer: Footer) -> bytes:
    """Encode the footer."""
    handles = bytes((CHECKSUM_CRC32C,)) + put_handle(footer.metaindex) + put_handle(footer.index)
    return handles.ljust(FOOTER_SIZE - 12, b"\0") + _U32.pack(VERSION) + MAGIC


def shared_prefix(one: bytes, other: bytes) -> int:
    """The length of the longest common prefix of two keys."""
    size = min(len(one), len(other))
    difference = int.from_bytes(one[:size]) ^ int.from_bytes(other[:size])
    return size - (difference.bit_length() + 7) // 8


def _index_key(last: bytes, following: bytes | None) -> bytes:
    """The separator of two blocks: the shortest key >= `last` and < `following`."""
    short = _successor(last) if following is None else _separator(last, following)
    return last + RECORD_TRAILER if short is None else short + SEPARATOR_TRAILER


def _separator(last: bytes, following: bytes) -> bytes | None:
    at = shared_prefix(last, following)
    if at >= len(last) or at >= len(following) or last[at] >= following[at]:
        return None
    if at < len(following) - 1 or last[at] + 1 < following[at]:
        short = last[:at] + bytes((last[at] + 1,))
    else:
        # Incrementing this byte would give `following` itself: increment a later one instead.
        short = next(
            (last[:i] + bytes((last[i] + 1,)) for i in range(at + 1, len(last)) if last[i] != 0xFF), last
        )
    return short if short > last else None


def _successor(last: bytes) -> bytes | None:
    for at, byte in enumerate(last):
        if byte != 0xFF:
            return last[:at] + bytes((byte + 1,))
    return None


def _uvarint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


_FIXED_PROPERTIES: dict[str, bytes] = {
    "rocksdb.block.based.table.prefix.filtering": b"0",
    "rocksdb.block.based.table.whole.key.filtering": b"0",
    "rocksdb.column.family.id": put_uvarint(0x7FFFFFFF),
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.compression": b"Snappy",
    "rocksdb.compression_options": _COMPRESSION,
    "rocksdb.creation.time": b"\0",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.external_sst_file.global_seqno": bytes(8),
    "rocksdb.external_sst_file.version": struct.pack("<I", 2),
    "rocksdb.filter.size": b"\0",
    "rocksdb.fixed.key.length": b"\0",
    "rocksdb.format.version": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.merge.operator": b"pebble.concatenate",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.oldest.key.time": b"\0",
    "rocksdb.prefix.extractor.name": b"nullptr",
    "rocksdb.property.collectors": b"[static]",
}
