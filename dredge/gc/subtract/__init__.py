"""Step subtract: the candidates, listed objects outside the live set."""

from dredge.gc.subtract.candidates import EXPIRED, REASONS, SubtractOutput
from dredge.gc.subtract.holds import NESTED, SAME_SIZE, begin_with, why_of_hold
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
