"""Guards of collections of many repositories."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Put

MANY = (
    Breakage("a connection that cannot be had is one that is not there",
             "airflow_dredge.operators.hooks.connections", "find_connection",
             Drop("Raise", "UnavailableError"),
             ("test_an_error_of_the_look_up_is_not_a_missing_connection",)),
    Breakage("a Variable that is gone no longer binds a run", "dredge.runs.consents", "check_variables",
             Drop("Raise", "RefusedError"), ("test_a_missing_variable_stops_every_run_until_it_is_back",)),
    Breakage("the form's dry run is not one where the Variable says otherwise",
             "airflow_dredge.operators.many", "make_conf", Put("Subscript", "params", False),
             ("test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run",)),
    Breakage("an entry of the Variable that says nothing deletes", "airflow_dredge.operators.many",
             "make_conf", Put("Call", "get", False, "args.1"),
             ("test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run",)),
    Breakage("a run that is there is done again with the settings of then", "airflow_dredge.operators.many",
             "run_id", Put("FormattedValue", 4, ""),
             ("test_a_run_that_is_there_is_not_done_again_when_the_variable_says_something_else_by_now",)),
    Breakage("one of two settings is taken where schedules differ", "airflow_dredge.operators.schedules",
             "read_settings", Drop("Assign", 6),
             ("test_schedules_that_differ_about_a_repository_leave_it_out",)),
    Breakage("a collector that has not ended is not seen", "dredge.gc.many", "_of_others",
             Put("For", "place", (), "iter"),
             ("test_a_collector_that_has_not_ended_is_seen_by_what_it_had_prepared",)),
    Breakage("runs of another collector are taken for ours", "dredge.gc.many", "_of_others",
             Put("If", 1, False),
             ("test_a_run_without_a_plan_that_is_newer_than_ours_is_another_collectors",)),
    Breakage("a run that failed is told of as a good one", "dredge.runs.report", "Outcome.is_good",
             Put("Return", 1, True),
             ("test_a_run_whose_report_cannot_be_read_is_never_taken_for_a_good_one",)),
    Breakage("a try that died is followed by a second run", "airflow_dredge.operators.lakefs.many",
             "LakeFSCollectRepositoryOperator._go_on", Put("If", 1, False),
             ("test_a_try_that_died_is_followed_by_one_that_waits_for_the_same_run",)),
    Breakage("a run for many is good though one repository was not collected",
             "airflow_dredge.operators.many", "AllCollectedOperator.execute", Drop("Raise", 2),
             ("test_a_run_is_not_good_where_one_was_not",)),
    Breakage("a run that a person deleted is waited for", "airflow_dredge.operators.lakefs.many",
             "LakeFSCollectRepositoryOperator.resume_execution", Put("Return", 2, None),
             ("test_a_run_that_a_person_deleted_is_noticed_within_minutes",)),
)  # fmt: skip
