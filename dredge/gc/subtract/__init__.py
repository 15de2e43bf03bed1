"""Step subtract: the candidates, which are what is listed and nothing live names."""

from dredge.gc.subtract.holds import NESTED, SAME_SIZE, begin_with, why_of_hold
from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.reasons import EXPIRED, REASONS
from dredge.gc.subtract.store_lookup import folders_of

__all__ = [
    "EXPIRED",
    "NESTED",
    "REASONS",
    "SAME_SIZE",
    "SubtractOutput",
    "begin_with",
    "folders_of",
    "why_of_hold",
]
