"""Bugs of Icechunk's collection and expiration that its world must find."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mutations.breakages.breakage import ICE, Breakage
from tests.mutations.breakages.icechunk import ICECHUNK
from tests.simulation.focus import Focus

_EXPIRE = "dredge/icechunk/expiration"
OF_HISTORIES = (
    Breakage(
        "an edit does not look at the tag",
        f"{_EXPIRE}/in_place.py",
        "writer.put_if_match(key, with_parent(data, key, edit.new_parent), etag)",
        "writer.put(key, with_parent(data, key, edit.new_parent))",
        (),
    ),
    Breakage(
        "a ref that moved is deleted all the same",
        f"{_EXPIRE}/in_place.py",
        "    if tip != ref.tip:",
        "    if False:",
        (),
    ),
    Breakage(
        "what is not expired is taken for expired",
        f"{_EXPIRE}/rules.py",
        "return self.snapshots[snapshot].flushed_at < self.threshold",
        "return self.snapshots[snapshot].flushed_at < self.threshold + 86_400_000_000",
        (),
    ),
    Breakage(
        "a released snapshot is held for half of the grace",
        f"{ICE}/mark/roots.py",
        "if node not in seen_before or now - time < grace}",
        "if node not in seen_before or now - time < grace / 2}",
        (),
    ),
    Breakage(
        "the age of a file is its age a day later",
        f"{ICE}/age.py",
        "    limit = pa.scalar(cutoff, pa",
        "    limit = pa.scalar(cutoff + timedelta(days=1), pa",
        (),
    ),
    Breakage(
        "tags keep nothing",
        "dredge/icechunk/repository.py",
        'tags={name: tip for (kind, name), tip in tips.items() if kind == "tag"},',
        "tags={},",
        (),
    ),
)
_ITSELF = "the program holds its own work against itself, and no history changes that work; unit tests do"
WHY_NOT: Mapping[str, str] = {
    "a live snapshot that no task read is passed over": _ITSELF,
    "a live manifest that no task read is passed over": _ITSELF,
    "candidates of Icechunk that were not written pass": _ITSELF,
    "canaries of Icechunk may be candidates": _ITSELF,
    "a run of another Icechunk repository is resumed": "there is only one repository here",
    "a chunk that is not there stops nothing": "no history damages a manifest; unit tests do",
    "candidates may lie anywhere": "no listing leaves its folder; unit tests make one that does",
    "a candidate that is no id is deleted": "nobody writes such a key here; unit tests do",
}
"""Why no history can show a bug."""
BESIDE: Mapping[str, tuple[Breakage, ...]] = {}
"""Another guard that catches the same fault."""
FOCUS: Mapping[str, Focus] = {}
"""What histories that hunt a bug have more often."""
BUGS = (*ICECHUNK, *OF_HISTORIES)
