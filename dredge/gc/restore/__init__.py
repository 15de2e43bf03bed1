"""Restore: bytes that a run deleted come back under the same key, and stay until an end that the user gives."""

from dredge.gc.restore.config import RestoreConfig
from dredge.gc.restore.output import RestoreOutput

__all__ = ["RestoreConfig", "RestoreOutput"]
