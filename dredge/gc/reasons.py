"""Why an object is garbage, as far as anything tells; and the words for it."""

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

HELD = "identical_content"
ALIVE_AGAIN = "alive_again"
KEPT_CODES = {
    HELD: "its content is also in a branch head, and a branch may read this copy",
    ALIVE_AGAIN: "named again since the mark",
}
"""Codes of candidates that the sweep kept."""
