"""Guards of the collection of Icechunk that compare with the past, and of local files that must last."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put

ICECHUNK_PAST = (
    Breakage(
        "main may lose its tip and no person is asked",
        "dredge.icechunk.collection.witness.judging",
        "judge",
        Put("If", 3, False),
        ("test_refs_that_were_put_back_lose_nothing_that_a_run_called_live",),
    ),
    Breakage(
        "a lost tip is not kept",
        "dredge.icechunk.collection.mark.roots",
        "choose_roots",
        Keep("BinOp", 3, "left"),
        ("test_lost_tip_is_kept_from_the_first_run_that_missed_it_whatever_its_age",),
    ),
    Breakage(
        "a snapshot that nothing names is garbage before it is old",
        "dredge.icechunk.collection.mark.roots",
        "choose_roots",
        Put("BoolOp", 1, False),
        ("test_commit_that_no_run_saw_is_kept_when_refs_are_put_back",),
    ),
    Breakage(
        "what was a tip again counts as released",
        "dredge.icechunk.collection.witness.record",
        "next_parents",
        Keep("BinOp", 1, "left"),
        ("test_snapshot_that_is_reached_again_was_released_by_none_of_its_earlier_children",),
    ),
    Breakage(
        "a repo info without the last operation is believed",
        "dredge.icechunk.collection.witness.judging",
        "judge",
        Put("Constant", 11, None),
        ("test_repo_info_that_was_put_back_stops_the_run_until_a_person_accepts_it",),
    ),
    Breakage(
        "refs of spec 1 that are later than the upgrade stop nothing",
        "dredge.icechunk.collection.witness.old_refs",
        "later_than",
        Put("If", 1, False),
        ("test_refs_beside_a_log_that_does_not_name_the_upgrade_stop_the_run",),
    ),
    Breakage(
        "what refs of before the upgrade reach is garbage",
        "dredge.icechunk.collection.mark.step",
        "_reached_by_old_refs",
        Put("If", "keep_old_refs", True),
        ("test_what_left_over_refs_reach_is_kept_until_a_person_lets_it_go",),
    ),
    Breakage(
        "a ref of spec 1 that is written while a run works is not noticed",
        "dredge.icechunk.collection.bulk_delete.recheck",
        "look_again",
        Put("Call", "_late_old_ref", None),
        ("test_ref_of_spec_1_that_is_written_between_mark_and_sweep_stops_the_sweep",),
    ),
    Breakage(
        "a snapshot that nothing names and that came since the mark keeps nothing",
        "dredge.icechunk.collection.bulk_delete.step",
        "_sweep",
        Drop("Call", "newly_live", "args.2"),
        ("test_snapshot_that_nothing_names_and_that_was_written_since_the_mark_keeps_what_it_names",),
    ),
    Breakage(
        "a record of another run is replaced",
        "dredge.icechunk.collection.witness.leaving",
        "leave_record",
        Put("If", 3, False),
        ("test_record_that_another_run_has_left_since_the_mark_is_not_replaced",),
    ),
    Breakage(
        "what a run deleted is called damage",
        "dredge.icechunk.collection.check_again",
        "seeking_deleted",
        Drop("Expr", "refuse_deleted"),
        ("test_live_files_that_a_run_deleted_come_back_and_a_person_must_look",),
    ),
    Breakage(
        "an open alarm stops no deletion",
        "dredge.icechunk.collection.bulk_delete.step",
        "_sweep",
        Drop("Expr", "refuse_alarmed"),
        ("test_nothing_is_deleted_while_an_alarm_is_open",),
    ),
    Breakage(
        "a purge takes copies of what is live",
        "dredge.icechunk.collection.undo",
        "purge",
        Drop("Call", "partial"),
        ("test_purge_leaves_copies_of_what_is_live",),
    ),
    Breakage(
        "the library collects what is to stay",
        "dredge.icechunk.collection.by_library",
        "collect_by_library",
        Drop("Expr", "_ask_witnesses"),
        ("test_library_does_not_collect_what_a_run_called_live",),
    ),
    Breakage(
        "a file of the local store has its name before its bytes are on the disk",
        "dredge.storage.local.publish",
        "Unpublished.publish",
        Drop("Expr", 3),
        ("test_acknowledged_object_is_there_after_a_loss_of_power",),
    ),
    Breakage(
        "the name of a file of the local store is not forced to the disk",
        "dredge.storage.local.publish",
        "Unpublished.publish",
        Drop("Expr", 6),
        ("test_acknowledged_object_is_there_after_a_loss_of_power",),
    ),
    Breakage(
        "rows of the embedded server may be lost with the power",
        "dredge.kv.sqlite",
        "SQLiteKV._connect",
        Put("IfExp", "is_durable", None),
        ("test_rows_of_the_embedded_server_are_forced_to_the_disk",),
    ),
)
