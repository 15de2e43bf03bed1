"""Step list_committed: the active commits, their ranges, and the set of everything that is live."""

from dredge.gc.list_committed.active import ActiveCommits, find_active, take_in_heads
from dredge.gc.list_committed.collect import collect_ranges
from dredge.gc.list_committed.output import COUNTED, ListCommittedOutput
from dredge.gc.list_committed.roles import Roles

__all__ = [
    "COUNTED",
    "ActiveCommits",
    "ListCommittedOutput",
    "Roles",
    "collect_ranges",
    "find_active",
    "take_in_heads",
]
