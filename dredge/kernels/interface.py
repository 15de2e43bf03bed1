"""Codes and cells shared by kernels and their callers. Imports no numba."""

SLACK = 64
# A block is larger than its target only if one record is. A record's identity and data are limited to 40 MiB
# each, its key to far less.
BLOCK_SIZE_MAX = 2 * (640 << 16) + (1 << 20)

# Why a kernel stopped.
OK, BAD_CHECKSUM, BAD_TYPE, BAD_SNAPPY, BAD_RESTARTS, BAD_ENTRY, BAD_TRAILER, BAD_ORDER = range(8)
BAD_VALUE, BAD_ENTRY_MESSAGE, BAD_ADDRESS_TYPE, BAD_UTF8, TOO_MANY, NO_RECORDS, BAD_TILING = range(8, 15)

# Cells of a data block in `blocks`: its place, uncompressed size (-1 if impossible), source (an equal block of the
# range before, or -1), first row, bytes of its keys (with trailers) and values. The last two are a hash table by
# checksum: first block of a bucket, next block of the same bucket. Behind the last block is a row for the end.
OFFSET, LENGTH, RAW_SIZE, SOURCE, FIRST_ROW, KEY_BYTES, VALUE_BYTES, FIRST_ALIKE, NEXT_ALIKE = range(9)
BLOCK_CELLS = 9

# Cells of `state`: why and where a kernel stopped; bytes of all uncompressed blocks and of the largest, number of
# those with an impossible size; room for rows and bytes of keys; size of the last key; rows, bytes of keys and of
# values so far.
CODE, BLOCK, PLACE, RAW, LARGEST, IMPOSSIBLE, ROWS_MAX, KEYS_MAX, KEY_SIZE, ROW, KEY_TOTAL = range(11)
VALUE_TOTAL = 11
# Further cells: memory addresses of the requested columns, 0 for others. Texts are concatenated: addresses of their
# offsets and of their bytes, number of bytes so far.
ADDRESS_TYPE, SIZE, ADDRESS_HASH, CONTENT_HASH, ADDRESS, ETAG, KEY = 12, 13, 14, 15, 16, 19, 22
STATE_SIZE = 25

SEED = 42  # of hashes: Spark's own, and its hash of a missing text
