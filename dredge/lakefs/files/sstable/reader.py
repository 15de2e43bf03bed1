"""The strict reader: returns every record of a table, or raises. It checks that each byte of the file belongs to a
block, blocks match their checksums, keys ascend, index keys separate their blocks, and the numbers of records, blocks
and bytes are those of the properties. `columns` reads the same files faster, but only the columns for collectors.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from dredge.lakefs.files.ident import TableHash, encode_records
from dredge.lakefs.files.sstable.layout import (
    KEY_TRAILER_SIZE,
    NO_KEY_TRAILER,
    RECORD_TRAILER,
    SEPARATOR_TRAILER,
    Envelope,
    Expected,
    Handle,
    block_entries,
    damaged,
    get_handle,
    load_block,
    read_envelope,
    user_properties,
)


class Record(NamedTuple):
    """A record: key, and the stored value (identity and data)."""

    key: bytes
    value: bytes


@dataclass(eq=False)
class Block:
    """A data block, or equal ones of several tables."""

    records: list[Record]

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Bytes of all keys, with their trailers, and of all values."""
        keys = sum(len(record.key) for record in self.records)
        return keys + KEY_TRAILER_SIZE * len(self.records), sum(len(record.value) for record in self.records)

    @cached_property
    def encoded(self) -> bytes:
        """The records, encoded for a table's id."""
        return encode_records(self.records)


class Table(Struct, frozen=True):
    """A whole table in memory."""

    envelope: Envelope
    blocks: list[Block]

    @property
    def records(self) -> list[Record]:
        """All records, in key order."""
        return [record for block in self.blocks for record in block.records]

    @property
    def id(self) -> str:
        """The id computed from the records, which is the file's name on a server."""
        table_hash = TableHash()
        for block in self.blocks:
            table_hash.add_encoded(block.encoded)
        return table_hash.finish(user_properties(self.envelope.properties))


def read_table(
    data: bytes,
    name: str,
    *,
    kind: str | None = None,
    expected_id: str | None = None,
    expected: Expected | None = None,
    seen: dict[bytes, Block] | None = None,
) -> Table:
    """Read a table whole. `kind`: `ranges` or `metaranges` of objects; None accepts refs dumps as well. `seen`: blocks
    by their bytes of the tables read before, which most blocks of a version are equal to; gets the new ones."""
    envelope = read_envelope(data, name, kind, expected)
    blocks: list[Block] = []
    before = None
    for number, (handle, separator) in enumerate(data_blocks(data, envelope, name)):
        blocks.append(read_block(data, handle, separator, number, before, name, seen))
        before = blocks[-1].records[-1].key if blocks[-1].records else before
    sizes = [sum(block.sizes[place] for block in blocks) for place in (0, 1)]
    envelope.check(name, sum(len(block.records) for block in blocks), before or b"", sizes)
    table = Table(envelope, blocks)
    if expected_id is not None and (computed := table.id) != expected_id:
        raise damaged(name, "records", f"their id is {computed}, not {expected_id}: another table's file")
    return table


def data_blocks(data: bytes, envelope: Envelope, name: str) -> Iterator[tuple[Handle, bytes]]:
    """Yield each data block's handle and index key. Raises FormatError if the blocks do not tile the file up to the
    index."""
    at = number = 0
    last = b""
    for index, bound in index_blocks(data, envelope, name):
        key = b""
        for handle, key in _index_entries(data, index, name, "index block"):
            place = f"data block {number} at {handle}"
            if handle.offset != at:
                raise damaged(name, place, f"does not follow on {at}")
            if number and key[:-KEY_TRAILER_SIZE] <= last:
                raise damaged(name, place, "its index key is out of order")
            at, number, last = handle.end, number + 1, key[:-KEY_TRAILER_SIZE]
            yield handle, key
        if bound is not None and bound != key:
            raise damaged(name, f"index partition at {index}", "its last key is not the one of the top index")
    if at != envelope.data_size:
        raise damaged(name, "data blocks", f"end at {at}, not at {envelope.data_size} as the properties say")
    if number != envelope.blocks:
        raise damaged(name, "data blocks", f"{number} found, {envelope.blocks} in the properties")


