"""The store's own clock: the only one that may be compared with an object's Last-Modified."""

from __future__ import annotations

import zlib
from datetime import datetime

from dredge.storage.model import ObjectWriter

PROBE = ".dredge-clock"
_PROBES = 256
"""So many workers ask without getting into each other's way, and no more objects are left."""


def probe_of(task: str) -> str:
    """Name a probe that few others write, for who asks every few seconds beside many others: Google Cloud Storage
    allows about one write a second to an object.

    Args:
        task: name of who asks.
    """
    return f"{PROBE}-{zlib.crc32(task.encode()) % _PROBES:02x}"


def store_clock(writer: ObjectWriter, folder: str, probe: str = PROBE) -> datetime:
    """Ask the store for the time, by writing a small object and looking at its Last-Modified.

    Args:
        writer: the store.
        folder: key prefix of the probe. The probe is one object, overwritten by every call; it is never below
            `data/` unless the caller says so.
        probe: its name. What others write there between is as good an answer: it is no older than the question.

    Returns:
        Aware UTC; whole seconds on S3, rounded down.
    """
    base = folder.strip("/")
    key = f"{base}/{probe}" if base else probe
    writer.put(key, b"The time this object was written is the store's clock. It is not needed otherwise.\n")
    return writer.stat(key).last_modified
