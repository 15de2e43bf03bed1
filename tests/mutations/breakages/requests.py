"""Guards of what a run was asked to do, and of what an administrator allows."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

REQUESTS = (
    Breakage(
        "a name in a conf that no Param has is ignored",
        "operators/run_check.py",
        "for name in sorted(conf.keys() - settings.keys() - _OF_AIRFLOW):",
        "for name in ():",
        ("test_a_name_that_no_param_has_stops_the_run_and_its_page_says_so",),
    ),
    Breakage(
        "a conf that changes no Param is ignored",
        "operators/run_check.py",
        "if settings[name].read(conf[name]) != values[name]:",
        "if False:",
        ("test_a_conf_that_changes_no_param_stops_the_run",),
    ),
    Breakage(
        "tasks are not checked",
        "operators/run_check.py",
        'return {**default_args, "pre_execute": RunCheck(tuple(form))}',
        "return {**default_args}",
        ("test_airflow_asks_for_the_check_and_nothing_is_read",),
    ),
    Breakage(
        "an unknown name in the settings of a repository is ignored",
        "operators/schedules.py",
        "for name in sorted(own.keys() - known.keys()):",
        "for name in ():",
        ("test_an_unknown_name_in_the_settings_of_one_repository_starts_no_run",),
    ),
    Breakage(
        "the policy is not asked",
        "operators/run_check.py",
        "    check_policy(form, values)\n",
        "",
        ("test_the_policy_holds_for_the_params_of_a_run",),
    ),
    Breakage(
        "an empty limit is within the policy",
        "operators/policy.py",
        "return value is not None and value <= limit",
        "return value is None or value <= limit",
        ("test_a_run_within_its_bounds_goes_on_and_any_other_is_refused",),
    ),
    Breakage(
        "an unsafe age goes below the policy",
        "operators/policy.py",
        "if name == replaced and values.get(replacing) is not None:",
        "if False:",
        ("test_an_unsafe_age_does_not_go_below_the_minimum_age",),
    ),
    Breakage(
        "a name in the policy that no Param has is ignored",
        "operators/policy.py",
        "if name not in known:",
        "if False:",
        ("test_a_policy_that_cannot_be_understood_stops_every_run",),
    ),
    Breakage(
        "a lakeFS connection of type https goes over plain http",
        "operators/hooks/lakefs.py",
        "for word in (before, kind, schema)}",
        "for word in (before, schema)}",
        ("test_where_https_is_written_no_key_goes_over_plain_http",),
    ),
    Breakage(
        "a lakeFS connection that names http and https is taken",
        "operators/hooks/lakefs.py",
        "if len(written) > 1:",
        "if False:",
        ("test_a_connection_that_says_two_things_is_refused_without_its_text",),
    ),
    Breakage(
        "dredge ui answers to the name of any site",
        "dredge/pages/hosts.py",
        'if scope["type"] not in ("http", "websocket") or self._is_own(scope):',
        "if True:",
        ("test_only_its_own_names_are_answered",),
    ),
    Breakage(
        "a local run that waits holds nobody back",
        "dredge/approve/waiting.py",
        "    except AwaitingApprovalError:\n        try:",
        "    except AwaitingApprovalError:\n        run.lease.release(run.plan.lease)\n        try:",
        ("test_a_run_that_waits_holds_others_back_until_its_question_expires",),
    ),
    Breakage(
        "a run that cannot be resumed is approved",
        "dredge/commands/answering.py",
        "        steps.check_resumable(run)  # nobody could go on with what is approved\n",
        "        pass\n",
        ("test_what_resume_would_refuse_cannot_be_approved",),
    ),
)
