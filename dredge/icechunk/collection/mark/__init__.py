"""Step mark: which snapshots, transaction logs, manifests and chunks are live."""

from dredge.icechunk.collection.mark.output import COUNTED, MarkOutput, read_live_snapshots

__all__ = ["COUNTED", "MarkOutput", "read_live_snapshots"]
