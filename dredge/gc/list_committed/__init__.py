"""Step list_committed: the active commits, their ranges, and the set of everything that is live.

step           the order, and what is noted
active         which commits; graph: the history they are found in; dangling: lines to which no ref leads
expired        ranges that only say why an object is garbage
roles          what each range is to this run
collect        ranges to live sets; its tasks: read_ranges, then merge_shards
tables         the rows that are written
"""

from dredge.gc.list_committed.active import ActiveCommits, find_active, take_in_heads, take_in_tags
from dredge.gc.list_committed.collect import collect_ranges
from dredge.gc.list_committed.graph import Graph, active_by_rules, known_commit, load_graph
from dredge.gc.list_committed.output import (
    CARRIED,
    COUNTED,
    HISTORY,
    OPENED,
    REFERRING,
    SIZES,
    UNNAMED,
    ListCommittedOutput,
)
from dredge.gc.list_committed.roles import Roles

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
    "collect_ranges",
    "find_active",
    "known_commit",
    "load_graph",
    "take_in_heads",
    "take_in_tags",
]
