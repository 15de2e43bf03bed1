"""Guards between workers that delete and the driver that looks: gate and watch, and the right that both hold."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put, Swap

GATES = (
    Breakage(
        "the loss of the lease is ignored",
        "dredge.runs.gate",
        "Gate.is_open",
        Drop("Expr", "check_held"),
        ("test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request",),
    ),
    Breakage(
        "a driver that says nothing is believed",
        "dredge.runs.gate",
        "Gate.is_open",
        Put("BoolOp", 2, False, "values.1"),
        ("test_when_nobody_looks_at_branches_any_more_workers_stop_by_themselves",),
    ),
    Breakage(
        "a look from the store's future is believed",
        "dredge.runs.gate",
        "Gate.is_open",
        Keep("Call", "abs", "args.0"),
        ("test_a_look_of_a_driver_that_died_before_the_stores_clock_was_set_back_opens_nothing",),
    ),
    Breakage(
        "a look counts for longer when the store's clock is set back",
        "dredge.runs.gate",
        "Gate._known_for",
        Drop("keyword", "seconds"),
        ("test_a_driver_that_died_is_silent_for_no_longer_when_the_stores_clock_is_set_back",),
    ),
    Breakage(
        "an overtaken try goes on",
        "dredge.runs.gate",
        "Gate.is_open",
        Drop("Expr", "result"),
        ("test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun",),
    ),
    Breakage(
        "a watch that cannot look leaves the gate open",
        "dredge.runs.gate",
        "Watch.look",
        Drop("Assign", 4),
        ("test_a_look_that_fails_closes_the_gate_also_without_a_word",),
    ),
    Breakage(
        "a watch that found something leaves the gate open",
        "dredge.runs.gate",
        "Watch.look",
        Put("BoolOp", 1, True, "values.0"),
        ("test_a_reason_to_stop_closes_the_gate",),
    ),
    Breakage(
        "a gate is not watched",
        "dredge.runs.gate",
        "Gate.is_open",
        Put("If", 2, False),
        ("test_no_group_is_sent_once_the_gate_is_closed",),
    ),
    Breakage(
        "a gate that the driver closed is open",
        "dredge.runs.gate",
        "Gate._seen_at",
        Put("If", 1, True),
        ("test_no_group_is_sent_once_the_gate_is_closed",),
    ),
    Breakage(
        "a worker that slept while it looked believes what it saw before",
        "dredge.runs.gate",
        "Gate.is_open",
        Drop("AugAssign", "store_now"),
        ("test_a_gate_is_closed_to_a_worker_that_slept_while_it_looked",),
    ),
    Breakage(
        "a driver that slept while it looked is believed",
        "dredge.runs.gate",
        "Watch.look",
        Swap("Assign", 2),
        ("test_a_look_is_as_old_as_its_beginning",),
    ),
    Breakage(
        "a worker asks for the time before it reads what the driver saw",
        "dredge.runs.gate",
        "Gate.is_open",
        Swap("With", 1, 2),
        ("test_a_worker_asks_for_the_time_after_it_has_read_what_the_driver_saw",),
    ),
    Breakage(
        "an earlier look that arrives last opens the gate again",
        "dredge.runs.gate",
        "Gate._seen_at",
        Put("BoolOp", 1, True, "values.1"),
        ("test_a_look_that_arrives_after_the_one_that_closed_the_gate_opens_nothing",),
    ),
    Breakage(
        "an earlier try shortens the right of a run that waits",
        "dredge.runs.lease",
        "Lease.renew",
        Put("Assign", "least", None),
        ("test_a_renewal_shortens_no_right_that_lives_longer_unless_it_is_to",),
    ),
    Breakage(
        "a gate that could not look lets through",
        "dredge.runs.gate",
        "Gate.lets_through",
        Drop("Assign", 2),
        ("test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request",),
    ),
    Breakage(
        "a gate that shut opens again",
        "dredge.runs.gate",
        "Gate.lets_through",
        Put("BoolOp", 1, False, "values.0"),
        ("test_a_gate_that_held_a_request_back_lets_no_later_one_through",),
    ),
)
