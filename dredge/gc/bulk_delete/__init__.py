"""Step bulk_delete: re-check, then delete the candidates and write the outcome of each."""

from dredge.gc.bulk_delete.sweep import BulkDeleteOutput, Group, why_kept
from dredge.gc.bulk_delete.watch import Subtracted, recheck

__all__ = ["BulkDeleteOutput", "Group", "Subtracted", "recheck", "why_kept"]
