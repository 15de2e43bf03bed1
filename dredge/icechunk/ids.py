"""Object ids: 12 random bytes (8 for nodes), written in Crockford base32, upper case, without padding.

    bytes   12 → 96 bits → 20 characters of 5 bits; the last character carries one bit, so it is `0` or `G`
    alphabet    0123456789ABCDEFGHJKMNPQRSTVWXYZ      (no I, L, O, U)
    example     0b 2e 9f ... → "1CECHNKREP0F1RSTCMT0"  (the root snapshot of every repository since 1.0)

A name counts as an id only in this canonical spelling. Other spellings decode to the same bytes but are other keys;
neither Icechunk nor Dredge writes or deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dredge.errors import FormatError
from dredge.sets.hashes import Hashes, unite

if TYPE_CHECKING:
    import pyarrow as pa

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ID_BYTES = 12
ID_CHARS = 20
NODE_ID_BYTES = 8
_LETTER_SET = frozenset(ALPHABET)
_SHIFTS = range(90, -1, -10)

_LETTERS = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # ten bits at a time
_VALUES = np.full(256, 255, dtype=np.uint8)
_VALUES[_LETTERS] = np.arange(32, dtype=np.uint8)


def encode_id(raw: bytes) -> str:
    """Spell an id of 12 or 8 bytes."""
    number = int.from_bytes(raw, "big")
    if len(raw) == ID_BYTES:
        number <<= 4  # 100 bits
        return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
    bits = len(raw) * 8
    chars = -(-bits // 5)
    number <<= chars * 5 - bits
    return "".join(ALPHABET[number >> shift & 31] for shift in range(chars * 5 - 5, -1, -5))


def decode_id(text: str) -> bytes:
    """Decode an object id to its 12 bytes."""
    if not is_id(text):
        raise FormatError(
            f"{text!r} is not an Icechunk object id (20 characters of Crockford base32, the last 0 or G)"
        )
    number = 0
    for char in text:
        number = number << 5 | ALPHABET.index(char)
    return (number >> 4).to_bytes(ID_BYTES, "big")


def is_id(text: str) -> bool:
    """Return whether a name is the canonical spelling of an object id."""
    return len(text) == ID_CHARS and text[-1] in "0G" and _LETTER_SET.issuperset(text)


def hash_of(text: str) -> int:
    """Return the first 64 bits of an id, for sets. Ids are random, so these bits serve as a hash. A collision keeps
    garbage, and never deletes a live object."""
    return int.from_bytes(decode_id(text)[:8], "big")


def hashes_of(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the first 64 bits of each id."""
    return np.ascontiguousarray(raw[:, :8]).view(">u8").reshape(-1).astype(np.uint64)


def hash_ids(names: Iterable[str]) -> Hashes:
    """Return the set of the first 64 bits of some spelled ids."""
    return unite([np.fromiter((hash_of(name) for name in names), dtype=np.uint64)])


def encode_ids(raw: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Spell many ids at once."""
    import pyarrow as pa

    count = len(raw)
    bits = np.unpackbits(raw, axis=1)
    padded = np.zeros((count, ID_CHARS * 5), dtype=np.uint8)
    padded[:, : ID_BYTES * 8] = bits
    groups = padded.reshape(count, ID_CHARS, 5)
    values = (
        groups[..., 0] << 4 | groups[..., 1] << 3 | groups[..., 2] << 2 | groups[..., 3] << 1 | groups[..., 4]
    )
    offsets = np.arange(0, (count + 1) * ID_CHARS, ID_CHARS, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(_LETTERS[values].tobytes()))


def hashes_of_names(
    names: pa.Array | pa.ChunkedArray,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Decode names that may be ids; returns the first 64 bits of each (0 for other names), and a mask of the canonical
    ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    combined = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    hashes = np.zeros(len(combined), dtype=np.uint64)
    right = pc.equal(pc.binary_length(combined), ID_CHARS)
    is_name = np.asarray(pc.fill_null(right, False).to_numpy(zero_copy_only=False), dtype=np.bool_).copy()
    if not is_name.any():
        return hashes, is_name
    picked: Any = combined.filter(pa.array(is_name)).cast(pa.binary()).cast(pa.binary(ID_CHARS))
    start = picked.offset * ID_CHARS
    data = np.frombuffer(picked.buffers()[1], dtype=np.uint8)[start : start + len(picked) * ID_CHARS]
    values = _VALUES[data.reshape(-1, ID_CHARS)]
    good = (values != 255).all(axis=1) & ((values[:, -1] & 15) == 0)
    number = np.zeros(len(values), dtype=np.uint64)
    for column in range(12):  # 12 characters are 60 bits; the 13th gives the last four
        number = number << np.uint64(5) | values[:, column].astype(np.uint64)
    number = number << np.uint64(4) | (values[:, 12].astype(np.uint64) >> np.uint64(1))
    number[~good] = 0
    hashes[is_name] = number
    is_name[is_name] = good
    return hashes, is_name
