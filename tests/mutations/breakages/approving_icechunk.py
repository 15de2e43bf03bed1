"""Guards of approvals of Icechunk collections: the sweep looks for itself, and nobody approves what may be alive."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Put, Rename

APPROVED_ICECHUNK = (
    Breakage("the first run of an Icechunk repository that deletes without undo has no limit",
             "dredge.icechunk.collection.check_limits", "_check_limits", Put("If", "objects", False),
             ("test_the_first_run_without_undo_asks_beyond_a_thousand_objects",)),
    Breakage("what may be a true chunk of Icechunk can be approved",
             "dredge.icechunk.collection.absent", "_finding",
             Put("Constant", "refused", "awaiting_approval"),
             ("test_nobody_can_approve_what_may_be_a_true_object",)),
    Breakage("a sweep need not wait for its approval", "dredge.approve.sweep", "Sweep.inputs", Drop("Starred", 2),
             ("test_nothing_goes_before_a_yes_and_then_the_garbage_and_nothing_else",)),
    Breakage("nobody looks for a no while objects of Icechunk are deleted",
             "dredge.icechunk.collection.bulk_delete", "_Sweep.delete", Put("BoolOp", 1, False, "values.0"),
             ("test_a_no_stops_a_sweep_that_has_begun",)),
    Breakage("an approval of Icechunk is one to any candidates", "dredge.icechunk.collection.outputs",
             "ApproveOutput", Rename("Name", "ListCandidatesOutput", "CheckLimitsOutput"),
             ("test_the_question_names_the_candidates_that_were_listed",)),
    Breakage("the state of an approved run of Icechunk is made from another chain than its sweep",
             "dredge.icechunk.collection.save_report", "advance_state", Drop("Starred", 2),
             ("test_nothing_goes_before_a_yes_and_then_the_garbage_and_nothing_else",)),
)  # fmt: skip
