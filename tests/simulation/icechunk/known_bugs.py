"""Known bugs of Icechunk's collection and expiration."""

from functools import partial

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Keep, Operator, Put, Swap
from tests.simulation.bug import KnownBug
from tests.simulation.focus import Focus

bug = partial(KnownBug, "icechunk")
_SPEC_1, _SPEC_2 = {"spec": (1,)}, {"spec": (2,)}
_AUTO = {"mode": ("auto",)}
_BLIND = {"canaries": (0,)}
"""Without canaries: another guard for some of these faults."""

OWN = (
    Breakage("names that are no ids are candidates", "dredge.icechunk.collection.list_candidates.listing",
             "_Found.add", Keep("BinOp", 1, "right")),
    Breakage("an edit does not look at the tag", "dredge.icechunk.expiration.apply", "apply_edit",
             Swap("Assign", "etag")),
    Breakage("a ref that moved is deleted all the same", "dredge.icechunk.expiration.apply", "_drop_ref",
             Put("If", 2, False)),
    Breakage("what is not expired is taken for expired", "dredge.icechunk.expiration.plan",
             "_Walker.is_expired", Always(True)),
    Breakage("the age of a file is its age a day later", "dredge.icechunk.repository", "is_old_column",
             Operator("Compare", 2, "GtE")),
)  # fmt: skip
"""Breakages outside the lists of tests/mutations."""
BUGS = (
    bug("young objects may go", 6, "age"),
    bug("what the repo info lists is not kept", 11, "peace"),
    bug("garbage of Icechunk waits for no other run", 9, "grace",
        Focus(("just_released",), {**_SPEC_1, "grace": (24.0,)})),
    bug("a chunk that is not there stops nothing", 0, "live", Focus(("flipped",))),
    bug("what a file names that the store holds goes", 0, "order", Focus(("held_by_the_store",))),
    bug("a ref on a doomed snapshot is not noticed", 6, "live", Focus(("in_use_again",), _SPEC_1)),
    bug("refs count that an upgrade is removing", 1, "live",
        Focus(("upgraded",), {**_SPEC_1, "grace": (0.0,)})),
    bug("a released snapshot that is listed again is not noticed", 15, "live",
        Focus(("in_use_again",), _SPEC_2)),
    bug("what came to life in Icechunk since the mark is deleted", 2, "live", Focus(("long_session",))),
    bug("the age of a mark is unchecked", 2, "old mark", Focus(("asleep",))),
    bug("a candidate that is no id is deleted", 0, "foreign", Focus(("foreign",)),
        breaks=("a candidate that is no id is deleted", "names that are no ids are candidates")),
    bug("a copy that the log needs by now is deleted", 0, "live",
        Focus(("slow_change",), {**_SPEC_2, "overwritten": (30.0,)})),
    bug("refs are not watched while workers delete", 2, "live", Focus(("in_use_again",))),
    bug("kinds go on after a failure", 3, "order", Focus(("failing_deletes",))),
    bug("a dry run may count for other results than it guarded", 17, "chain",
        Focus(("replaced_results",))),
    bug("a round of deleting does not look at the chain again", 176, "chain", Focus(("replaced_results",))),
    bug("limits of Icechunk are not asked", 24, "limit"),
    bug("the guards of Icechunk do not ask for the lease", 0, "figures", Focus(("asleep",))),
    bug("an older report of Icechunk replaces a later one", 1, "report", Focus(("late_report",))),
    bug("a run is resumed unconditionally", 3, "lease", Focus(("resumed",))),
    bug("a run of Icechunk without a listing deletes what live manifests name", 0, "live",
        Focus(("shared_chunks",), {**_AUTO, **_BLIND})),
    bug("new manifests are not counted", 14, "peace", Focus(("shared_chunks",), {**_AUTO, **_BLIND})),
    bug("a snapshot file that was replaced is believed to be the old one", 10, "live",
        Focus(("undone_expiration",), {**_SPEC_1, "grace": (24.0,)})),
    bug("chunks of new manifests that are not there stop nothing", 11, "live", Focus(("flipped",), _AUTO)),
    bug("a manifest need not say what was counted for it", 1, "live",
        Focus(("learned_wrongly",), {**_AUTO, **_BLIND, "etags": ("md5",)})),
    bug("a sweep of Icechunk does not write down what it may delete", 10, "garbage",
        Focus(("stopped_sweep",), {"rest": ("auto",)})),
    bug("what was brought back is a candidate of the next collection of Icechunk", 11, "restored",
        Focus(("taken_back",)),
        breaks=("what was brought back is a candidate of the next collection of Icechunk",
                "the sweep of Icechunk does not look for pins again")),
    bug("the sweep of Icechunk does not look for pins again", 0, "restored", Focus(("taken_back_midway",))),
    bug("objects of Icechunk go before they were copied", 0, "undo",
        Focus(("taken_back",), {"undo": ("quarantine",)})),
    bug("layers of counts go that a run of the last week builds on", 0, "own files", Focus(("weeks",))),
    bug("parts of the index go that a run of the last week may read", 0, "own files", Focus(("weeks",))),
    bug("parts of the index go that a head may name which cannot be read", 3, "own files", Focus(("weeks",))),
    bug("folders of runs of Icechunk go with copies, or that are of another repository", 5, "own files",
        Focus(("weeks",))),
    bug("what an inventory says is believed without asking the store", 2, "age", Focus(("from_inventory",))),
    bug("live chunks that an inventory lacks are not asked for", 15, "live", Focus(("unlisted",), _BLIND)),
    bug("manifests of a part of the index that went bad are not asked about", 15, "live",
        Focus(("unlisted",), _BLIND)),
    bug("an edit does not look at the tag", 6, "expired",
        Focus(("edited_away",), {**_SPEC_1, "grace": (0.0,)})),
    bug("a ref that moved is deleted all the same", 0, "expired", Focus(("moved_ref",), _SPEC_1)),
    bug("what is not expired is taken for expired", 0, "expired", Focus(("at_the_threshold",), _SPEC_1)),
    bug("the age of a file is its age a day later", 22, "age"),
    bug("a chunk that only a location names is garbage", 1, "live", Focus(("named_virtually",), _BLIND)),
    bug("a clean run takes only native chunks for live", 22, "live", Focus(("named_virtually",), _BLIND)),
    bug("an optimized run counts only native chunks", 1, "live",
        Focus(("named_virtually",), {**_AUTO, **_BLIND})),
    bug("a commit since the mark keeps nothing that virtual chunks lie in", 50, "live",
        Focus(("named_virtually",), _BLIND)),
)  # fmt: skip
