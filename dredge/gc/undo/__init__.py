"""Undo: what lets a deletion be taken back, and what came back stay.

ways         which way a run takes: versions of the bucket, copies below its folder, or none
protecting   in the sweep, before each group of keys is deleted
deleted      what a run deleted, as its ledger and candidates tell
pins         what came back is held from the next runs until an end
came_back    and its slices are listed again
cost         requests, bytes and time
"""

from dredge.gc.undo.ways import OFF, QUARANTINE, VERSIONS, UndoWay, choose_way, quarantine_uri, way_back

__all__ = ["OFF", "QUARANTINE", "VERSIONS", "UndoWay", "choose_way", "quarantine_uri", "way_back"]
