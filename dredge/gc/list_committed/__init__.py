"""Step list_committed: the active commits, their ranges, and the live set.

step           the step, and the ranges of expired commits
active         refs, history and the active commits, with the parents of dangling ones
collect        from ranges to live sets, in two rounds of tasks
tables         the files of the step
"""

from dredge.gc.list_committed.active import (
    ActiveCommits,
    Graph,
    active_by_rules,
    find_active,
    known_commit,
    load_graph,
    take_in_heads,
    take_in_tags,
)
from dredge.gc.list_committed.collect import Roles, collect_paths, collect_ranges
from dredge.gc.list_committed.tables import (
    CARRIED,
    COUNTED,
    HISTORY,
    OPENED,
    REFERRING,
    SIZES,
    UNNAMED,
    ListCommittedOutput,
)

__all__ = [
    "CARRIED",
    "COUNTED",
    "HISTORY",
    "OPENED",
    "REFERRING",
    "SIZES",
    "UNNAMED",
    "ActiveCommits",
    "Graph",
    "ListCommittedOutput",
    "Roles",
    "active_by_rules",
    "collect_paths",
    "collect_ranges",
    "find_active",
    "known_commit",
    "load_graph",
    "take_in_heads",
    "take_in_tags",
]
