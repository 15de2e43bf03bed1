"""The pending list: unreferenced objects that earlier marks found, and that wait, are held or are young.

    mark ──▶ found ─┐
    previous list ──┴─▶ advance (`rows`) ──▶ list (`store`), and confirmed objects

A run deletes only objects found by an earlier run, after their wait.
"""
