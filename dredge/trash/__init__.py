"""Trash in lakeFS's key-value store: what nothing uses any more, and how to remove it beside a live server.

Read in this order:

    margins.py          every margin of time, and every limit
    names.py            partitions and keys by their shape
    references.py       what records name: the only thing that keeps a partition alive
    look.py             one look at a store, as a value
    rules.py            what is trash, and why: a pure function of a look (classifier.py: what the rules share;
                        partition_rules.py: whole partitions; key_rules.py: single keys)
    waiting.py          the pending list: what is unused, since when, with which bytes
    plan.py             what may be removed, under limits, with a digest
    state.py            what is remembered between runs, and which try may write it
    apply.py            removal: undo first, each row only with its very bytes, every reference looked at again
    earlier.py          what earlier runs removed: verified, and put back when a record names it by now
    results.py          what a scan or a clean gives back
    report.py           the same for people
    deleted.py          the cleaner of the design's step 2, over `graveler_deleted`
    unqueue.py          live tokens that the server is about to drop: the marker goes, the data stays
    steps.py            scan, clean, restore: what operators and the command line call

The argument for safety is in docs/trash.md.
"""
