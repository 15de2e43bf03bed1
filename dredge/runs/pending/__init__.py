"""The pending list: unreferenced waiting, held or young objects of earlier marks.

    mark ──▶ found ─┐
    previous list ──┴─▶ advance (`rows`) ──▶ list (`store`), and confirmed objects

A run deletes only objects found by an earlier run, after their wait.
"""
