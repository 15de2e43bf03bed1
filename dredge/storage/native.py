"""Whether this process may use obstore, and how long clients wait."""

from __future__ import annotations

import os
import sys

CONNECT_SECONDS = 10
READ_SECONDS = 60

_usable = True


def usable() -> bool:
    """Whether obstore works in this process: in a child forked after it was loaded it hangs for ever."""
    return _usable


def _after_fork() -> None:
    global _usable
    _usable = _usable and "obstore" not in sys.modules


os.register_at_fork(after_in_child=_after_fork)
