"""Guards between the candidates and the sweep: comparing, guards on the run as a whole, and holds."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, HISTORIES, Breakage

COMPARED = (
    Breakage(
        "what earlier runs knew is not compared with what lives",
        f"{GC}/subtract/earlier_runs.py",
        "dead = pa.array(~live)",
        "dead = pa.array(live | True)",
        ("test_what_only_dropped_ranges_named_goes_and_what_others_name_too_stays", HISTORIES),
    ),
    Breakage(
        "what earlier runs knew is old",
        f"{GC}/subtract/store_lookup.py",
        "old = [info for info in there if info.last_modified < config.cutoff]",
        "old = there",
        (HISTORIES,),
    ),
    Breakage(
        "identical content is garbage like any other",
        f"{GC}/subtract/holds.py",
        "    return found\n",
        "    return found & False\n",
        ("test_trap_06_45_the_same_bytes_uploaded_again_stay",),
    ),
    Breakage(
        "an object that cannot be looked at may go",
        f"{GC}/subtract/holds.py",
        "np.full(rows.num_rows, evidence.undescribed)",
        "np.full(rows.num_rows, False)",
        ("test_an_object_that_the_store_will_not_describe_is_held_and_asked_for_again",),
    ),
    Breakage(
        "a question without an answer clears",
        f"{GC}/check_limits/identical.py",
        "rows = [row for row, found in answers.unanswered.items() if found == code]",
        "rows = list[int]()",
        ("test_without_an_answer_objects_of_that_size_are_held_and_the_run_goes_on",),
    ),
    Breakage(
        "a path that nobody can ask for clears",
        f"{GC}/check_limits/identical.py",
        "codes.NO_PATH: no_path}",
        "codes.NO_PATH: NONE}",
        ("test_a_path_that_is_not_utf8_holds_what_is_as_long_as_its_object",),
    ),
    Breakage(
        "canaries are not looked for",
        f"{GC}/check_limits/surroundings.py",
        "dead = canaries.among(check.run, living, check.doomed)",
        "dead = list(living[:0])",
        ("test_a_living_object_among_the_candidates_stops_the_run",),
    ),
    Breakage(
        "limits never await approval",
        "dredge/runs/limits.py",
        '"passed" if figure <= limit else "awaiting_approval"',
        '"passed"',
        ("test_a_limit_holds_the_run_and_nothing_is_deleted",),
    ),
)

GUARDS = (
    "proofs.listing_complete",
    "proofs.staging_complete",
    "proofs.order",
    "proofs.server_clock",
    "proofs.live_not_empty",
    "proofs.committed_not_empty",
    "staged.staging_not_gone",
    "proofs.nothing_nested",
    "surroundings.namespaces_apart",
    "surroundings.same_namespace",
    "surroundings.lease_held",
    "surroundings.no_other_collector",
    "surroundings.canaries_stay",
    "proofs.identical_content",
)
"""What `dredge.gc.check_limits.guards` lists, in its order."""

ASKED = (
    *(
        Breakage(
            f"the guard {name} is not asked",
            f"{GC}/check_limits/guards.py",
            f"    {name},\n",
            "",
            ("test_every_guard_is_asked_and_limits_follow",),
        )
        for name in GUARDS
    ),
    Breakage(
        "a guard that says no is not heard",
        f"{GC}/check_limits/check.py",
        '"passed" if holds else "refused"',
        '"passed"',
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "rows that are listed and not compared pass",
        f"{GC}/check_limits/proofs.py",
        "whole = rows == counted == check.candidates.counts",
        "whole = True or rows == counted == check.candidates.counts",
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "staged rows that were not copied pass",
        f"{GC}/check_limits/proofs.py",
        'copied >= counts["rows"] and counts["branches"] > 0',
        'counts["branches"] > 0',
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "a scan of staging without branches passes",
        f"{GC}/check_limits/proofs.py",
        'copied >= counts["rows"] and counts["branches"] > 0',
        'copied >= counts["rows"]',
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "results may be read in any order",
        f"{GC}/check_limits/proofs.py",
        'must("order", not wrong,',
        'must("order", True,',
        ("test_a_result_that_changed_after_it_was_read_refuses_the_run",),
    ),
    Breakage(
        "nothing live is fine",
        f"{GC}/check_limits/proofs.py",
        "live > 0 or (inside == 0 and staged_rows == 0)",
        "True",
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "commits without ranges are fine",
        f"{GC}/check_limits/proofs.py",
        "        not suspicious,",
        "        True,",
        ("test_figures_that_do_not_add_up_refuse_the_run",),
    ),
    Breakage(
        "the clock in the server's ids is not looked at",
        f"{GC}/clocks.py",
        'return Finding(rule, "refused", round(worst)',
        'return Finding(rule, "passed", round(worst)',
        ("test_the_clock_in_the_servers_own_ids_is_looked_at_as_well",),
    ),
    Breakage(
        "namespaces that overlap by now pass",
        f"{GC}/check_limits/surroundings.py",
        'Finding("namespaces_apart", "refused"',
        'Finding("namespaces_apart", "passed"',
        ("test_a_repository_that_came_into_the_namespace_meanwhile_refuses_the_run",),
    ),
    Breakage(
        "a repository may have moved since the plan",
        f"{GC}/check_limits/surroundings.py",
        "same = check.namespaces.get(plan.repository) == plan.namespace",
        "same = True",
        ("test_a_repository_that_was_made_anew_elsewhere_refuses_the_run",),
    ),
    Breakage(
        "the guards do not ask for the lease",
        f"{GC}/check_limits/surroundings.py",
        'Finding("lease_held", "refused"',
        'Finding("lease_held", "passed"',
        ("test_a_lease_that_somebody_else_took_refuses_the_run",),
    ),
    Breakage(
        "another collector's run is passed over",
        f"{GC}/check_limits/surroundings.py",
        "not foreign, len(foreign)",
        "True, len(foreign)",
        ("test_another_collectors_run_in_the_same_place_stops_this_one",),
    ),
    Breakage(
        "limits are not asked",
        f"{GC}/check_limits/step.py",
        "findings.extend(_limits(check, objects, size_bytes))",
        "_limits(check, objects, size_bytes)",
        ("test_an_exceeded_limit_awaits_approval",),
    ),
    Breakage(
        "the best verdict counts",
        "dredge/runs/limits.py",
        "return max((finding.verdict",
        "return min((finding.verdict",
        ("test_the_worst_verdict_counts",),
    ),
    Breakage(
        "a run whose verdict is bad ends well",
        f"{GC}/check_limits/step.py",
        '    if verdict == "passed":\n        return\n',
        "    return\n",
        ("test_an_exceeded_limit_refuses_a_run_that_may_ask_nobody",),
    ),
)

HOLDS = (
    Breakage(
        "a hold that nobody knows holds nothing",
        f"{GC}/check_limits/holds.py",
        'found = pa.concat_arrays(rows["hold"].chunks)',
        'found = pa.array([why_of_hold(str(hold)) and hold for hold in rows["hold"].to_pylist()], pa.string())',
        ("test_sweep_deletes_what_nothing_holds_and_keeps_what_any_code_holds",),
    ),
    Breakage(
        "a proof about one hold lifts another",
        f"{GC}/check_limits/holds.py",
        "same_size = pc.fill_null(pc.equal(found, SAME_SIZE), False)",
        "same_size = pc.is_valid(found)",
        ("test_a_proof_lifts_the_hold_for_an_equal_size_and_no_other",),
    ),
    Breakage(
        "a hold that may be lifted comes before others",
        f"{GC}/subtract/holds.py",
        "sorted(HOLDS, key=lambda hold: hold.may_be_lifted)",
        "sorted(HOLDS, key=lambda hold: not hold.may_be_lifted)",
        ("test_of_several_holds_the_first_counts_and_one_that_may_be_lifted_the_last",),
    ),
    Breakage(
        "what is not among the cleared is cleared",
        f"{GC}/check_limits/holds.py",
        "return pc.if_else(cleared, found, pc.coalesce(found, codes.TOO_MANY))",
        "return found",
        ("test_without_a_whole_proof_an_object_of_equal_size_stays",),
    ),
    Breakage(
        "a size that nobody looked into is settled",
        f"{GC}/check_limits/verdicts.py",
        "(self.sizes[place] == sizes) & ",
        "",
        ("test_without_a_whole_proof_an_object_of_equal_size_stays",),
    ),
    Breakage(
        "a verdict that nobody knows clears",
        f"{GC}/check_limits/verdicts.py",
        "& (indices >= _FREE) & (indices < len(_CODES))",
        "& True\n            indices = np.where((indices >= _FREE) & (indices < len(_CODES)), indices, _FREE)",
        ("test_without_a_whole_proof_an_object_of_equal_size_stays",),
    ),
    Breakage(
        "without any verdict an object of equal size may go",
        f"{GC}/check_limits/verdicts.py",
        "found = np.full(rows.num_rows, codes.TOO_MANY, object)",
        "found = np.full(rows.num_rows, None, object)",
        ("test_without_a_whole_proof_an_object_of_equal_size_stays",),
    ),
    Breakage(
        "what a branch reads is cleared",
        f"{GC}/check_limits/verdicts.py",
        'found[contains(self.served, rows["hash"].to_numpy())] = codes.SERVED',
        "pass",
        ("test_without_a_whole_proof_an_object_of_equal_size_stays",),
    ),
    Breakage(
        "a damaged proof is accepted",
        "dredge/runs/folder.py",
        '        check_digest(part, data, f"run {self.run_id}")',
        "        pass",
        ("test_sweep_deletes_nothing_when_a_proof_is_damaged",),
    ),
    Breakage(
        "holds may be other ones than were counted",
        f"{GC}/check_limits/tally.py",
        'if tally.rows_with_hold != candidates.counts["held_objects"]:',
        "if False:",
        ("test_other_holds_than_subtract_counted_stop_the_run",),
    ),
)
