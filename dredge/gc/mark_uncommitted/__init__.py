"""Step mark_uncommitted: everything that branches have staged, read to the end."""

from dredge.gc.mark_uncommitted.output import MarkUncommittedOutput

__all__ = ["MarkUncommittedOutput"]
