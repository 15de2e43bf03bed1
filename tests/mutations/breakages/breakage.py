"""What a breakage says, and what several of them say."""

from __future__ import annotations

from typing import NamedTuple


class Breakage(NamedTuple):
    """One guard, broken.

    Attributes:
        name: of the breakage; a half sentence.
        file: where the guard is, from the root of the tree.
        old: text of the guard that occurs once in the file.
        new: what it becomes.
        tests: functions that fail then; they are looked up by name, wherever they live.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


GC = "dredge/gc"
ICE = "dredge/icechunk/collection"
HISTORIES = "test_an_optimized_run_deletes_what_a_clean_run_would_and_forgets_nothing"
"""A hunt that runs many histories."""
WRITE_PLAN = (
    "open_writer(run_uri, options)"
    '.put(PLAN, json.dumps({**plan.to_json(), "lease": grant.to_json()}).encode())'
)
"""Writes a lease into a plan, whatever is there."""
