"""What `dredge.kernels` does for tables, by numpy: for machines on which numba cannot be installed.

The same functions, the same checks, several times slower. All blocks of a piece of the file are walked at
once: step n looks at the n-th entry of every block. Rows of an earlier range are never taken over
(`keep_equal` finds no equal blocks), which costs time only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import cramjam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dredge.errors import FormatError
from dredge.graveler.sstable.blocks import block_entries
from dredge.graveler.sstable.layout import (
    BLOCK_SIZE_MAX,
    PLAIN,
    RECORD_TRAILER,
    SNAPPY,
    Handle,
    checksum,
    get_handle,
    get_uvarint,
)
from dredge.hashing import content_hash, hash64

type _Numbers = npt.NDArray[np.int64]
type _Bytes = npt.NDArray[np.uint8]

# As in dredge.kernels (a test compares them); see there.
OK, BAD_CHECKSUM, BAD_TYPE, BAD_SNAPPY, BAD_RESTARTS, BAD_ENTRY, BAD_TRAILER, BAD_ORDER = range(8)
BAD_VALUE, BAD_ENTRY_MESSAGE, BAD_ADDRESS_TYPE, BAD_UTF8, TOO_MANY, NO_RECORDS = range(8, 14)
ADDRESS, SIZE, ETAG, KEY, ADDRESS_HASH, CONTENT_HASH = 1, 2, 4, 8, 16, 32
CODE, BLOCK, PLACE, ROW, ADDRESS_AT, ETAG_AT, KEY_AT, KEY_SIZE, OTHERS = range(9)
STATE_SIZE = 9
SLACK = 64

_PIECE = 2 << 20


class Columns(NamedTuple):
    """As `dredge.kernels.Columns`."""

    address_offsets: Any
    address_bytes: Any
    address_types: Any
    sizes: Any
    etag_offsets: Any
    etag_bytes: Any
    key_offsets: Any
    key_bytes: Any
    address_hashes: Any
    content_hashes: Any
    first_rows: Any
    key_sums: Any
    value_sums: Any


class _DamagedError(Exception):
    """Never leaves this module."""

    def __init__(self, code: int, block: int, place: int = 0) -> None:
        super().__init__(code, block, place)
        self.code, self.block, self.place = code, block, place


def read_index(body: _Bytes, offsets: _Numbers, lengths: _Numbers) -> int:
    """Read the handles of an index block; gives their number, or -1 when it is damaged or has too many."""
    number = 0
    try:
        for _, value in block_entries(body.tobytes(), "", ""):
            handle, at = get_handle(value, 0, len(value))
            if at != len(value) or number == len(offsets) or (handle.offset | handle.length) >> 62:
                return -1
            offsets[number], lengths[number] = handle
            number += 1
    except (ValueError, FormatError):
        return -1
    return number


def measure(data: _Bytes, offsets: _Numbers, lengths: _Numbers, sizes: _Numbers) -> None:
    """Tell how many bytes each block says it has uncompressed; -1 for what cannot be true."""
    for block, (start, length) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
        sizes[block] = length
        if data[start + length] == SNAPPY:
            try:
                size, _ = get_uvarint(data[start : start + min(10, length)].tobytes(), 0, min(10, length))
            except ValueError:
                size = BLOCK_SIZE_MAX + 1
            sizes[block] = size if size <= min(22 * length, BLOCK_SIZE_MAX) else -1


def keep_equal(*arguments: Any) -> None:
    """Find no equal blocks."""
    arguments[-1][:] = -1


def decode(
    data: _Bytes,
    offsets: _Numbers,
    lengths: _Numbers,
    sizes: _Numbers,
    _sources: _Numbers,
    _old: Columns,
    _scratch: _Bytes,
    key: _Bytes,
    wanted: int,
    columns: Columns,
    state: _Numbers,
) -> None:
    """Decode the data blocks of a range."""
    last_key: bytes | None = None
    handles = [Handle(*pair) for pair in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    try:
        for first, last in _pieces(sizes):
            bodies = [_load(data, handles[block], int(sizes[block]), block) for block in range(first, last)]
            last_key = _decode_piece(bodies, first, last_key, wanted, columns, state)
    except _DamagedError as damage:
        state[CODE], state[BLOCK], state[PLACE] = damage.code, damage.block, damage.place
        return
    if last_key is not None:
        key[: len(last_key)] = np.frombuffer(last_key, np.uint8)
        state[KEY_SIZE] = len(last_key)
    for bit, starts, at in (
        (ADDRESS, columns.address_offsets, ADDRESS_AT),
        (ETAG, columns.etag_offsets, ETAG_AT),
        (KEY, columns.key_offsets, KEY_AT),
    ):
        if wanted & bit:
            starts[state[ROW]] = state[at]
    columns.first_rows[len(handles)] = state[ROW]


def _pieces(sizes: _Numbers) -> list[tuple[int, int]]:
    """Cut the blocks into pieces of about `_PIECE` bytes."""
    ends = np.cumsum(np.maximum(sizes, 0))
    cuts = [0]
    while cuts[-1] < len(sizes):
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + _PIECE, "right"))))
    return list(pairwise(cuts))


def _load(data: _Bytes, handle: Handle, size: int, block: int) -> bytes:
    end = handle.offset + handle.length
    stored = memoryview(data)[handle.offset : end]
    block_type = int(data[end])
    if checksum(stored, block_type) != int.from_bytes(data[end + 1 : end + 5].tobytes(), "little"):
        raise _DamagedError(BAD_CHECKSUM, block)
    if block_type not in (PLAIN, SNAPPY):
        raise _DamagedError(BAD_TYPE, block)
    body = bytes(stored)
    if block_type == SNAPPY:
        try:
            body = bytes(cramjam.snappy.decompress_raw(stored)) if size >= 0 else b""
        except (ValueError, cramjam.DecompressionError):
            size = -1
        if size != len(body):
            raise _DamagedError(BAD_SNAPPY, block)
    if len(body) < 8:
        raise _DamagedError(BAD_RESTARTS, block)
    return body


class _Entries(NamedTuple):
    """Entries of several blocks in row order; positions count from the first block's start."""

    block: _Numbers
    at: _Numbers
    shared: _Numbers
    key_at: _Numbers
    key_size: _Numbers
    value_at: _Numbers
    value_size: _Numbers


