"""What a run saw, looked at again afterwards: its listing, staging and history, and what each range names.

`dredge.gc.explain`, `dredge.gc.cost` and `dredge.gc.foresee` are built on it. Nothing here writes.
"""
