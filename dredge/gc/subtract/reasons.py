"""Why an object is garbage, as far as anything tells."""

from __future__ import annotations

EXPIRED = "expired"
NEVER_LINKED = "never_linked"
UNREFERENCED = "unreferenced"

REASONS = {
    EXPIRED: "only commits name it that are no longer active",
    NEVER_LINKED: "uploaded to an address that lakeFS handed out, and not linked (any more)",
    UNREFERENCED: "nothing names it: overwritten, deleted or reset before a commit, or its history is gone",
}
"""Reasons of candidates, each with a sentence for people."""
