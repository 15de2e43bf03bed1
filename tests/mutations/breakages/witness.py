"""Guards that compare a mark with earlier marks: known commits, unnamed metaranges, and the record of a mark."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Put, Swap

WITNESS = (
    Breakage(
        "inactive commits of the last mark with a chosen date are not asked for",
        "dredge.gc.witness.mark",
        "find_unknown",
        Put("Call", "nlargest", []),
        ("test_a_commit_that_expired_got_a_branch_again_and_was_lost_with_the_database_is_missed",),
    ),
    Breakage(
        "commits that the server does not know any more pass",
        "dredge.gc.witness.mark",
        "check_known",
        Put("If", "unknown", True),
        ("test_c1_after_the_database_is_restored_nothing_of_the_lost_days_is_deleted",),
    ),
    Breakage(
        "a repository created again over older metaranges passes",
        "dredge.gc.witness.mark",
        "check_life",
        Put("If", "older", False),
        ("test_a_repository_created_again_over_older_metaranges_is_refused_until_a_person_gives_them_up",),
    ),
    Breakage(
        "metaranges of a long pause count for one mark",
        "dredge.gc.witness.record",
        "Past.since",
        Put("IfExp", 1, True),
        ("test_an_unnamed_metarange_of_a_long_pause_counts_for_its_days_from_the_mark_that_ended_it",),
    ),
    Breakage(
        "metaranges written since the cutoff do not count",
        "dredge.gc.witness.unnamed",
        "sort_out",
        Put("keyword", "young", set()),
        ("test_c10_a_revert_behind_a_hook_keeps_what_it_brings_back",),
    ),
    Breakage(
        "metaranges that no known commit names do not count",
        "dredge.gc.witness.unnamed",
        "sort_out",
        Put("keyword", "lost", set()),
        ("test_c11_a_commit_that_no_run_saw_before_it_was_lost_is_kept",),
    ),
    Breakage(
        "the re-check does not look for unnamed metaranges",
        "dredge.gc.bulk_delete.recheck",
        "recheck",
        Put("Assign", "unnamed", set()),
        ("test_a_sweep_that_sees_a_lost_commit_only_in_the_re_check_keeps_it",),
    ),
    Breakage(
        "the metarange of an active commit may be missing",
        "dredge.gc.witness.unnamed",
        "demand_metaranges",
        Put("If", "missing", False),
        ("test_a_missing_metarange_of_an_active_commit_stops_the_run",),
    ),
    Breakage(
        "a metarange that a collection of metadata deleted is not sought",
        "dredge.gc.metadata.deleting",
        "restore_metaranges",
        Drop("Starred", 2),
        ("test_what_a_collection_of_metadata_deleted_is_put_back",),
    ),
    Breakage(
        "a mark that a witness refuses puts metaranges back",
        "dredge.gc.witness.mark",
        "pass_witnesses",
        Swap("If", "owns"),
        ("test_a_mark_that_a_witness_refuses_puts_nothing_back",),
    ),
    Breakage(
        "unnamed metaranges count for some days, whenever the last mark was",
        "dredge.gc.witness.record",
        "Past.since",
        Put("If", "record", True),
        ("test_an_unnamed_metarange_of_a_long_pause_counts_for_its_days_from_the_mark_that_ended_it",),
    ),
    Breakage(
        "a metarange that was given up never counts again",
        "dredge.gc.witness.unnamed",
        "_is_forgotten",
        Put("BoolOp", 1, True, "values.1"),
        ("test_an_unnamed_metarange_that_was_given_up_counts_again_once_it_is_written_again",),
    ),
    Breakage(
        "after one statement of a person no commit has to be known",
        "dredge.gc.witness.record",
        "Past.active",
        Put("BoolOp", 1, False),
        (
            "test_what_is_lost_after_a_statement_is_refused_again",
            "test_a_second_older_backup_does_not_lose_what_nobody_gave_up",
        ),
    ),
    Breakage(
        "the record that another mark left is replaced",
        "dredge.runs.conditional",
        "replace_again",
        Put("BoolOp", 1, False, "values.1"),
        ("test_a_record_that_another_mark_left_since_is_not_replaced",),
    ),
    Breakage(
        "a what-if leaves its commits for later marks",
        "dredge.gc.check_limits.step",
        "_check",
        Drop("BoolOp", 1, "values.1"),
        ("test_marks_of_another_server_and_what_ifs_leave_no_row",),
    ),
)
