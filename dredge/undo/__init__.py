"""Undo: protection before a deletion, restore, and purge. For every collector.

ways                 the undo way of a run: versions of the bucket, copies below its folder, or none; its cost; settings
                     of a restore and of a purge
preflight            the lines of a preflight about an object store
protecting           the work before each group of keys is deleted
deletions            records of the candidates of each deleting run, and of the last check of them against the live set
alarms               live objects deleted by a run
pins                 restored objects are held from the next runs until an end, and their slices are listed again;
                     removal of old folders
deleted              the deleted objects of a run, from its ledger and candidates, and the selection of a restore
side_run             a run beside collections, and its tasks
restore              restores the deletions of a run; putting_back: single objects
purge                deletes old versions and copies permanently
leftovers            selects and deletes these: the only module with their deleters

`deleted.Collected` describes a repository and opens its runs, so undo needs no collector.
"""
