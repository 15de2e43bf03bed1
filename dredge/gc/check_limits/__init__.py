"""Step check_limits: guards, holds and limits."""

from dredge.gc.check_limits.canaries import Canary, Sizes, keys_in_store, meant, sample
from dredge.gc.check_limits.holds import (
    HOLD_COLUMNS,
    NO_ANSWER,
    CheckLimitsOutput,
    HoldFiles,
    Holds,
    why_held,
)
from dredge.gc.check_limits.identical import ask_about

__all__ = [
    "HOLD_COLUMNS",
    "NO_ANSWER",
    "Canary",
    "CheckLimitsOutput",
    "HoldFiles",
    "Holds",
    "Sizes",
    "ask_about",
    "keys_in_store",
    "meant",
    "sample",
    "why_held",
]
