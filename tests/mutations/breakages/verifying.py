"""Guards of the look at the store after a sweep."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

VERIFY = (
    Breakage(
        "only the first of what a listing shows of some names counts",
        "dredge/storage/neighbours.py",
        "        first = stop\n",
        "        first = len(names)\n",
        (
            "test_answers_do_not_depend_on_how_they_were_got",
            "test_a_run_that_spans_many_answers_is_looked_for_to_its_end",
        ),
    ),
    Breakage(
        "a living object in the ledger is passed over",
        f"{GC}/verify/step.py",
        "ours = [canary for canary in missing if canary.address in in_ledger]",
        "ours = list[Canary]()",
        ("test_a_living_object_in_the_ledger_is_noticed_however_few_looks_are_made",),
    ),
    Breakage(
        "living objects are compared with the store by chance only",
        f"{GC}/verify/living.py",
        "found = [canary for canary in living if canary.address in doubtful]",
        "found = list[Canary]()",
        ("test_a_living_object_in_the_ledger_is_noticed_however_few_looks_are_made",),
    ),
    Breakage(
        "a living object that a page of a listing lacks counts as seen",
        f"{GC}/verify/deleted.py",
        "alive & there, alive - there)",
        "alive, set())",
        ("test_a_living_object_that_no_page_shows_after_the_sweep_is_a_warning",),
    ),
    Breakage(
        "a step begins under a right that somebody else has taken",
        "dredge/runs/lease.py",
        "stands = held is not None and (held.holder, held.fencing) == (grant.holder, grant.fencing)",
        "stands = held is not None",
        ("test_a_step_holds_no_right_that_somebody_took_and_takes_back_one_that_was_given_back",),
    ),
    Breakage(
        "an answer that was not clear is not looked into",
        f"{GC}/verify/deleted.py",
        'unclear = pc.is_valid(gone["message"])',
        'unclear = pc.is_null(gone["address"])',
        ("test_an_object_whose_first_answer_was_not_clear_is_always_looked_for",),
    ),
    Breakage(
        "what was reported deleted may still be there",
        f"{GC}/verify/step.py",
        'if record.counts["still_there_objects"]:',
        "if False:",
        ("test_what_was_reported_deleted_and_is_still_there_is_an_error",),
    ),
)
