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
    "a run of another Icechunk repository is taken back": "there is only one repository here",
    "candidates may lie anywhere": "no listing leaves its folder; unit tests make one that does",
    "a sweep of Icechunk does not ask for the guards' verdict": "a step whose verdict is bad is not complete, and the"
    " sweep reads complete steps only; a unit test hands it another",
    "the deleter of own files of Icechunk takes any name": _ITSELF,
    "an interval that ends in the future makes a run expire more": "the operator of Airflow cuts the interval off, and"
    " no operator runs here; a unit test does",
}
"""Why no history can show a bug."""
_BY_NAME = {each.name: each for each in ICECHUNK}
BESIDE: Mapping[str, tuple[Breakage, ...]] = {
    "what was brought back is a candidate of the next collection of Icechunk": (
        _BY_NAME["the sweep of Icechunk does not look for pins again"],
    ),
    "a candidate that is no id is deleted": (
        Breakage(
            "names that are no ids are candidates",
            f"{ICE}/list_candidates/listing.py",
            "unnamed = is_id & ~is_live",
            "unnamed = ~is_live",
            (),
        ),
    ),
}
"""Another guard that catches the same fault."""
_SPEC_1, _SPEC_2 = {"spec": (1,)}, {"spec": (2,)}
_AUTO = {"mode": ("auto",)}
_BLIND = {"canaries": (0,)}
"""Without canaries: they are another guard, which catches some of these faults."""
FOCUS: Mapping[str, Focus] = {
    "a chunk that is not there stops nothing": Focus(("flipped",)),
    "what a file names that the store holds goes": Focus(("held_by_the_store",)),
    "a ref on a doomed snapshot is not noticed": Focus(("in_use_again",), _SPEC_1),
    "refs count that an upgrade is removing": Focus(("upgraded",), {**_SPEC_1, "grace": (0.0,)}),
    "a released snapshot that is listed again is not noticed": Focus(("in_use_again",), _SPEC_2),
    "what came to life in Icechunk since the mark is deleted": Focus(("long_session",)),
    "the age of a mark is unchecked": Focus(("asleep",)),
    "a candidate that is no id is deleted": Focus(("foreign",)),
    "a copy that the log needs by now is deleted": Focus(
        ("slow_change",), {**_SPEC_2, "overwritten": (30.0,)}
    ),
    "refs are not watched while workers delete": Focus(("in_use_again",)),
    "kinds go on after a failure": Focus(("failing_deletes",)),
    "a dry run of Icechunk may count for other results than it guarded": Focus(("replaced_results",)),
    "a sweep of Icechunk does not look at the chain again": Focus(("replaced_results",)),
    "the guards of Icechunk do not ask for the lease": Focus(("asleep",)),
    "an older report of Icechunk replaces a later one": Focus(("late_report",)),
    "an older page of Icechunk replaces a later one": Focus(("late_report",)),
    "a run of Icechunk is resumed unconditionally": Focus(("resumed",)),
    "an optimized run of Icechunk deletes what live manifests name": Focus(
        ("shared_chunks",), {**_AUTO, **_BLIND}
    ),
    "new manifests are not counted": Focus(("shared_chunks",), {**_AUTO, **_BLIND}),
    "a snapshot file that was replaced is believed to be the old one": Focus(
        ("undone_expiration",), {**_SPEC_1, "grace": (24.0,)}
    ),
    "chunks of new manifests that are not there stop nothing": Focus(("flipped",), _AUTO),
    "a manifest need not say what was counted for it": Focus(
        ("learned_wrongly",), {**_AUTO, **_BLIND, "etags": ("md5",)}
    ),
    "a snapshot that names other manifests than before is believed": Focus(("wrong_snapshot",), _SPEC_1),
    "of two reads of a snapshot the newer one is believed": Focus(("wrong_snapshot",), _SPEC_1),
    "what a stopped sweep of Icechunk left is forgotten": Focus(("stopped_sweep",), {"rest": ("auto",)}),
    "a run builds on counts whose chunks an earlier one kept on purpose": Focus(
        ("kept_chunks",), {"rest": ("auto",)}
    ),
    "what was brought back is a candidate of the next collection of Icechunk": Focus(("taken_back",)),
    "the sweep of Icechunk does not look for pins again": Focus(("taken_back_midway",)),
    "objects of Icechunk go before they were copied": Focus(("taken_back",), {"undo": ("quarantine",)}),
    "layers of counts go that a run of the last week builds on": Focus(("weeks",)),
    "parts of the index go that a run of the last week may read": Focus(("weeks",)),
    "parts of the index go that a head may name which cannot be read": Focus(("weeks",)),
    "notes of stopped sweeps go that a run may need": Focus(("weeks",)),
    "folders of runs of Icechunk go with copies, or that are of another repository": Focus(("weeks",)),
    "what an inventory says is believed without asking the store": Focus(("from_inventory",)),
    "live chunks that an inventory lacks are not asked for": Focus(("unlisted",), _BLIND),
    "what live manifests name is a candidate when an inventory is read": Focus(("from_inventory",), _BLIND),
    "manifests of a part of the index that went bad are not asked about": Focus(("unlisted",), _BLIND),
    "an edit does not look at the tag": Focus(("edited_away",), {**_SPEC_1, "grace": (0.0,)}),
    "a ref that moved is deleted all the same": Focus(("moved_ref",), _SPEC_1),
    "what is not expired is taken for expired": Focus(("at_the_threshold",), _SPEC_1),
    "a released snapshot is held for half of the grace": Focus(
        ("just_released",), {**_SPEC_1, "grace": (24.0,)}
    ),
}
"""What histories that hunt a bug have more often."""
BUGS = (*ICECHUNK, *OF_HISTORIES)
