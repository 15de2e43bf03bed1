"""Why an object is garbage, as far as anything tells, and why a candidate stays nevertheless."""

from __future__ import annotations

EXPIRED = "expired"
NEVER_LINKED = "never_linked"
UNREFERENCED = "unreferenced"

REASONS = {
    EXPIRED: "only commits name it that are no longer active",
    NEVER_LINKED: "uploaded to an address that lakeFS handed out, and not linked (any more)",
    UNREFERENCED: "nothing names it: overwritten, deleted or reset before a commit, or its history is gone",
}
"""Reasons of candidates."""

SERVED = "identical_served"
TOO_MANY = "identical_too_many"
NO_ANSWER = "identical_no_answer"
NO_PATH = "identical_no_path"
UNREADABLE = "unreadable"
ALIVE_AGAIN = "alive_again"

_SAME_SIZE = "as long as an object in a branch head, so a branch may read this copy of it;"
KEPT_CODES = {
    SERVED: "a branch reads it: a copy of what is committed, which lakeFS does not show as uncommitted",
    TOO_MANY: f"{_SAME_SIZE} more requests than allowed were needed to ask every branch",
    NO_ANSWER: f"{_SAME_SIZE} lakeFS did not answer for every path",
    NO_PATH: f"{_SAME_SIZE} a path is not UTF-8, and lakeFS cannot be asked about it",
    UNREADABLE: "the store refuses to describe it, so that its age is unknown",
    ALIVE_AGAIN: "named again since the mark",
}
"""Codes of candidates that stay; the ledger and the report give them."""
HELD_BY_SIZE = (TOO_MANY, NO_ANSWER, NO_PATH)
"""Those that reading the key-value store would settle."""
EXAMPLES = 10
"""Examples shown of each kind of object."""
