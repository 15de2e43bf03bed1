"""Step mark: which snapshots, transaction logs, manifests and chunks are live."""

from dredge.icechunk.collection.mark.output import COUNTED, MarkOutput, is_virtual, read_live_snapshots
from dredge.icechunk.collection.mark.snapshots import snapshot_files, with_ancestors

__all__ = ["COUNTED", "MarkOutput", "is_virtual", "read_live_snapshots", "snapshot_files", "with_ancestors"]
