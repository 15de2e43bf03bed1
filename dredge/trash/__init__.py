"""Trash in lakeFS's key-value store: unreferenced rows, and their removal beside a live server.

Read in this order:

    names            partitions and keys by their shape
    look             the records of a store, and their contents at one time, as values
    findings         Params, grace and other margins; classified rows, and the plan of a run with its limits
    partition_rules  rules for whole partitions; branch heads and tokens of the last look, for comparison
    rules            rules for single keys; `classify` applies all rules
    waiting          the pending list: unreferenced rows, since when, with their bytes
    state            the state folder of a store, and the right of a try to write it
    undo             undo files
    apply            removal: undo first, each row only with its exact bytes, under guards
    alarms           removed rows with a reference: restored, with an alarm
    report           reports of a scan and a clean, as JSON and HTML
    steps            scan and clean; checks before the first run
    restore          restore of a run; removal of live tokens from the server's drop queue

docs/trash.md has the argument for safety.
"""