def _decode_piece(
    bodies: list[bytes], first: int, last_key: bytes | None, wanted: int, columns: Columns, state: _Numbers
) -> bytes | None:
    joined = b"".join([*bodies, bytes(SLACK)])
    raw = np.frombuffer(joined, np.uint8)
    ends = np.cumsum([len(body) for body in bodies])
    starts = ends - [len(body) for body in bodies]
    entries = _walk(raw, starts, ends, first)
    rows = np.bincount(entries.block, minlength=len(bodies))
    row, count = int(state[ROW]), len(entries.block)
    if count > len(columns.address_types) - row:
        raise _DamagedError(TOO_MANY, first)
    if not rows.all() and len(columns.first_rows) > 2:
        raise _DamagedError(NO_RECORDS, first + int(np.argmin(rows)))
    blocks = slice(first, first + len(bodies))
    columns.first_rows[blocks] = row + np.cumsum(rows) - rows
    keys = _read_keys(joined, entries, starts, first, last_key)
    fields = _read_values(raw, entries, starts, first)
    columns.key_sums[blocks] = np.bincount(
        entries.block, entries.shared + entries.key_size, minlength=len(bodies)
    ).astype(np.int64)
    columns.value_sums[blocks] = np.bincount(entries.block, entries.value_size, minlength=len(bodies)).astype(
        np.int64
    )
    _write(raw, keys, fields, wanted, columns, state)
    state[ROW] = row + count
    return keys[-1] if keys else last_key


