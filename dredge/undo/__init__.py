"""Undo: what lets a deletion be taken back, taking it back, and making it final. For every collector.

ways         which way a run takes: versions of the bucket, copies below its folder, or none
protecting   in the sweep, before each group of keys is deleted
deleted      what a run deleted, as its ledger and candidates tell
pins         what came back is held from the next runs until an end
came_back    and its slices are listed again
cost         requests, bytes and time
side_run     a run beside collections; `work` is what its tasks share
restore      brings back what a run deleted
purge        lets go for good what could be brought back

Knows no collector: `deleted.Collected` tells of a repository and opens its runs.
"""

from dredge.undo.ways import AUTO, OFF, QUARANTINE, VERSIONS, UndoWay, choose_way, quarantine_uri, way_back

__all__ = [
    "AUTO",
    "OFF",
    "QUARANTINE",
    "VERSIONS",
    "UndoWay",
    "choose_way",
    "quarantine_uri",
    "way_back",
]
