"""Step bulk_delete: look again, then delete the candidates and write down what became of each."""

from dredge.gc.bulk_delete.codes import why_kept
from dredge.gc.bulk_delete.output import BulkDeleteOutput, Group
from dredge.gc.bulk_delete.recheck import Subtracted, recheck

__all__ = ["BulkDeleteOutput", "Group", "Subtracted", "recheck", "why_kept"]
