"""Why garbage collection is offline: the rejected designs of "Hard Delete Uncommitted Data", and ours, as models that
an explorer runs in every order.

world        the language: two stores, a clock, and steps     explorer   every order, and the shortest that goes wrong
lake         what lakeFS does, whatever the design             drawing    a schedule as text and as a diagram
staging_in_store, counter, tracking, token_states, no_copies   the five designs, one module each
online       what it would take                                offline    the collector, and each of its rules left out
catalogue    every claim, with its scene                       page       docs/why-offline.md
"""
