"""The kernels that callers get from `dredge.compiled.kernels`; importing this module compiles them all."""

from __future__ import annotations

from dredge.kernels.sstable import decode, keep_equal, measure, read_index
from dredge.kernels.xxh64 import hash_texts

__all__ = ["decode", "hash_texts", "keep_equal", "measure", "read_index"]
