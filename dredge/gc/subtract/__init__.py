"""Step subtract: the candidates, listed objects outside the live set."""

from dredge.gc.subtract.candidates import EXPIRED, REASONS, SubtractOutput, sums_by
from dredge.gc.subtract.holds import NESTED, SAME_SIZE, begin_with, why_of_hold
from dredge.gc.subtract.store_lookup import Refused, ask_store, by_folder, folders_of

__all__ = [
    "EXPIRED",
    "NESTED",
    "REASONS",
    "SAME_SIZE",
    "Refused",
    "SubtractOutput",
    "ask_store",
    "begin_with",
    "by_folder",
    "folders_of",
    "sums_by",
    "why_of_hold",
]
