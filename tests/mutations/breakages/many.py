"""Guards of collections of many repositories."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

MANY = (
    Breakage(
        "a connection that cannot be had is one that is not there",
        "operators/places.py",
        '            raise _unknown(what, f"{type(place).__name__} fails with {type(error).__name__}") from None\n',
        "            continue\n",
        ("test_without_an_answer_about_a_connection_no_store_is_opened",),
    ),
    Breakage(
        "the form's dry run is not one where the Variable says otherwise",
        "operators/many.py",
        'dry_run = params["dry_run"] or (',
        "dry_run = (",
        ("test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run",),
    ),
    Breakage(
        "an entry of the Variable that says nothing deletes",
        "operators/many.py",
        'own.get("dry_run", True)',
        'own.get("dry_run", False)',
        ("test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run",),
    ),
    Breakage(
        "a run that is there is done again with the settings of then",
        "operators/many.py",
        "__{settings[:16]}",
        "",
        ("test_a_run_that_is_there_is_not_done_again_when_the_variable_says_something_else_by_now",),
    ),
    Breakage(
        "one of two settings is taken where schedules differ",
        "operators/schedules.py",
        "if found.setdefault(repository, settings) != settings:",
        "if not found.setdefault(repository, settings):",
        ("test_schedules_that_differ_about_a_repository_leave_it_out",),
    ),
    Breakage(
        "a collector that has not ended is not seen",
        f"{GC}/many/others.py",
        "for place in (UNCOMMITTED, COMMITS):",
        "for place in ():",
        ("test_a_collector_that_has_not_ended_is_seen_by_what_it_had_prepared",),
    ),
    Breakage(
        "runs of another collector are taken for ours",
        f"{GC}/many/others.py",
        'if f"{folder}{PLAN}" not in {info.key for info in objects}:',
        "if False:",
        ("test_a_run_without_a_plan_that_is_newer_than_ours_is_another_collectors",),
    ),
    Breakage(
        "a run that failed is told of as a good one",
        "dredge/runs/many.py",
        "return self.outcome in ENDED or self.outcome == LEFT_OUT",
        "return True",
        ("test_a_run_whose_report_cannot_be_read_is_never_taken_for_a_good_one",),
    ),
    Breakage(
        "a try that died is followed by a second run",
        "operators/lakefs/collect_repository.py",
        "if state is not None and state not in self.failed_states:",
        "if False:",
        ("test_a_try_that_died_is_followed_by_one_that_waits_for_the_same_run",),
    ),
)
