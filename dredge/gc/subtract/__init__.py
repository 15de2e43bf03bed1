"""Step subtract: the candidates, which are what is listed and nothing live names."""

from dredge.gc.subtract.output import SubtractOutput
from dredge.gc.subtract.reasons import REASONS

__all__ = ["REASONS", "SubtractOutput"]
