"""Guards of approvals of Icechunk collections: the sweep looks for itself, and nobody approves what may be alive."""

from __future__ import annotations

from tests.mutations.breakages.breakage import ICE, Breakage

SWEEP = f"{ICE}/bulk_delete/step.py"

APPROVED_ICECHUNK = (
    Breakage(
        "what may be a true chunk of Icechunk can be approved",
        f"{ICE}/check_limits/absent.py",
        'Finding(rule, "refused", count',
        'Finding(rule, "awaiting_approval", count',
        ("test_nobody_can_approve_what_may_be_a_true_object",),
    ),
    Breakage(
        "the sweep of Icechunk asks for no approval",
        SWEEP,
        "*approval_inputs(run.plan, run.folder, ApproveOutput),",
        "",
        ("test_nothing_goes_before_a_yes_and_then_the_garbage_and_nothing_else",),
    ),
    Breakage(
        "a round of deleting of Icechunk begins without a look at the approval",
        SWEEP,
        "veto = approval_of(run, record, ApproveOutput)",
        'veto = lambda: ""',
        ("test_a_no_during_the_second_look_comes_in_time",),
    ),
    Breakage(
        "nobody looks for a no while objects of Icechunk are deleted",
        SWEEP,
        "lambda: veto() or find_use(",
        "lambda: find_use(",
        ("test_a_no_stops_a_sweep_that_has_begun",),
    ),
    Breakage(
        "an approval of Icechunk is one to any candidates",
        f"{ICE}/approve/output.py",
        "GUARDS, CANDIDATES = CheckLimitsOutput, ListCandidatesOutput",
        "GUARDS, CANDIDATES = CheckLimitsOutput, CheckLimitsOutput",
        ("test_the_question_names_the_candidates_that_were_listed",),
    ),
    Breakage(
        "a run of Icechunk that may ask nobody passes its limits",
        f"{ICE}/check_limits/step.py",
        "if is_limit and config.approval != NEVER and not config.dry_run:",
        "if is_limit and not config.dry_run:",
        ("test_beyond_its_limits_a_run_that_may_ask_nobody_fails",),
    ),
    Breakage(
        "the library deletes what somebody has to see first",
        f"{ICE}/by_library.py",
        "if config.approval == ALWAYS and not config.dry_run:",
        "if False:",
        ("test_the_library_deletes_nothing_that_somebody_has_to_see_first",),
    ),
    Breakage(
        "the state of an approved run of Icechunk is made from another chain than its sweep",
        f"{ICE}/state/advance.py",
        "*StateOutput.INPUTS, *approved]",
        "*StateOutput.INPUTS]",
        ("test_nothing_goes_before_a_yes_and_then_the_garbage_and_nothing_else",),
    ),
)
