"""The pending list: unreferenced objects of earlier marks that wait, are held, or are young.

    mark ──▶ found ─┐
    previous list ──┴─▶ advance (`rows`) ──▶ list (`store`), and confirmed objects

A run deletes only objects that an earlier run found and that have waited since.
"""
