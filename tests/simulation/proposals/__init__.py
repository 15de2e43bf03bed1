"""Why garbage collection is offline: the rejected designs of "Hard Delete Uncommitted Data", and ours, as models that
an explorer runs in every order.

world        the language: two stores, a clock, and steps     explorer   every order, and the shortest that goes wrong
lake         what lakeFS does, whatever the design             drawing    a schedule as text
design1 to design5   the five designs, each with the claims on it
offline      the collector, and each of its rules left out      claims_offline   what happens beside it
catalogue    what a claim is                                    page             docs/why-offline.md
"""
