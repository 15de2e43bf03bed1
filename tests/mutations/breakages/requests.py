"""Guards of what a run was asked to do, and of what an administrator allows."""

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Put

REQUESTS = (
    Breakage("a name in a conf that no Param has is ignored", "airflow_dredge.operators.run_check", "_check",
             Put("Call", "sorted", ()),
             ("test_a_name_that_no_param_has_stops_the_run_and_its_page_says_so",)),
    Breakage("a conf that changes no Param is ignored", "airflow_dredge.operators.run_check", "_check",
             Put("If", "read", False), ("test_a_conf_that_changes_no_param_stops_the_run",)),
    Breakage("tasks are not checked", "airflow_dredge.operators.run_check", "task_arguments",
             Drop("Constant", "pre_execute"), ("test_airflow_asks_for_the_check_and_nothing_is_read",)),
    Breakage("an unknown name in the settings of a repository is ignored",
             "airflow_dredge.operators.schedules", "read_settings", Put("Call", "sorted", ()),
             ("test_an_unknown_name_in_the_settings_of_one_repository_starts_no_run",)),
    Breakage("the policy is not asked", "airflow_dredge.operators.run_check", "_check",
             Drop("Expr", "check_policy"), ("test_the_policy_holds_for_the_params_of_a_run",)),
    Breakage("an empty limit is within the policy", "airflow_dredge.operators.run_check", "_keeps",
             Put("Return", 2, True), ("test_a_run_within_its_bounds_goes_on_and_any_other_is_refused",)),
    Breakage("an unsafe age goes below the policy", "airflow_dredge.operators.run_check", "_effective",
             Put("If", 1, False), ("test_an_unsafe_age_does_not_go_below_the_minimum_age",)),
    Breakage("a name in the policy that no Param has is ignored", "airflow_dredge.operators.run_check",
             "_read_policy", Put("If", "name", False),
             ("test_a_policy_that_cannot_be_understood_stops_every_run",)),
    Breakage("a lakeFS connection of type https goes over plain http",
             "airflow_dredge.operators.hooks.lakefs", "_endpoint", Drop("Name", 16),
             ("test_where_https_is_written_no_key_goes_over_plain_http",)),
    Breakage("a lakeFS connection that names http and https is taken",
             "airflow_dredge.operators.hooks.lakefs", "_endpoint", Put("If", "len", False),
             ("test_a_connection_that_says_two_things_is_refused_without_its_text",)),
    Breakage("dredge ui answers to the name of any site", "dredge.pages.web", "OwnNames",
             Put("If", 1, True), ("test_only_its_own_names_are_answered",)),
    Breakage("a local run that waits holds nobody back", "dredge.approve.step", "given_back",
             Drop("Expr", "keep_lease"),
             ("test_a_run_that_waits_holds_others_back_until_its_question_expires",)),
    Breakage("a run that cannot be resumed is approved", "dredge.commands.statements", "_approve",
             Drop("Expr", "check_resumable"), ("test_what_resume_would_refuse_cannot_be_approved",)),
)  # fmt: skip
