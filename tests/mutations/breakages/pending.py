"""Guards of the wait: what the pending list lets a run delete, and whether a list is believed."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put

PENDING = (
    Breakage(
        "a run deletes what has not waited long enough",
        "dredge.runs.pending.rows",
        "_found_rows",
        Put("Assign", "over", True),
        ("test_what_has_waited_may_be_deleted_and_not_a_moment_earlier",),
    ),
    Breakage(
        "a run confirms what it found itself",
        "dredge.runs.pending.rows",
        "_found_rows",
        Put("Assign", "by_another", True),
        ("test_a_run_does_not_confirm_what_it_found_itself",),
    ),
    Breakage(
        "what changed goes on waiting",
        "dredge.runs.pending.rows",
        "_found_rows",
        Put("Call", "_unchanged", True),
        ("test_what_changed_waits_anew",),
    ),
    Breakage(
        "what was alive between goes on waiting",
        "dredge.runs.pending.rows",
        "_unseen_rows",
        Put("Call", "_with", {"status": "waiting"}, "args.2"),
        ("test_what_was_alive_between_waits_anew",),
    ),
    Breakage(
        "what lives leaves before the state knows it",
        "dredge.runs.pending.rows",
        "_unseen_rows",
        Put("If", 2, True),
        ("test_what_lives_leaves_once_the_state_knows_it",),
    ),
    Breakage(
        "a wait may begin in the future",
        "dredge.runs.pending.rows",
        "_in_time",
        Put("If", 1, True),
        ("test_a_wait_that_begins_in_the_future_begins_now",),
    ),
    Breakage(
        "a wait goes on that began while the object was young",
        "dredge.runs.pending.rows",
        "_found_rows",
        Put("Call", "_was_old", True),
        (
            "test_a_wait_that_began_before_an_object_was_old_begins_now",
            "test_a_dry_run_that_takes_young_objects_for_old_begins_no_wait",
        ),
    ),
    Breakage(
        "a wait begins before the run, as the clock went back",
        "dredge.runs.pending.rows",
        "Turn.begins_at",
        Keep("Call", "max", "args.0"),
        ("test_a_clock_that_goes_back_while_a_mark_is_made_lets_no_wait_begin_before_it",),
    ),
    Breakage(
        "what was not listed is gone",
        "dredge.runs.pending.rows",
        "_unseen_rows",
        Put("If", 1, True),
        ("test_what_was_not_listed_is_not_gone",),
    ),
    Breakage(
        "a list of another namespace is believed",
        "dredge.runs.pending.store",
        "_why_not",
        Put("If", 1, False),
        ("test_a_list_about_something_else_is_not_believed",),
    ),
    Breakage(
        "a list of another life of the repository is believed",
        "dredge.runs.pending.store",
        "_why_not",
        Put("If", 2, False),
        ("test_a_list_about_something_else_is_not_believed",),
    ),
    Breakage(
        "a list from the future is believed",
        "dredge.runs.pending.store",
        "_why_not",
        Put("If", 3, False),
        ("test_a_list_from_the_future_or_copied_back_is_not_believed",),
    ),
    Breakage(
        "a list that was copied back is believed",
        "dredge.runs.pending.store",
        "_why_not",
        Put("If", 4, False),
        ("test_a_list_from_the_future_or_copied_back_is_not_believed",),
    ),
    Breakage(
        "a list from before a person's word is believed",
        "dredge.runs.pending.store",
        "_why_not",
        Put("If", 5, False),
        ("test_after_a_persons_word_everything_waits_anew",),
    ),
    Breakage(
        "a list with a damaged part is believed",
        "dredge.runs.pending.store",
        "_damage",
        Drop("Expr", "verify"),
        ("test_a_part_that_is_gone_or_damaged_is_a_problem",),
    ),
    Breakage(
        "a list, a record or a state of a newer version is taken for a damaged one",
        "dredge.runs.payload",
        "from_versioned",
        Put("If", 1, False),
        (
            "test_an_older_format_waits_anew_and_a_newer_one_stops_the_run",
            "test_a_record_of_another_format_or_without_a_field_stops_the_run",
            "test_a_state_of_an_older_format_is_none_and_one_of_a_newer_stops_the_run",
        ),
    ),
    Breakage(
        "an optimized run goes on without a list",
        "dredge.gc.pending.known",
        "note_list",
        Put("If", 1, False),
        ("test_an_optimized_run_whose_list_went_meanwhile_is_refused",),
    ),
    Breakage(
        "a state without a list is built on",
        "dredge.gc.planning",
        "_with_list",
        Put("If", 1, True),
        ("test_a_list_that_may_not_be_believed_makes_all_wait_anew_in_a_clean_run",),
    ),
    Breakage(
        "a candidate of which nothing is known to have waited may go",
        "dredge.gc.check_limits.holds",
        "Holds.codes_of",
        Put("If", 2, False),
        ("test_what_is_not_known_to_have_waited_waits",),
    ),
    Breakage(
        "a what-if and another server's mark leave a list",
        "dredge.gc.check_limits.step",
        "_check",
        Put("Assign", "leaves", True),
        ("test_marks_of_another_server_and_what_ifs_leave_no_row",),
    ),
    Breakage(
        "a policy's floor does not hold where the grace is empty",
        "airflow_dredge.operators.policy",
        "_effective",
        Put("IfExp", 1, False),
        ("test_a_run_within_its_bounds_goes_on_and_any_other_is_refused",),
    ),
)
