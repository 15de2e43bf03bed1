"""Guards of the look at the store after a sweep."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Put, Rename

VERIFY = (
    Breakage("a living object in the ledger is passed over", "dredge.gc.verify", "_verify",
             Put("Assign", "ours", []),
             ("test_a_living_object_in_the_ledger_is_noticed_however_few_looks_are_made",)),
    Breakage("living objects are compared with the store by chance only", "dredge.gc.verify", "choose_living",
             Put("Assign", "found", []),
             ("test_a_living_object_in_the_ledger_is_noticed_however_few_looks_are_made",)),
    Breakage("a step begins under a right that somebody else has taken", "dredge.runs.lease", "Lease.hold",
             Put("BoolOp", 1, True, "values.1"),
             ("test_a_step_holds_no_right_that_somebody_took_and_takes_back_one_that_was_given_back",)),
    Breakage("an answer that was not clear is not looked into", "dredge.gc.verify", "_choose_names",
             Rename("Call", "is_valid", "is_null"),
             ("test_an_object_whose_first_answer_was_not_clear_is_always_looked_for",)),
    Breakage("what was reported deleted may still be there", "dredge.gc.verify", "_verify",
             Put("If", "counts", False), ("test_what_was_reported_deleted_and_is_still_there_is_an_error",)),
    Breakage("live objects of before a long sweep count", "dredge.runs.run", "PlannedRun.begun",
             Put("Compare", 1, True), ("test_live_objects_of_before_a_short_sweep_are_looked_for_after_it",)),
)  # fmt: skip
