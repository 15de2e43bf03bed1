"""Codes, bits, cells and columns shared by kernels and their callers. Imports no numba."""

from typing import Any, NamedTuple

SLACK = 64
# A block is larger than its target only if one record is. A record's identity and data are limited to 40 MiB
# each, its key to far less.
BLOCK_SIZE_MAX = 2 * (640 << 16) + (1 << 20)

# Why a kernel stopped.
OK, BAD_CHECKSUM, BAD_TYPE, BAD_SNAPPY, BAD_RESTARTS, BAD_ENTRY, BAD_TRAILER, BAD_ORDER = range(8)
BAD_VALUE, BAD_ENTRY_MESSAGE, BAD_ADDRESS_TYPE, BAD_UTF8, TOO_MANY, NO_RECORDS = range(8, 14)

# What to write: bits of `wanted`. Address types are always written.
ADDRESS, SIZE, ETAG, KEY, ADDRESS_HASH, CONTENT_HASH = 1, 2, 4, 8, 16, 32

# Cells of `state`: the position, and the filled size of each output.
CODE, BLOCK, PLACE, ROW, ADDRESS_AT, ETAG_AT, KEY_AT, KEY_SIZE, OTHERS = range(9)
STATE_SIZE = 9

SEED = 42  # of hashes: Spark's own, and its hash of a missing text


class Columns(NamedTuple):
    """The outputs of `decode`; a later decoding copies equal blocks from them.

    Texts are concatenated bytes, with the offset of each. The last three columns have a cell for each block: its first
    row, and the total bytes of its keys (with trailers) and of its values.
    """

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
