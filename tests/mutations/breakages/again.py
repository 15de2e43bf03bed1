"""Guards of what was deleted earlier: it is compared with what is live, and purged only when a mark shows it dead."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put, Rename, Swap

ALARM = "test_live_objects_that_a_run_deleted_come_back_and_raise_an_alarm"
KILLED = "test_after_a_kill_at_each_write_the_alarm_is_raised_and_the_objects_are_back"
BENIGN = "test_expired_data_that_is_used_again_comes_back_without_an_alarm"

AGAIN = (
    Breakage("what a branch did not answer is asked by no later mark", "dredge.gc.check_again.find",
             "_unseen", Put("If", 3, False),
             ("test_questions_that_the_server_did_not_answer_are_asked_again_by_the_next_mark",)),
    Breakage("what one run only reported stays away", "dredge.gc.check_again.check", "_bring_back",
             Put("BoolOp", 1, False, "values.0"),
             ("test_what_one_run_only_reported_the_next_one_brings_back",)),
    Breakage("what a commit names is explained by the rules that were taken away",
             "dredge.gc.check_again.find", "_unclaimed", Keep("BinOp", 2, "left"),
             ("test_live_objects_of_a_commit_alarm_also_where_the_rules_were_taken_away_since",)),
    Breakage("what runs deleted is not compared with what is live", "dredge.gc.check_limits.step", "_check",
             Put("Assign", "alarm", None), (ALARM,)),
    Breakage("a sweep does not write down what it may delete", "dredge.gc.bulk_delete.step", "_sweep",
             Put("IfExp", 1, True), ("test_a_sweep_that_was_killed_is_compared_as_well",)),
    Breakage("a sweep begins though another one wrote its record in the same moment", "dredge.undo.deletions",
             "note_deletion", Put("Call", "replace_again", True),
             ("test_a_sweep_that_slept_does_not_take_the_objects_of_a_later_one_out_of_the_record",)),
    Breakage("live objects that nothing explains count as used again", "dredge.gc.check_again.find",
             "explained", Rename("Call", "equal", "not_equal"), (ALARM,)),
    Breakage("only the ranges that the deleting run read explain a reuse", "dredge.gc.check_again.find",
             "explained", Keep("BinOp", 1, "right"), (BENIGN,)),
    Breakage("an object that exists again is a hit", "dredge.gc.check_again.find", "_missing",
             Put("Call", "exists", False),
             ("test_an_object_that_was_deleted_and_is_linked_anew_alarms_if_it_is_gone_and_not_if_it_exists",)),
    Breakage("branches are not asked about what was deleted", "dredge.gc.check_again.find", "find_hits",
             Drop("Assign", 3), ("test_content_uploaded_again_that_no_answer_shows_is_found_once",)),
    Breakage("an alarm is written after its objects are back", "dredge.gc.check_again.check", "check_again",
             Swap("Assign", 2), (KILLED,)),
    Breakage("an alarm stops only the run that found it", "dredge.gc.check_again.check", "check_again",
             Put("Assign", "still_open", []),
             ("test_later_runs_delete_nothing_until_a_person_acknowledges_and_then_they_do",)),
    Breakage("a run that waited deletes although another one has alarmed", "dredge.gc.bulk_delete.step",
             "_delete", Put("Call", "refuse_alarmed", None),
             ("test_a_run_that_waited_deletes_nothing_when_another_one_has_alarmed_meanwhile",)),
    Breakage("a ledger that cannot be read is passed over", "dredge.gc.check_again.find", "_compare",
             Drop("Expr", 2), ("test_a_deletion_that_cannot_be_read_is_named",)),
    Breakage("a purge removes what is live", "dredge.undo.purge", "_look", Keep("BinOp", 2, "left"),
             ("test_what_is_live_again_stays_although_it_was_not_brought_back",)),
    Breakage("a purge does not look again after its mark", "dredge.gc.undo", "find_live",
             Drop("Expr", "recheck"), ("test_what_comes_alive_between_the_mark_and_the_purge_stays",)),
    Breakage("a purge removes what a branch may serve unseen", "dredge.gc.undo", "find_live",
             Drop("List", 1, "elts.1"), ("test_a_copy_that_a_branch_may_serve_unseen_stays",)),
    Breakage("a purge goes on while an alarm is open", "dredge.gc.undo", "_purge",
             Drop("Expr", "refuse_alarmed"), ("test_nothing_is_purged_while_an_alarm_is_open",)),
    Breakage("metadata is deleted while an alarm is open", "dredge.gc.metadata.collecting",
             "_Collection._check_owner", Drop("Expr", "refuse_alarmed"),
             ("test_no_metadata_is_deleted_while_an_alarm_is_open",)),
    Breakage("the ledger of what can still come back is removed with its folder",
             "dredge.gc.save_report.clean_up", "_kept_deletions", Put("BoolOp", 1, False, "values.0"),
             ("test_the_ledger_of_what_can_still_come_back_is_kept",)),
    Breakage("a restore pins what is gone", "dredge.undo.restore", "", Put("Assign", "_ABSENT", ()),
             ("test_what_came_back_is_pinned_and_what_is_gone_is_not",)),
)  # fmt: skip
