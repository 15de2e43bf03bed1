"""Step list_committed: the active commits, their ranges, and the set of everything that is live."""
