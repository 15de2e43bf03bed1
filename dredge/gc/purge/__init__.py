"""Purge: what could be brought back goes for good, once it is old enough."""

from dredge.gc.purge.config import PurgeConfig
from dredge.gc.purge.output import PurgeOutput

__all__ = ["PurgeConfig", "PurgeOutput"]
