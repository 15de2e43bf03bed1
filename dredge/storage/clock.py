"""The store's own clock: the only one that may be compared with an object's Last-Modified."""

from __future__ import annotations

from datetime import datetime

from dredge.storage.model import ObjectWriter

PROBE = ".dredge-clock"


def store_clock(writer: ObjectWriter, folder: str) -> datetime:
    """Ask the store for the time, by writing a small object and looking at its Last-Modified.

    Args:
        writer: the store.
        folder: key prefix of the probe. The probe is one object, overwritten by every call; it is never below
            `data/` unless the caller says so.

    Returns:
        Aware UTC; whole seconds on S3, rounded down.
    """
    base = folder.strip("/")
    key = f"{base}/{PROBE}" if base else PROBE
    writer.put(key, b"The time this object was written is the store's clock. It is not needed otherwise.\n")
    return writer.stat(key).last_modified
