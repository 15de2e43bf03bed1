"""The fast reader: columns of a range for collectors, at millions of rows a second.

Verified for every range: footer, metaindex, properties, index (as strictly as in the other reader); that data blocks
    fill
the file up to the index; checksums and restart points; ascending keys; the form of values and entries; UTF-8 of
addresses and etags; address types; and the stated numbers of blocks and records, bytes of keys and values, and the last
key. Damaged input raises an error, never fewer rows. Not verified: fields of an entry that were not requested, index
keys, identities.

Ranges of successive commits share most of their blocks. `decode_ranges` copies the rows of a block that is equal to one
of the range before it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.compiled import kernels
from dredge.kernels import interface as k
from dredge.lakefs.files.sstable.few import read_few
from dredge.lakefs.files.sstable.layout import (
    RANGES,
    TRAILER_SIZE,
    Envelope,
    Handle,
    damaged,
    load_block,
    read_envelope,
)
from dredge.lakefs.files.sstable.reader import index_partitions

type _Numbers = npt.NDArray[np.int64]

COLUMNS = ("address", "address_type", "size", "etag", "key", "address_hash", "content_hash")
_TEXT_SIZE_MAX = (1 << 31) - 1 - k.SLACK
_BLOCKS_WORTH_COMPARING = 8
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
)
_WITHOUT_PLACE = (k.BAD_CHECKSUM, k.BAD_TYPE, k.BAD_SNAPPY, k.NO_RECORDS)


@dataclass(frozen=True, slots=True)
class Expected:
    """Data of a range in its metarange: number of records, and the last key (empty if unknown)."""

    count: int
    max_key: bytes


def read_addresses(
    data: bytes,
    name: str,
    columns: Iterable[str] = ("address", "address_type"),
    expected: Expected | None = None,
) -> pa.RecordBatch:
    """Read columns of a range. `columns`: some of `COLUMNS`, in the order of the result: address and etag are strings,
    key is binary, address_type uint8, size int64, the hashes uint64. `expected`: data of the range in its metarange; a
    file that differs is refused. Returns a row for each record, in key order."""
    ((_, rows),) = decode_ranges([(name, data)], columns, {name: expected} if expected else None)
    return rows


def decode_ranges(
    files: Iterable[tuple[str, bytes]],
    columns: Iterable[str] = ("address", "address_type"),
    expected: Mapping[str, Expected] | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read columns of many ranges; shared blocks of successive ranges are decoded once. `files`: name and content, best
    sorted by their first keys, to make versions of a range neighbours."""
    wanted = tuple(columns)
    decoder = None
    for name, data in files:
        known = (expected or {}).get(name)
        count, max_key = (known.count, known.max_key) if known else (None, b"")
        rows = read_few(data, name, wanted, count, max_key)
        if rows is None:
            decoder = decoder or _Decoder(wanted)
            rows = decoder.decode(data, name, known).batch(wanted)
        yield name, rows


@dataclass(frozen=True, slots=True)
class _Decoded:
    """A range in columns, with its blocks, for the next range."""

    data: npt.NDArray[np.uint8]
    offsets: _Numbers
    lengths: _Numbers
    columns: Any
    rows: int
    others: int
    marks: npt.NDArray[np.uint64] | None = None

    def batch(self, names: tuple[str, ...]) -> pa.RecordBatch:
        """The rows as Arrow columns, without copying."""
        return pa.RecordBatch.from_arrays([self._array(name) for name in names], names=list(names))

    def _array(self, name: str) -> pa.Array:
        columns, rows = self.columns, self.rows
        if name in ("address", "etag", "key"):
            kind = pa.binary() if name == "key" else pa.string()
            offsets, text = getattr(columns, f"{name}_offsets"), getattr(columns, f"{name}_bytes")
            buffers = [None, pa.py_buffer(offsets[: rows + 1]), pa.py_buffer(text[: int(offsets[rows])])]
            return pa.Array.from_buffers(kind, rows, buffers)
        values = getattr(columns, _FIELDS[name])
        return pa.Array.from_buffers(
            pa.from_numpy_dtype(values.dtype), rows, [None, pa.py_buffer(values[:rows])]
        )


_FIELDS = {
    "address_type": "address_types",
    "size": "sizes",
    "address_hash": "address_hashes",
    "content_hash": "content_hashes",
}
_BITS = {
    "address": k.ADDRESS,
    "address_type": 0,
    "size": k.SIZE,
    "etag": k.ETAG,
    "key": k.KEY,
    "address_hash": k.ADDRESS_HASH,
    "content_hash": k.CONTENT_HASH,
}


