"""The pending list: what marks found that nothing references, and that waits, is held, or is young.

    mark ──▶ found ─┐
    previous list ──┴─▶ advance (`rows`) ──▶ list (`store`), and which of the found have waited

A run deletes only what an earlier run has found and what has waited since. Neither the rows nor their store know what
kind of repository they are about.
"""
