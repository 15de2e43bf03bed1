"""Loops compiled by numba: checksums, Snappy, the entries of blocks, hashes.

    entry       the kernels for callers, imported by `dredge.compiled` only: the blocks of a range, hashes of texts
    blocks      the entries of one block
    codecs      checksum, Snappy, XXH64
    memory      numba's options and types; loads and copies, varints, UTF-8
    interface   codes and columns shared with callers; the only module here for direct import

Kernels work on memory addresses, like C. Three rules keep this safe: a length read from a file is compared with the
remaining size before use; callers provide slack for wide copies (`SLACK` bytes behind every buffer, and the rest of
the file behind every block); a kernel never allocates.
"""
