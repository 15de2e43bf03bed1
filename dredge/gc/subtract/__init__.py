"""Step subtract: the candidates, listed objects outside the live set."""

from dredge.gc.subtract.candidates import (
    EXPIRED,
    NESTED,
    REASONS,
    SAME_SIZE,
    SubtractOutput,
    begin_with,
    sums_by,
    why_of_hold,
)
from dredge.gc.subtract.earlier_runs import Refused, ask_store, by_folder, folders_of

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
