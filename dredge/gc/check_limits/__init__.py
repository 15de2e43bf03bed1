"""Step check_limits: every guard is asked, and what may go is told from what is held."""

from dredge.gc.check_limits.canaries import Canary, keys_in_store, meant, sample
from dredge.gc.check_limits.heads import heads_of_the_mark
from dredge.gc.check_limits.holds import COLUMNS as HOLD_COLUMNS
from dredge.gc.check_limits.holds import Holds, read_confirmed, why_held
from dredge.gc.check_limits.identical import Since, ask_about, prove
from dredge.gc.check_limits.output import CheckLimitsOutput, HoldFiles
from dredge.gc.check_limits.verdicts import Verdicts

__all__ = [
    "HOLD_COLUMNS",
    "Canary",
    "CheckLimitsOutput",
    "HoldFiles",
    "Holds",
    "Since",
    "Verdicts",
    "ask_about",
    "heads_of_the_mark",
    "keys_in_store",
    "meant",
    "prove",
    "read_confirmed",
    "sample",
    "why_held",
]
