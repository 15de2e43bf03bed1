"""Step list_committed: the active commits, their ranges, and the live set.

step           the step, and the ranges of expired commits
active         refs, history and the active commits, with the parents of dangling ones
collect        from ranges to live sets, in two rounds of tasks
tables         the files of the step
"""
