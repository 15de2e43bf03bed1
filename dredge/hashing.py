"""64-bit hashes of addresses: XXH64, so equal to what Spark's `xxhash64` computes.

Dredge compares sets of addresses by these hashes. Equal texts always have equal hashes; two different texts
may share one, and then an object that could go is kept, never the opposite.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from dredge.compiled import are_loaded, kernels
from dredge.kernels.interface import SEED

_FEW = 1 << 17
"""Texts up to which a call alone is no reason to load the kernels, which takes more than half a second and 80 MiB."""

type Hashes = npt.NDArray[np.uint64]


def hash64(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash texts, as `xxhash64(column)` does in Spark.

    Args:
        texts: strings or binaries, large or not; a missing one hashes to the seed.

    Returns:
        XXH64 with seed 42 of the bytes of each.
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks() if texts.num_chunks != 1 else texts.chunk(0)
        if isinstance(texts, pa.ChunkedArray):  # combining no chunks gives none
            return np.empty(0, np.uint64)
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not large and not (pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        texts = texts.cast(pa.string())
    count = len(texts)
    if not count:
        return np.empty(0, np.uint64)
    _, offsets_buffer, data_buffer = texts.buffers()
    width = np.int64 if large else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[texts.offset : texts.offset + count + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    hashes = _hashes(data, offsets)
    if texts.null_count:
        hashes[np.asarray(texts.is_null())] = SEED
    return hashes


def _hashes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    count = len(offsets) - 1
    if count <= _FEW and not are_loaded():
        # Offsets of a slice are those of the whole, of which only its own bytes are copied.
        texts, bounds = data[offsets[0] : offsets[-1]].tobytes(), (offsets - offsets[0]).tolist()
        found = (xxh64_intdigest(texts[at:end], SEED) for at, end in pairwise(bounds))
        return np.fromiter(found, np.uint64, count)
    hashes = np.empty(count, np.uint64)
    kernels().hash_texts(data, offsets, hashes)
    return hashes
