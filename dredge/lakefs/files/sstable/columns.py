"""The fast reader: columns of a range for collectors, at millions of rows a second.

Verified for every range: footer, metaindex, properties, index (as strictly as in the other reader); that data blocks
fill the file up to the index; checksums and restart points; ascending keys; the form of values and entries; UTF-8 of
addresses and etags; address types; and the stated numbers of blocks and records, bytes of keys and values, and the last
key. Damaged input raises an error, never fewer rows. Not verified: fields of an entry that were not requested, index
keys, identities.

Ranges of successive commits share most of their blocks: the rows of a block that is equal to one of the range before it
are copied.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from dredge.compiled import kernels
from dredge.kernels import interface as k
from dredge.lakefs.files.sstable.few import read_few
from dredge.lakefs.files.sstable.layout import (
    RANGES,
    TRAILER_SIZE,
    Envelope,
    Expected,
    Handle,
    damaged,
    load_block,
    read_envelope,
)
from dredge.lakefs.files.sstable.reader import index_blocks

type _Numbers = npt.NDArray[np.int64]

# The cell of its memory address, its type, the bytes of a value (0 for texts).
_COLUMNS = {
    "address": (k.ADDRESS, pa.string(), 0),
    "address_type": (k.ADDRESS_TYPE, pa.uint8(), 1),
    "size": (k.SIZE, pa.int64(), 8),
    "etag": (k.ETAG, pa.string(), 0),
    "key": (k.KEY, pa.binary(), 0),
    "address_hash": (k.ADDRESS_HASH, pa.uint64(), 8),
    "content_hash": (k.CONTENT_HASH, pa.uint64(), 8),
}
COLUMNS = tuple(_COLUMNS)
_TEXT_SIZE_MAX = (1 << 31) - 1 - k.SLACK
_PROBLEMS = (  # by the code with which a kernel stops
    "",
    "checksum mismatch",
    "a compression type that lakeFS does not write",
    "Snappy cannot uncompress it",
    "restart points do not fit its entries",
    "lengths run out of the block or the previous key",
    "a key that is not of a plain record",
    "a key that does not come after the one before",
    "a value that is cut off",
    "data that is no entry",
    "an address type that is unknown",
    "an address or etag that is not UTF-8",
    "more records or more bytes of keys than the properties state",
    "no records",
    "not contiguous with the blocks beside it up to the index",
)
_WITHOUT_PLACE = (k.BAD_CHECKSUM, k.BAD_TYPE, k.BAD_SNAPPY, k.NO_RECORDS, k.BAD_TILING)


def read_addresses(
    data: bytes,
    name: str,
    columns: Iterable[str] = ("address", "address_type"),
    expected: Expected | None = None,
) -> pa.RecordBatch:
    """Read columns of one range; see `RangeDecoder.read`. `expected`: data of the range in its metarange."""
    return RangeDecoder(columns, {name: expected} if expected else {}).read(name, data)


def decode_ranges(
    files: Iterable[tuple[str, bytes]],
    columns: Iterable[str] = ("address", "address_type"),
    expected: Mapping[str, Expected] | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read columns of many ranges; see `RangeDecoder`. `files`: name and content."""
    decoder = RangeDecoder(columns, expected or {})
    return ((name, decoder.read(name, data)) for name, data in files)


