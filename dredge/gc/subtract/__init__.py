"""Step subtract: the candidates, which are what is listed and nothing live names."""

from dredge.gc.subtract.figures import EXAMPLES_MAX
from dredge.gc.subtract.holds import SAME_SIZE, why_of_hold
from dredge.gc.subtract.left_staging import earlier_marks
from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.reasons import EXPIRED, REASONS

__all__ = [
    "EXAMPLES_MAX",
    "EXPIRED",
    "REASONS",
    "SAME_SIZE",
    "SubtractOutput",
    "earlier_marks",
    "why_of_hold",
]
