"""Step check_limits: every guard is asked, and what may go is told from what is held."""

from dredge.gc.check_limits.canaries import Canary, keys_in_store, meant, sample
from dredge.gc.check_limits.holds import COLUMNS as HOLD_COLUMNS
from dredge.gc.check_limits.holds import Holds, why_held
from dredge.gc.check_limits.identical import ask_about, prove
from dredge.gc.check_limits.output import CheckLimitsOutput, HoldFiles
from dredge.gc.check_limits.verdicts import Verdicts

__all__ = [
    "HOLD_COLUMNS",
    "Canary",
    "CheckLimitsOutput",
    "HoldFiles",
    "Holds",
    "Verdicts",
    "ask_about",
    "keys_in_store",
    "meant",
    "prove",
    "sample",
    "why_held",
]
