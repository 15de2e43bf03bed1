"""Undo: what lets a deletion be taken back, taking it back, and making it final. For every collector.

config               what a user may ask of a restore and of a purge
ways                 which way a run takes: versions of the bucket, copies below its folder, or none; what that costs
preflight            the lines of a preflight about an object store
protecting           in the sweep, before each group of keys is deleted
deletions            records of what each run was about to delete, and of the last check of these against what is live
alarms               live objects that a run had deleted
pins                 what came back is held from the next runs until an end, and its slices are listed again
deleted              what a run deleted, as its ledger and candidates tell, and which of it a restore takes back
side_run             a run beside collections, and its tasks
restore              brings back what a run deleted; putting_back: single objects
purge                lets go for good what could be brought back
leftovers            what of it may go; deleting_leftovers is the only module that is handed their deleters

Knows no collector: `deleted.Collected` tells of a repository and opens its runs.
"""