def index_blocks(data: bytes, envelope: Envelope, name: str) -> list[tuple[Handle, bytes | None]]:
    """Return the handles of the index blocks: the only block, or the partitions of a two-level index with their keys in
    it. Raises FormatError if the index is damaged, or does not fill the file between data and properties."""
    indexes: list[tuple[Handle, bytes | None]] = [(envelope.index, None)]
    at = envelope.data_size
    if envelope.two_level:
        indexes = []
        for handle, key in _index_entries(data, envelope.index, name, "top index block"):
            if handle.offset != at:
                raise damaged(name, f"index partition at {handle}", f"does not follow on {at}")
            at = handle.end
            indexes.append((handle, key))
    if at != envelope.index.offset:
        raise damaged(name, f"index block at {envelope.index}", f"does not follow on {at}")
    return indexes


def _index_entries(data: bytes, index: Handle, name: str, what: str) -> Iterator[tuple[Handle, bytes]]:
    place = f"{what} at {index}"
    for key, value in block_entries(load_block(data, index, name, what), name, place):
        try:
            handle, at = get_handle(value, 0, len(value))
        except ValueError as error:
            raise damaged(name, place, str(error)) from error
        if at != len(value):
            raise damaged(name, place, "bytes behind a handle")
        if key[-KEY_TRAILER_SIZE:] not in (RECORD_TRAILER, SEPARATOR_TRAILER, NO_KEY_TRAILER):
            raise damaged(name, place, f"{key.hex()} is not an index key")
        yield handle, key


def read_block(
    data: bytes,
    handle: Handle,
    separator: bytes,
    number: int,
    before: bytes | None,
    name: str,
    seen: dict[bytes, Block] | None = None,
) -> Block:
    """Read a block. `separator`: its key in the index. `before`: the last key before it, if known. `seen` as in
    `read_table`."""
    place, raw = f"data block {number} at {handle}", data[handle.offset : handle.end]
    block = None if seen is None else seen.get(raw)
    if block is None:
        block = Block(_read_records(load_block(data, handle, name, f"data block {number}"), name, place))
        if seen is not None:
            seen[raw] = block
    if not block.records:
        if number or separator != NO_KEY_TRAILER:
            raise damaged(name, place, "no records")
        return block
    if before is not None and (key := block.records[0].key) <= before:
        raise damaged(name, place, f"key {key!r} does not come after {before!r}")
    if separator[:-KEY_TRAILER_SIZE] < block.records[-1].key:
        raise damaged(name, place, "its index key comes before its last key")
    return block


def _read_records(body: bytes, name: str, place: str) -> list[Record]:
    found: list[Record] = []
    before = None
    for entry_key, value in block_entries(body, name, place):
        if not entry_key.endswith(RECORD_TRAILER):
            raise damaged(name, place, f"key {entry_key!r} is not of a plain record")
        key = entry_key[:-KEY_TRAILER_SIZE]
        if before is not None and key <= before:
            raise damaged(name, place, f"key {key!r} does not come after {before!r}")
        found.append(Record(key, value))
        before = key
    return found


class SeekableTable:
    """A table read block by block, for a few records of a long range. It checks properties, index, and checksum and
    order of each block read. It does not check the table's id, because all records determine it.

    Safe for use from many threads.
    """

    def __init__(self, data: bytes, name: str, kind: str) -> None:
        envelope = read_envelope(data, name, kind)
        self.count = envelope.records
        self.max_key = envelope.max_key
        self.size = len(data)
        self._data = data
        self._name = name
        self._blocks = list(data_blocks(data, envelope, name))
        # An index key is not less than the last key of its block, and less than the first of the next one.
        self._bounds = [separator[:-KEY_TRAILER_SIZE] for _, separator in self._blocks]
        self._read: dict[int, list[Record]] = {}

    def records(self, start: bytes) -> Iterator[Record]:
        """Yield the records from key `start` on, block by block. Raises FormatError if a block is damaged."""
        first = bisect_left(self._bounds, start)
        for number in range(first, len(self._blocks)):
            records = self._block(number)
            yield from records[bisect_left(records, start, key=lambda record: record.key) :]

    def place(self, at: float) -> bytes | None:
        """Return a key right before that of the record at the fraction `at` (0 to below 1) of the table's blocks; None
        for the first record. Reads one block. Raises FormatError if it is damaged."""
        whole = at * len(self._blocks)
        number = int(whole)
        records = self._block(number)
        index = int((whole - number) * len(records))
        if index:
            return records[index - 1].key
        return self._bounds[number - 1] if number else None

    def _block(self, number: int) -> list[Record]:
        found = self._read.get(number)
        if found is None:
            handle, separator = self._blocks[number]
            found = read_block(self._data, handle, separator, number, None, self._name).records
            self._read[number] = found
        return found
