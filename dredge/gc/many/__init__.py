"""All repositories of a server, one run each: which of them, and what became of their runs.

config      what a user may ask for
choose      the repositories that are collected, and why the others are left out
others      whether another collector works on a repository
summary     what became of each run, as one page

Each repository has a run of its own, with its own lease, plan and report; nothing here touches an object.
"""

from dredge.gc.many.choose import Chosen, choose_repositories
from dredge.gc.many.config import ManyConfig
from dredge.gc.many.summary import outcome_of
from dredge.runs.many import Outcome, left_out, save_summary, summarize, table_lines

__all__ = [
    "Chosen",
    "ManyConfig",
    "Outcome",
    "choose_repositories",
    "left_out",
    "outcome_of",
    "save_summary",
    "summarize",
    "table_lines",
]
