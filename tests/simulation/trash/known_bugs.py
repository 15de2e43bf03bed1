"""Known bugs of the trash cleaner."""

from functools import partial

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop, Keep, Leave, Put
from tests.simulation.bug import KnownBug
from tests.simulation.focus import Focus

bug = partial(KnownBug, "trash")

OWN = (
    Breakage("records are read before what they may name, without a snapshot", "dredge.trash.look",
             "look_through", Put("IfExp", "consistent", 1)),
    Breakage("sealed tokens name nothing", "dredge.trash.look", "_branches", Put("Assign", "tokens", ())),
    Breakage("the second look is not compared with the first", "dredge.trash.steps", "_remove",
             Keep("Call", "in_both", "args.0")),
    Breakage("undo files are not written", "dredge.trash.apply", "Applier._group", Drop("Expr", "write")),
    Breakage("a token is only looked for at the first dash of its name", "dredge.trash.names",
             "possible_branches", Always([])),
    Breakage("a repository without a record is always what a delete left", "dredge.trash.partition_rules",
             "Classifier._status", Leave("If", "staged", "leftovers")),
    Breakage("staged changes prove nothing for a repository without a record", "dredge.trash.partition_rules",
             "Classifier._status", Put("If", "staged", False)),
    Breakage("what was put back is forgotten before it is", "dredge.trash.alarms", "restore_named",
             Leave("Assign", "named", None)),
    Breakage("a marker goes although its token is not empty", "dredge.trash.rules", "_marker",
             Put("If", "key", False)),
    Breakage("a marker is not held against its token when it is about to go", "dredge.trash.apply", "_load",
             Put("If", 2, False)),
    Breakage("a status goes whenever it was updated", "dredge.trash.rules", "_expired", Put("If", 2, False)),
    Breakage("an index of a pull request that is about to be written goes", "dredge.trash.rules",
             "_pull_index", Put("Assign", "young", "")),
    Breakage("the action runs of this life are of an earlier one", "dredge.trash.rules", "_action_kind",
             Put("If", 3, True)),
    Breakage("orphans wait for ever", "dredge.trash.waiting", "advance_waiting",
             Put("Assign", "confirmed", set())),
)  # fmt: skip
"""Breakages outside the lists of tests/mutations."""
BUGS = (
    bug("one look is enough", 0, "grace"),
    bug("any age of an id will do", 19, "grace", Focus(("ahead",))),
    bug("a run that skipped every hook began in the year 1", 1, "live", Focus(("skipped",))),
    bug("a lost repository with a usable head is trash", 0, "live", Focus(("life_without_record",)),
        breaks=("a lost repository with a usable head is trash",
                "a life that lost its first commit and has a head is what a delete left")),
    bug("a life that lost its first commit and has a head is what a delete left", 3027, "live",
        Focus(("life_without_record",))),
    bug("a repository that comes back does not keep its hook results", 9, "live",
        Focus(("record_comes_back",))),
    bug("a hook run that comes back does not keep its parts", 9, "live", Focus(("hook_run_ends_late",))),
    bug("a record that comes right before the deletion saves nothing", 8, "live",
        Focus(("back_at_a_deletion",))),
    bug("a branch that comes right before the deletion saves nothing", 10, "live",
        Focus(("back_at_a_deletion",))),
    bug("what changed since the plan goes", 5, "grace", Focus(("late_into_an_orphan",))),
    bug("what was removed and is named again stays removed", 106, "put back",
        Focus(("named_afterwards", "back_at_a_deletion"))),
    bug("a restore queues tokens that branches name", 2, "queued", Focus(("queued_by_mistake",))),
    bug("what was put back has no grace", 0, "grace", Focus(("taken_back",))),
    bug("records are read before what they may name, without a snapshot", 0, "plan",
        Focus(("named_while_looked_at",), {"snapshots": (False,)})),
    bug("sealed tokens name nothing", 4, "plan"),
    bug("the second look is not compared with the first", 9, "live", Focus(("record_comes_back",)),
        breaks=("the second look is not compared with the first",
                "a repository that comes back does not keep its hook results")),
    bug("undo files are not written", 0, "undo"),
    bug("a token is only looked for at the first dash of its name", 20, "live",
        Focus(("back_at_a_deletion",))),
    bug("a repository without a record is always what a delete left", 0, "live",
        Focus(("life_without_record",))),
    bug("staged changes prove nothing for a repository without a record", 7, "live",
        Focus(("life_without_record",))),
    bug("what was put back is forgotten before it is", 0, "put back", Focus(("named_afterwards",))),
    bug("a marker goes although its token is not empty", 9, "live", Focus(("late_into_a_queue",)),
        breaks=("a marker goes although its token is not empty",
                "a marker is not held against its token when it is about to go")),
    bug("a status goes whenever it was updated", 14, "live"),
    bug("an index of a pull request that is about to be written goes", 37, "live", Focus(("ahead",))),
    bug("the action runs of this life are of an earlier one", 13, "trash"),
    bug("an entry goes before its repository's rows", 70, "live",
        Focus(("handed_over",), {"life cycle": ("step-2",)})),
    bug("orphans wait for ever", 0, "trash"),
)  # fmt: skip
