"""Step list_committed: the active commits, their ranges, and the set of everything that is live."""

from dredge.gc.list_committed.output import ListCommittedOutput

__all__ = ["ListCommittedOutput"]
