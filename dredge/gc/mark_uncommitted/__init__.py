"""Step mark_uncommitted: everything that branches have staged, read to the end."""

from dredge.gc.mark_uncommitted.output import MarkUncommittedOutput
from dredge.gc.mark_uncommitted.staging import scan_staging

__all__ = ["MarkUncommittedOutput", "scan_staging"]