def _walk(raw: _Bytes, starts: _Numbers, stops: _Numbers, first: int) -> _Entries:
    """Find all entries of blocks; step n looks at the n-th of each."""
    restarts = _words(raw, stops - 4)
    ends = stops - 4 - 4 * restarts
    wrong = (restarts < 1) | (ends < starts)
    wrong[~wrong] |= (_words(raw, ends[~wrong]) != 0) | ((ends == starts) & (restarts != 1))[~wrong]
    if wrong.any():
        raise _DamagedError(BAD_RESTARTS, first + int(np.argmax(wrong)))
    steps: list[_Entries] = []
    at, sizes = starts.copy(), np.zeros(len(starts), np.int64)
    active = np.flatnonzero(at < ends)
    while len(active):
        start, end = at[active], ends[active]
        shared, place = _lengths(raw, start, end)
        key_size, place = _lengths(raw, place, end)
        value_size, place = _lengths(raw, place, end)
        bad = (place < 0) | (shared > sizes[active]) | (key_size + value_size > end - place)
        if bad.any():
            which = int(np.argmax(bad))
            raise _DamagedError(
                BAD_ENTRY, first + int(active[which]), int(start[which] - starts[active[which]])
            )
        steps.append(_Entries(active, start, shared, place, key_size, place + key_size, value_size))
        sizes[active] = shared + key_size
        at[active] = place + key_size + value_size
        active = active[at[active] < ends[active]]
    if not steps:
        return _Entries(*(np.empty(0, np.int64) for _ in range(7)))
    columns = [np.concatenate(column) for column in zip(*steps, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    entries = _Entries(*(column[order] for column in columns))
    _check_restarts(raw, entries, starts, ends, restarts, first)
    return entries


def _check_restarts(
    raw: _Bytes, entries: _Entries, starts: _Numbers, ends: _Numbers, restarts: _Numbers, first: int
) -> None:
    """Every restart point must be at an entry that shares nothing; each later than the one before."""
    blocks = np.repeat(np.arange(len(starts)), restarts)
    within = np.arange(len(blocks)) - np.repeat(np.cumsum(restarts) - restarts, restarts)
    points = starts[blocks] + _words(raw, ends[blocks] + 4 * within)
    places = np.minimum(np.searchsorted(entries.at, points), len(entries.at) - 1)
    wrong = (entries.at[places] != points) | (entries.shared[places] != 0) | (entries.block[places] != blocks)
    wrong[1:] |= (np.diff(points) <= 0) & (blocks[1:] == blocks[:-1])
    wrong &= ends[blocks] > starts[blocks]
    if wrong.any():
        raise _DamagedError(BAD_RESTARTS, first + int(blocks[np.argmax(wrong)]))


def _read_keys(
    joined: bytes, entries: _Entries, starts: _Numbers, first: int, last: bytes | None
) -> list[bytes]:
    """Put the user keys together, and see that they rise."""
    keys: list[bytes] = []
    internal = b""
    parts = zip(
        entries.shared.tolist(),
        entries.key_at.tolist(),
        (entries.key_at + entries.key_size).tolist(),
        strict=True,
    )
    for number, (shared, start, end) in enumerate(parts):
        internal = internal[:shared] + joined[start:end]
        user = internal[:-8]
        if not internal.endswith(RECORD_TRAILER) or (last is not None and user <= last):
            block = int(entries.block[number])
            code = BAD_ORDER if internal.endswith(RECORD_TRAILER) else BAD_TRAILER
            raise _DamagedError(code, first + block, int(entries.at[number] - starts[block]))
        keys.append(user)
        last = user
    return keys


class _Fields(NamedTuple):
    """What entries say, and where their texts are."""

    address_at: _Numbers
    address_size: _Numbers
    etag_at: _Numbers
    etag_size: _Numbers
    size: npt.NDArray[np.uint64]
    address_type: npt.NDArray[np.uint64]


def _read_values(raw: _Bytes, entries: _Entries, starts: _Numbers, first: int) -> _Fields:
    """Read the fields of all entries at once; step n looks at the n-th field of each."""

    def check(bad: npt.NDArray[np.bool_], rows: _Numbers, code: int) -> None:
        if bad.any():
            row = int(rows[np.argmax(bad)])
            block = int(entries.block[row])
            raise _DamagedError(code, first + block, int(entries.at[row] - starts[block]))

    count = len(entries.at)
    every = np.arange(count)
    at, stop = entries.value_at, entries.value_at + entries.value_size
    for _ in range(2):
        length, at = _lengths(raw, at, stop)
        check((at < 0) | (length & 1 == 1) | (length >> 1 > stop - at), every, BAD_VALUE)
        start, at = at, at + (length >> 1)
    at, stop = start.copy(), at
    fields = _Fields(
        start.copy(),
        np.zeros(count, np.int64),
        start.copy(),
        np.zeros(count, np.int64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
    )
    active = np.flatnonzero(at < stop)
    while len(active):
        end = stop[active]
        tag, place = _lengths(raw, at[active], end)
        wire = tag & 7
        check((place < 0) | (tag < 8) | ~np.isin(wire, (0, 1, 2, 5)), active, BAD_ENTRY_MESSAGE)
        text = np.flatnonzero(wire == 2)
        length, begin = _lengths(raw, place[text], end[text])
        check((begin < 0) | (length > end[text] - begin), active[text], BAD_ENTRY_MESSAGE)
        place[text] = begin + length
        for number, starts_of, sizes_of in (
            (10, fields.address_at, fields.address_size),
            (34, fields.etag_at, fields.etag_size),
        ):
            mine = tag[text] == number
            starts_of[active[text[mine]]], sizes_of[active[text[mine]]] = begin[mine], length[mine]
        plain = np.flatnonzero(wire == 0)
        value, after = _numbers(raw, place[plain], end[plain])
        check(after < 0, active[plain], BAD_ENTRY_MESSAGE)
        place[plain] = after
        for number, values_of in ((24, fields.size), (48, fields.address_type)):
            mine = tag[plain] == number
            values_of[active[plain[mine]]] = value[mine]
        place[wire == 1] += 8
        place[wire == 5] += 4
        check(place > end, active, BAD_ENTRY_MESSAGE)
        at[active] = place
        active = active[place < end]
    check(fields.address_type > 2, every, BAD_ADDRESS_TYPE)
    for starts_of, sizes_of in (
        (fields.address_at, fields.address_size),
        (fields.etag_at, fields.etag_size),
    ):
        check(_not_utf8(raw, starts_of, sizes_of), every, BAD_UTF8)
    return fields


def _not_utf8(raw: _Bytes, starts: _Numbers, sizes: _Numbers) -> npt.NDArray[np.bool_]:
    texts = _gather(raw, starts, sizes)
    bad = np.zeros(len(starts), bool)
    if len(texts) and texts.max() >= 0x80:
        ends = np.cumsum(sizes)
        for row, (start, end) in enumerate(zip((ends - sizes).tolist(), ends.tolist(), strict=True)):
            try:
                texts[start:end].tobytes().decode()
            except UnicodeDecodeError:
                bad[row] = True
    return bad


def _write(
    raw: _Bytes, keys: list[bytes], fields: _Fields, wanted: int, columns: Columns, state: _Numbers
) -> None:
    row, count = int(state[ROW]), len(keys)
    rows = slice(row, row + count)
    columns.address_types[rows] = fields.address_type
    state[OTHERS] += np.count_nonzero(fields.address_type != 1)
    if wanted & SIZE:
        columns.sizes[rows] = fields.size.view(np.int64)
    if wanted & ADDRESS_HASH:
        columns.address_hashes[rows] = hash64(_texts(raw, fields.address_at, fields.address_size))
    if wanted & CONTENT_HASH:
        etags = _texts(raw, fields.etag_at, fields.etag_size)
        columns.content_hashes[rows] = content_hash(fields.size.view(np.int64), etags)
    if wanted & ADDRESS:
        texts = _gather(raw, fields.address_at, fields.address_size)
        _append(
            texts, fields.address_size, columns.address_offsets, columns.address_bytes, row, ADDRESS_AT, state
        )
    if wanted & ETAG:
        texts = _gather(raw, fields.etag_at, fields.etag_size)
        _append(texts, fields.etag_size, columns.etag_offsets, columns.etag_bytes, row, ETAG_AT, state)
    if wanted & KEY:
        sizes = np.fromiter(map(len, keys), np.int64, count)
        if int(sizes.sum()) > len(columns.key_bytes) - SLACK - int(state[KEY_AT]):
            raise _DamagedError(TOO_MANY, int(state[BLOCK]))
        texts = np.frombuffer(b"".join(keys), np.uint8)
        _append(texts, sizes, columns.key_offsets, columns.key_bytes, row, KEY_AT, state)


def _append(
    texts: _Bytes,
    sizes: _Numbers,
    offsets: npt.NDArray[np.int32],
    out: _Bytes,
    row: int,
    cell: int,
    state: _Numbers,
) -> None:
    at = int(state[cell])
    offsets[row : row + len(sizes)] = at + np.cumsum(sizes) - sizes
    out[at : at + len(texts)] = texts
    state[cell] = at + len(texts)


def _texts(raw: _Bytes, starts: _Numbers, sizes: _Numbers) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(_gather(raw, starts, sizes))]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _gather(raw: _Bytes, starts: _Numbers, sizes: _Numbers) -> _Bytes:
    """Lay pieces one behind the other."""
    before = np.cumsum(sizes) - sizes
    return raw[np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))]


