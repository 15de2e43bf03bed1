"""Loops that Python is too slow for, compiled by numba: checksums, Snappy, the walk through blocks, hashes.

    entry       the kernels that callers get, through `dredge.compiled` only: the blocks of a range, hashes of texts
    blocks      the entries of one block
    codecs      checksum, Snappy, XXH64
    memory      numba's options and types; loads and copies, numbers of variable length, UTF-8
    interface   codes and columns that callers need too; the only module here that anyone may import

numba's cache looks at the file of a function only, and would run old code after a change in a function that was
inlined from another file. So `dredge.compiled` names the cache folder by the content of all these files.

Kernels work on addresses of memory, like C. Three rules keep that safe: a length read from a file is compared
with what is left before it is used; what a wide copy may overrun is slack that the caller provides (`SLACK`
bytes behind every buffer, and the rest of the file behind every block); a kernel never allocates.
"""
