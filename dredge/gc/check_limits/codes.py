"""What a hold for its size may be proved to be: a copy that a branch reads, or one that nobody could ask about.

These codes take the place of the hold `same_size` in counts, in the report and in the ledger.
"""

from __future__ import annotations

from dredge.runs.pending import rows

SERVED = "identical_served"
TOO_MANY = "identical_too_many"
NO_ANSWER = "identical_no_answer"
NO_PATH = "identical_no_path"
AMBIGUOUS = "ambiguous_address"
WAITING = rows.WAITING

_SAME_SIZE = "as long as an object in a branch head, so a branch may read this copy of it;"
WHY = {
    SERVED: "a branch reads it: a copy of what is committed, which lakeFS does not show as uncommitted",
    TOO_MANY: f"{_SAME_SIZE} more requests than allowed were needed to ask every branch",
    NO_ANSWER: f"{_SAME_SIZE} lakeFS did not answer for every path",
    NO_PATH: f"{_SAME_SIZE} a path is not UTF-8, and lakeFS cannot be asked about it",
    AMBIGUOUS: "lakeFS shows this address for an object whose key may be another one: it words keys decoded"
    " (`a%20b` as `a b`) and without a query",
    WAITING: "it waits: only what an earlier run found, and what has waited since, is deleted",
}
"""Half a sentence for people about each code."""
UNSETTLED = (TOO_MANY, NO_ANSWER, NO_PATH)
"""Those that reading the key-value store would settle."""