def _words(raw: _Bytes, at: _Numbers) -> _Numbers:
    """The u32 at each place."""
    return np.ascontiguousarray(raw[at[:, None] + np.arange(4)]).view("<u4")[:, 0].astype(np.int64)


def _numbers(raw: _Bytes, at: _Numbers, end: _Numbers) -> tuple[npt.NDArray[np.uint64], _Numbers]:
    """An unsigned number at each place, and the places behind them; -1 for those cut off or too long."""
    cut = (at < 0) | (at >= end)
    byte = raw[np.where(cut, 0, at)]
    value = (byte & 127).astype(np.uint64)
    after = np.where(cut, -1, at + 1)
    more = np.flatnonzero((byte >= 128) & ~cut)
    shift = 7
    while len(more):
        cut = after[more] >= end[more] if shift < 64 else np.ones(len(more), bool)
        byte = raw[np.where(cut, 0, after[more])]
        if shift == 63:
            cut |= byte > 1
        after[more[cut]] = -1
        more, byte = more[~cut], byte[~cut]
        value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte >= 128]
        shift += 7
    return value, after


def _lengths(raw: _Bytes, at: _Numbers, end: _Numbers) -> tuple[_Numbers, _Numbers]:
    """As `_numbers`, for what counts bytes of a file."""
    value, after = _numbers(raw, at, end)
    after[value > 0x7FFFFFFF] = -1
    return np.where(after < 0, 0, value).astype(np.int64), after
