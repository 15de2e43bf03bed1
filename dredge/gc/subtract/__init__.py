"""Step subtract: the candidates, which are what is listed and nothing live names."""

from dredge.gc.subtract.output import SubtractOutput

__all__ = ["SubtractOutput"]
