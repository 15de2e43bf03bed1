"""The reasons for an offline garbage collection: the rejected designs of "Hard Delete Uncommitted Data", and ours, as
models explored in every order.

world        the language: two stores, a clock, and steps     explorer   every order, and the shortest failing one
lake         lakeFS, the same in all designs                   drawing    a schedule as text
design1 to design5   the five designs, each with the claims on it
offline      the collector, and each of its rules left out      claims_offline   concurrent events
catalogue    the claims                                         page             docs/why-offline.md
"""
