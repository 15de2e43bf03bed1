"""What a repository's objects cost, and why each of them is there: by kind, branch, age and prefix."""

from dredge.gc.cost.count import Cost, cost_of

__all__ = ["Cost", "cost_of"]
