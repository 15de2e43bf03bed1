"""How every kernel is compiled, and the types of what callers pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from dredge import compiled

OPTIONS: Any = {"nogil": True, "cache": compiled.caching(), "error_model": "numpy"}
jit = njit(**OPTIONS)
U64 = np.uint64

# Types of arrays. What comes from a file is read-only.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
I32S, I64S, U8S, U64S = types.int32[::1], types.int64[::1], types.uint8[::1], types.uint64[::1]
