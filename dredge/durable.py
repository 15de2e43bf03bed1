"""Writes that survive a loss of power: what is acknowledged has been forced to the disk.

Folders that are thrown away, as those of tests, go without: the environment variable says so for a process and its
children. Nothing else reads it.
"""

from __future__ import annotations

import os

NO_SYNC = "DREDGE_UNSAFE_NO_SYNC"
"""Environment variable: "1" forces nothing to the disk. A loss of power then loses what was acknowledged."""


def is_durable() -> bool:
    """Whether acknowledged writes have to survive a loss of power."""
    return os.environ.get(NO_SYNC) != "1"


def sync(fd: int) -> None:
    """Force a file, or the names in a folder, to the disk.

    Args:
        fd: descriptor of the file or the folder.

    Raises:
        OSError: the disk failed; what was written may be lost.
    """
    if is_durable():
        os.fsync(fd)