class _Decoded(Struct, frozen=True):
    """A range in columns, with its blocks, for the next range."""

    data: npt.NDArray[np.uint8]
    blocks: _Numbers  # rows of `k.BLOCK_CELLS`
    state: _Numbers
    columns: dict[str, list[pa.Buffer]]  # of a text: offsets, bytes

    def numbers(self) -> list[npt.NDArray[Any]]:
        """The columns, all of numbers, without copying."""
        rows = int(self.state[k.ROW])
        return [np.frombuffer(item[0], f"u{_COLUMNS[name][2]}", rows) for name, item in self.columns.items()]

    def batch(self) -> pa.RecordBatch:
        """The rows as Arrow columns, without copying."""
        state = self.state.tolist()
        arrays = [_array(name, buffers, state) for name, buffers in self.columns.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _array(name: str, buffers: list[pa.Buffer], state: list[int]) -> pa.Array:
    rows, (cell, kind, width) = state[k.ROW], _COLUMNS[name]
    sizes = [rows * width] if width else [4 * rows + 4, state[cell + 2]]
    filled = [buffer.slice(0, size) for buffer, size in zip(buffers, sizes, strict=True)]
    return pa.Array.from_buffers(kind, rows, [None, *filled])


def _room(size: int) -> pa.Buffer:
    """Memory for a column. Unused pages cost nothing."""
    return pa.py_buffer(np.empty(size + k.SLACK, np.uint8))


class RangeDecoder:
    """Decodes ranges into the same columns, some of `COLUMNS`. Rows of blocks that the range before had are copied, so
    versions of a range should be neighbours, as they are in the order of first keys.

    `expected`: data of ranges in their metaranges, by name; a file that differs is refused."""

    def __init__(self, columns: Iterable[str], expected: Mapping[str, Expected]) -> None:
        self._names, self._expected = tuple(columns), expected
        if unknown := set(self._names) - set(COLUMNS):
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}; there are {', '.join(COLUMNS)}")
        self._before = self._nothing = _Decoded(
            np.empty(0, np.uint8),
            np.empty((1, k.BLOCK_CELLS), np.int64),
            np.empty(k.STATE_SIZE, np.int64),
            {},
        )
        self._scratch = np.empty(1 << 16, np.uint8)
        self._key = np.empty(1 << 16, np.uint8)

    def read(self, name: str, data: bytes) -> pa.RecordBatch:
        """Read a range: a row for each record, in key order. Address and etag are strings, key is binary, address_type
        uint8, size int64, the hashes uint64."""
        few = self._read_few(name, data)
        return self._decode(data, name).batch() if few is None else few

    def read_numbers(self, name: str, data: bytes) -> list[npt.NDArray[Any]]:
        """Read a range whose columns are all of numbers, as unsigned arrays."""
        few = self._read_few(name, data)
        if few is None:
            return self._decode(data, name).numbers()
        return [column.to_numpy().view(f"u{column.type.byte_width}") for column in few.columns]

    def _read_few(self, name: str, data: bytes) -> pa.RecordBatch | None:
        return read_few(data, name, self._names, self._expected.get(name))

    def _decode(self, data: bytes, name: str) -> _Decoded:
        envelope = read_envelope(data, name, RANGES, self._expected.get(name))
        before, self._before = self._before, self._nothing
        decoded = self._decode_blocks(data, name, envelope, before)
        self._before = decoded
        return decoded

    def _decode_blocks(self, data: bytes, name: str, envelope: Envelope, before: _Decoded) -> _Decoded:
        array, blocks = np.frombuffer(data, np.uint8), self._read_index(data, name, envelope)
        state = np.zeros(k.STATE_SIZE, np.int64)
        state[k.KEY_SIZE] = -1  # there is no key before the first
        kernels().measure(array, envelope.data_size, blocks, before.data, before.blocks, state)
        _check(blocks, name, state)
        columns = self._allocate(name, envelope, state)
        largest = int(state[k.LARGEST]) + k.SLACK
        if largest > len(self._scratch):
            self._scratch, self._key = np.empty(largest, np.uint8), np.empty(largest, np.uint8)
        kernels().decode(array, blocks, before.blocks, before.state, self._scratch, self._key, state)
        _check(blocks, name, state)
        last_key = self._key[: max(0, int(state[k.KEY_SIZE]))].tobytes()
        rows, *sizes = state[[k.ROW, k.KEY_TOTAL, k.VALUE_TOTAL]].tolist()
        envelope.check(name, rows, last_key, sizes)
        return _Decoded(array, blocks, state, columns)

    def _read_index(self, data: bytes, name: str, envelope: Envelope) -> _Numbers:
        """Read where the data blocks are."""
        if not 0 < envelope.blocks <= envelope.data_size // TRAILER_SIZE:
            raise damaged(name, "properties", f"{envelope.blocks} blocks in {envelope.data_size} bytes")
        blocks, found = np.empty((envelope.blocks + 1, k.BLOCK_CELLS), np.int64), 0
        for handle, _ in index_blocks(data, envelope, name):
            block = np.frombuffer(load_block(data, handle, name, "index block"), np.uint8)
            found = kernels().read_index(block, blocks, found)
            if found < 0:
                raise damaged(
                    name, f"index block at {handle}", "damaged, or more blocks than the properties state"
                )
        if found != envelope.blocks:
            raise damaged(name, "data blocks", f"{found} found, {envelope.blocks} in the properties")
        return blocks

    def _allocate(self, name: str, envelope: Envelope, state: _Numbers) -> dict[str, list[pa.Buffer]]:
        """Make room for a range's columns; the state gets their addresses."""
        rows, raw = envelope.records, int(state[k.RAW])
        # An entry has three lengths, a byte of key and two of value at least.
        if rows > raw // 6:
            if not state[k.IMPOSSIBLE]:
                raise damaged(name, "properties", f"{rows} records in {raw} bytes")
            rows = raw // 6  # a block is damaged; which one will be found by its checksum
        state[k.ROWS_MAX], columns = rows, {}
        for column in self._names:
            cell, _, width = _COLUMNS[column]
            if width:
                columns[column] = [_room(rows * width)]
            else:
                size = envelope.key_bytes - 8 * rows if column == "key" else raw
                if not 0 <= size <= _TEXT_SIZE_MAX:
                    problem = f"{size} bytes of {column} are too many for one range"
                    raise damaged(name, "properties", problem)
                columns[column] = [_room(4 * rows + 4), _room(size)]
                if column == "key":
                    state[k.KEYS_MAX] = size
            for at, buffer in enumerate(columns[column]):
                state[cell + at] = buffer.address
        return columns


def _check(blocks: _Numbers, name: str, state: _Numbers) -> None:
    """Raise the error with which a kernel stopped."""
    code, block, place = state[: k.PLACE + 1].tolist()
    if code:
        inside = "" if code in _WITHOUT_PLACE else f", entry at {place}"
        handle = Handle(int(blocks[block, k.OFFSET]), int(blocks[block, k.LENGTH]))
        raise damaged(name, f"data block {block} at {handle}{inside}", _PROBLEMS[code])