class _Decoder:
    """Decodes a sequence of ranges into the same columns; keeps the last range for its blocks."""

    def __init__(self, names: tuple[str, ...]) -> None:
        if unknown := set(names) - set(COLUMNS):
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}; there are {', '.join(COLUMNS)}")
        self._wanted = sum({_BITS[name] for name in names})
        self._kernels: Any = kernels()
        self._before: _Decoded | None = None
        self._scratch = np.empty(1 << 16, np.uint8)
        self._key = np.empty(1 << 16, np.uint8)

    def decode(self, data: bytes, name: str, expected: Expected | None) -> _Decoded:
        envelope = read_envelope(data, name, RANGES, expected.count if expected else None)
        if expected is not None and expected.max_key and envelope.max_key != expected.max_key:
            problem = f"the last key is {envelope.max_key!r}; the metarange says {expected.max_key!r}"
            raise damaged(name, "properties", problem)
        before, self._before = self._before, None
        decoded = self._decode(data, name, envelope, before)
        self._before = decoded
        return decoded

    def _decode(self, data: bytes, name: str, envelope: Envelope, before: _Decoded | None) -> _Decoded:
        array = np.frombuffer(data, np.uint8)
        offsets, lengths = self._blocks(data, name, envelope)
        sizes = np.empty_like(offsets)
        self._kernels.measure(array, offsets, lengths, sizes)
        columns = self._allocate(name, envelope, sizes)
        sources = np.full(len(offsets), -1, np.int64)
        old = columns
        marks = _marks(array, offsets, lengths) if len(offsets) > _BLOCKS_WORTH_COMPARING else None
        if before is not None and marks is not None and before.marks is not None:
            self._find_equal(array, offsets, lengths, marks, before, before.marks, sources)
            old = before.columns
        largest = int(sizes.max(initial=0)) + k.SLACK
        if largest > len(self._scratch):
            self._scratch, self._key = np.empty(largest, np.uint8), np.empty(largest, np.uint8)
        state = np.zeros(k.STATE_SIZE, np.int64)
        state[k.KEY_SIZE] = -1  # there is no key before the first
        room = self._scratch, self._key, self._wanted
        self._kernels.decode(array, offsets, lengths, sizes, sources, old, *room, columns, state)
        if state[k.CODE]:
            code, block, place = state[[k.CODE, k.BLOCK, k.PLACE]].tolist()
            inside = "" if code in _WITHOUT_PLACE else f", entry at {place}"
            where = f"data block {block} at {Handle(int(offsets[block]), int(lengths[block]))}{inside}"
            raise damaged(name, where, _PROBLEMS[code])
        rows, last_key = int(state[k.ROW]), self._key[: max(0, int(state[k.KEY_SIZE]))].tobytes()
        _check_totals(envelope, name, rows, last_key, columns)
        return _Decoded(array, offsets, lengths, columns, rows, int(state[k.OTHERS]), marks)

    def _blocks(self, data: bytes, name: str, envelope: Envelope) -> tuple[_Numbers, _Numbers]:
        """Read the index: where the data blocks are. They tile the file from its start to the index."""
        if envelope.blocks > envelope.data_size // TRAILER_SIZE:
            raise damaged(name, "properties", f"{envelope.blocks} blocks in {envelope.data_size} bytes")
        offsets, lengths = np.empty(envelope.blocks, np.int64), np.empty(envelope.blocks, np.int64)
        found = 0
        for handle in index_partitions(data, envelope, name):
            block = np.frombuffer(load_block(data, handle, name, "index block"), np.uint8)
            count = self._kernels.read_index(block, offsets[found:], lengths[found:])
            if count < 0:
                raise damaged(
                    name, f"index block at {handle}", "damaged, or more blocks than the properties state"
                )
            found += count
        if found != envelope.blocks:
            raise damaged(name, "data blocks", f"{found} found, {envelope.blocks} in the properties")
        ends = offsets + lengths + 5
        starts = np.concatenate([[0], ends[:-1]])
        if (lengths < 0).any() or (offsets != starts).any() or ends[-1:].tolist() != [envelope.data_size]:
            wrong = int(np.argmax(offsets != starts)) if (offsets != starts).any() else found - 1
            where = f"data block {wrong} at {int(offsets[wrong]) if found else 0}"
            raise damaged(name, where, f"blocks are not contiguous up to byte {envelope.data_size}")
        return offsets, lengths

    def _allocate(self, name: str, envelope: Envelope, sizes: _Numbers) -> Any:
        """Make room for a range's columns. Unused pages cost no memory."""
        raw = int(sizes[sizes > 0].sum())
        rows, blocks = envelope.records, len(sizes)
        # An entry has three lengths, a byte of key and two of value at least.
        if rows > raw // 6:
            if (sizes >= 0).all():
                raise damaged(name, "properties", f"{rows} records in {raw} bytes")
            rows = raw // 6  # a block is damaged; which one will be found by its checksum
        key_bytes = envelope.key_bytes - 8 * rows
        wanted = self._wanted
        texts = raw if wanted & (k.ADDRESS | k.ETAG) else 0
        for what, size in (("texts", texts), ("keys", key_bytes if wanted & k.KEY else 0)):
            if not 0 <= size <= _TEXT_SIZE_MAX:
                raise damaged(name, "properties", f"{size} bytes of {what} are too many for one range")

        def room(bit: int, size: int, dtype: Any) -> npt.NDArray[Any]:
            return np.empty(size if not bit or wanted & bit else 0, dtype)

        return k.Columns(
            address_offsets=room(k.ADDRESS, rows + 1, np.int32),
            address_bytes=room(k.ADDRESS, raw + k.SLACK, np.uint8),
            address_types=room(0, rows, np.uint8),
            sizes=room(k.SIZE, rows, np.int64),
            etag_offsets=room(k.ETAG, rows + 1, np.int32),
            etag_bytes=room(k.ETAG, raw + k.SLACK, np.uint8),
            key_offsets=room(k.KEY, rows + 1, np.int32),
            key_bytes=room(k.KEY, max(0, key_bytes) + k.SLACK, np.uint8),
            address_hashes=room(k.ADDRESS_HASH, rows, np.uint64),
            content_hashes=room(k.CONTENT_HASH, rows, np.uint64),
            first_rows=np.empty(blocks + 1, np.int64),
            key_sums=np.zeros(blocks, np.int64),
            value_sums=np.zeros(blocks, np.int64),
        )

    def _find_equal(
        self,
        array: npt.NDArray[np.uint8],
        offsets: _Numbers,
        lengths: _Numbers,
        marks: npt.NDArray[np.uint64],
        before: _Decoded,
        old_marks: npt.NDArray[np.uint64],
        sources: _Numbers,
    ) -> None:
        """Find blocks to copy from the range before: inner blocks of equal sequences."""
        order = np.argsort(old_marks)
        places = np.minimum(np.searchsorted(old_marks, marks, sorter=order), len(order) - 1)
        guesses = order[places]
        guesses[old_marks[guesses] != marks] = -1
        if not (guesses >= 0).any():
            return
        self._kernels.keep_equal(
            array, offsets, lengths, before.data, before.offsets, before.lengths, guesses
        )
        follows = np.zeros(len(guesses), bool)
        follows[1:] = (guesses[1:] >= 0) & (guesses[:-1] >= 0) & (guesses[1:] == guesses[:-1] + 1)
        # The last of a run is decoded, since the next block's first key is compared with its last one.
        inner = np.flatnonzero(follows[:-1] & follows[1:])
        sources[inner] = guesses[inner]


def _marks(array: npt.NDArray[np.uint8], offsets: _Numbers, lengths: _Numbers) -> npt.NDArray[np.uint64]:
    """A number for each block: length and stored checksum."""
    places = (offsets + lengths + 1)[:, None] + np.arange(4)
    checksums = np.ascontiguousarray(array[places]).view("<u4")[:, 0].astype(np.uint64)
    return checksums << np.uint64(32) | lengths.astype(np.uint64)


def _check_totals(envelope: Envelope, name: str, rows: int, last_key: bytes, columns: Any) -> None:
    if rows != envelope.records:
        raise damaged(name, "records", f"{rows} found, {envelope.records} in the properties")
    if last_key != envelope.max_key:
        raise damaged(
            name, "records", f"the last key is {last_key!r}, the properties say {envelope.max_key!r}"
        )
    for what, found, stated in (
        ("keys", int(columns.key_sums.sum()), envelope.key_bytes),
        ("values", int(columns.value_sums.sum()), envelope.value_bytes),
    ):
        if found != stated:
            raise damaged(name, "records", f"{found} bytes of {what} found, {stated} in the properties")
