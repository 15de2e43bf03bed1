"""64-bit hashes of addresses: XXH64, equal to Spark's `xxhash64`.

Dredge compares sets of addresses by these hashes. Equal texts have equal hashes; two different texts with the same hash
keep an object that could be deleted, never the opposite.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from dredge.compiled import are_loaded, kernels
from dredge.kernels.interface import SEED

# For fewer texts the kernels are not loaded: that takes a tenth of a second and 40 MiB.
_FEW = 1 << 17

type Hashes = npt.NDArray[np.uint64]


def hash64(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Hash strings or binaries by XXH64 with seed 42, as Spark's function xxhash64 does; null hashes to the seed."""
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
