"""Guards of the owner of a namespace: its server, its id, and the block."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop, Put

C2 = "test_c2_production_ran_first_and_then_a_copy_of_its_database"
TAKEN_OVER = "test_a_copy_takes_the_namespace_over_before_a_run_of_production_goes_on"
SAME_URL = "test_a_copy_under_the_same_url_blocks_production_until_a_person_lifts_it"
KILLED = "test_after_a_kill_at_any_write_of_an_id_the_server_passes_and_a_copy_without_it_does_not"
NO_RIGHT = "test_without_the_right_a_run_that_deletes_needs_a_persons_consent_given_once"

OWNER = (
    Breakage("every server is the owner", "dredge.gc.witness.owner", "Owner.includes",
             Put("Return", 1, True),
             (C2, "test_a_refused_copy_does_not_stop_production_and_production_is_warned_once")),
    Breakage("another installation under the owner's URL is the owner", "dredge.gc.witness.owner",
             "Owner.includes", Put("BoolOp", 1, True, "values.1"),
             ("test_a_refusal_of_another_installation_under_the_same_url_leaves_no_block",)),
    Breakage("a server without the last id passes", "dredge.gc.witness.owner", "MarkIds.passes",
             Put("Return", "find", True), (SAME_URL, C2)),
    Breakage("the id that the server has is not kept while a new one is written",
             "dredge.gc.witness.owner", "write_id", Put("IfExp", 1, False), (KILLED,)),
    Breakage("an id counts as written although the server did not keep it", "dredge.gc.witness.owner",
             "_set", Put("If", 2, True), ("test_an_id_that_the_server_does_not_keep_is_an_error",)),
    Breakage("the owner is not looked at right before deleting", "dredge.gc.bulk_delete.step",
             "_Sweep._delete_round", Put("Call", "check_before_deleting", None), (TAKEN_OVER,)),
    Breakage("a blocked namespace is swept", "dredge.gc.witness.owner", "_refuse_block",
             Put("If", "block", False), (SAME_URL, "test_a_blocked_namespace_is_not_purged")),
    Breakage("a copy stops production", "dredge.gc.witness.owner", "refuse", Put("If", 1, False),
             ("test_a_refusal_of_another_server_leaves_no_block",)),
    Breakage("a mark of another server leaves its commits and its id", "dredge.gc.check_limits.step",
             "_check", Put("BoolOp", 1, True, "values.0"),
             ("test_a_dry_run_of_a_copy_goes_on_warns_and_leaves_nothing_that_counts",)),
    Breakage("production does not learn of another installation", "dredge.gc.witness.owner",
             "_warn_of_visitors", Put("If", 1, True),
             ("test_a_refused_copy_does_not_stop_production_and_production_is_warned_once",)),
    Breakage("without the right to keep an id nobody is asked", "dredge.gc.witness.owner", "_demand_consent",
             Always(None), (NO_RIGHT,)),
    Breakage("a copy becomes another URL of the owner", "dredge.gc.witness.people", "add_alias",
             Put("Compare", "find", False), ("test_a_copy_does_not_become_an_alias",)),
    Breakage("a block is lifted without a reason", "dredge.runs.consents", "check_reason",
             Put("If", "strip", False),
             ("test_a_block_is_not_lifted_without_a_reason",
              "test_a_block_is_lifted_by_the_owner_with_a_reason")),
    Breakage("a copy purges what production may need", "dredge.undo.purge", "purge_runs",
             Drop("Expr", "check"), ("test_a_copy_purges_nothing",)),
    Breakage("metadata goes in a blocked namespace", "dredge.gc.metadata.collecting",
             "_Collection._check_owner", Drop("Expr", "check_before_deleting"),
             ("test_in_a_blocked_namespace_no_metadata_goes",)),
)  # fmt: skip
