"""For each bug what the histories that hunt it have more often: see `Focus`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.focus import Focus
from tests.simulation.gc.settings import ALL_SETTINGS, CHEAP, NO, YES

OWN_RUNS = frozenset(
    {
        "asked_first",
        "taken_back",
        "beyond_limits",
        "answered_early",
        "made_final",
        "asked_anew",
        "asked_late",
        "changed_while_asked",
        "told_no",
        "back_in_a_slice",
        "copies_fail",
        "copy_is_damaged",
        "deleted_late",
        "not_all_deleted",
        "pinned_between",
        "something_is_there",
        "weeks_later",
        "written_over",
        "back_a_day_late",
    }
)
"""Scenes with a run of their own, which finds nothing where another one has deleted all that there is."""


def _on(*scenes: str, **settings: Any) -> Focus:
    """Scenes, some values of the setting (`_` stands for a space), and else what takes least time."""
    named = {
        name if name in ALL_SETTINGS else name.replace("_", " "): value for name, value in settings.items()
    }
    looks = {"dry": (YES,)} if OWN_RUNS.issuperset(scenes) else {}
    return Focus(scenes, {**CHEAP, **looks, **named})


_MULTI = {"flush_rows": (1,), "file_bytes": (1, 400)}
"""Pages of a scan have a file each, with few rows."""
_LOSSY = {"rows_lost_on_branch_delete": (YES,), "haste": (0.05,)}
_FEW = {"delete_keys": (1,), "at_once": (1,), "canary_branches": (0,)}
"""A sweep takes long, and no look by chance notices what it must notice by itself."""
FOCUS: Mapping[str, Focus] = {
    # what a review found
    "A1, A2: content is told by checksum": _on("the_same_again", "claimed"),
    "A3: branch names before and after prove a scan": _on("rows_are_lost", canary_branches=(0,)),
    "A4: a 404 is a 404, whoever sends it": _on("not_there"),
    "A5: an orphaned earlier try writes the result": _on("beside_its_retry", delete_keys=(1,)),
    "A6: the minimum age is the time for linking": _on("late_link", off=(140.0,)),
    "B7: without its index a run ends with a KeyError": _on("index_is_lost"),
    "B9: clocks of workers prove the order": _on("orphan", workers_off=(-140.0, 250.0)),
    # what servers do
    "L2: no rules means that nothing is committed": _on("much_is_staged", rules=(None,)),
    "L3: only the last page's files count": _on("much_is_staged", canary_branches=(0,), **_MULTI),
    "L4: a page without a file says that nothing was staged, and ends of branches are not looked at": _on(
        "rows_are_lost", canary_branches=(0,)
    ),
    "L22: hidden branches are passed over": _on("only_hidden"),
    "L42: a 404 for a full commit id is believed": _on("up_again_though_poisoned"),
    "L54: what a cache has kept is an answer": _on("kept_by_a_cache"),
    "L55: servers' clocks are not compared": _on("clocks_apart"),
    # ages and places
    "the cutoff is now": _on("late_link"),
    "an object of exactly the minimum age counts as old": _on("exactly_old", whole_seconds=(YES,)),
    "clocks may differ": _on(
        "late_link",
        off=(400.0,),
        store_off=(1, -1),
        servers_off=(1, -1),
        workers_off=(0.0, -140.0, 140.0, 250.0),
    ),
    "namespaces may overlap": _on("in_one_place"),
    "a repository nested in the data is passed over": _on("in_one_place"),
    "a guard that says no is not heard": _on("in_one_place"),
    "the best verdict counts": _on("in_one_place"),
    "what only the branches showed is dropped": _on("rows_are_lost", canary_branches=(0,)),
    "a missing or damaged range names nothing": _on(
        "table_is_missing", canary_branches=(0,), rules=(None, 30)
    ),
    "tags keep nothing": _on("kept_by_a_tag"),
    "what earlier runs knew is not compared with what lives": _on(
        "committed_since", "again_and_again", rest=("optimized",)
    ),
    "identical content is garbage like any other": _on("the_same_again"),
    "limits never await approval": _on("beyond_limits"),
    "limits are not asked": _on("beyond_limits"),
    "a dry run deletes": _on("only_looked"),
    "an old mark is swept": _on("after_a_while"),
    "the oldest mark may be older": _on("after_a_while"),
    "results need not belong together": _on("begun_anew", **_FEW),
    "what the re-check found alive is deleted": _on("staged_after_the_mark", "up_again_after_the_mark"),
    "the re-check drops what is staged": _on("staged_after_the_mark"),
    "the re-check reads no new commits": _on("up_again_after_the_mark"),
    "the re-check forgets heads of the time of its scan": _on(
        "taken_from_behind", canary_branches=(0,), read_kv=(NO,)
    ),
    "the sweep ignores the column of holds": _on("the_same_again"),
    "what a branch reads is cleared": _on("the_same_again"),
    "without any verdict an object of equal size may go": _on("the_same_again", suspects=(0,)),
    "a sweep long after its guards does not ask branches again": _on("alike_later"),
    "a sweep long after its guards does not look at new entries of heads": _on("alike_later"),
    "a run beyond its limits asks nobody": _on("beyond_limits"),
    "a run that must always ask asks nobody": _on("asked_first"),
    "a run that may ask nobody passes its limits": _on("beyond_limits"),
    "the sweep of a run that exceeds its limits and asked nobody begins": _on("beyond_limits"),
    "the sweep asks for no approval before it begins": _on("asked_first", "answered_early"),
    "a round of deleting begins without a look at the approval": _on(
        "told_no", delete_keys=(1,), at_once=(1,)
    ),
    "nobody looks for a no while objects are deleted": _on("told_no", delete_keys=(1,), at_once=(1,)),
    "a yes wins against a no": _on("told_no"),
    "the step takes a yes although somebody said no": _on("told_no", "asked_late"),
    "a no counts for one question only": _on("asked_anew"),
    "an approval never expires": _on("asked_anew"),
    "an approval outlives the mark": _on("asked_anew"),
    "a run may be approved at any time": _on("asked_late"),
    "an object goes before it was copied": _on("taken_back"),
    "the comparison does not know what is pinned": _on("taken_back"),
    "the sweep does not look for pins again": _on("pinned_between"),
    "what comes back is not pinned": _on("taken_back"),
    "a dry run of a purge deletes": _on("made_final"),
    "a purge lets go what is pinned": _on("made_final"),
    "a purge lets young copies go": _on("deleted_late"),
    "a purge lets young versions go": _on("deleted_late", versioned=(YES,)),
    "the folder of a run goes with the copies in it": _on("weeks_later"),
    "copies of what was deleted are taken for own files": _on("weeks_later"),
    "a sweep does not ask for the guards' verdict": _on("in_one_place"),
    "a run whose verdict is bad ends well": _on("in_one_place"),
    "B8: an object that cannot be looked at ends the run": _on("known_and_young", rest=("optimized",)),
    "L23: of staging records only the current token's are read": _on("long_commit", read_kv=(YES,)),
    "L37: what a store did not confirm is deleted": _on("some_stay"),
    "L52: ends of branches are not looked at": _on("rows_are_lost", canary_branches=(0,)),
    "a missing file of staged addresses is accepted": _on(
        "pages_are_lost", canary_branches=(0,), read_kv=(NO,)
    ),
    "a page without a file says that nothing was staged": _on("rows_are_lost", canary_branches=(0,)),
    "a scan of staging without proof is believed": _on(
        "rows_are_lost", staged_questions=(2,), canary_branches=(0,)
    ),
    "heads that branches had during the scan are forgotten": _on(
        "hidden_then_not", canary_branches=(0,), rules=(None, 30)
    ),
    "what a commit wrote while staging was read counts only where a branch leads to it": _on(
        "carried_over", canary_branches=(0,), read_kv=(NO,), servers=(2, 3)
    ),
    "the re-check reads no ranges that only a commit left behind has": _on(
        "carried_over", canary_branches=(0,), read_kv=(NO,), servers=(2, 3)
    ),
    "the re-check forgets tags of the time before its scan": _on(
        "taken_from_a_tag", canary_branches=(0,), read_kv=(NO,), servers=(2, 3)
    ),
    "of the heads of the scan only the commits themselves count": _on(
        "taken_from_behind", canary_branches=(0,), read_kv=(NO,)
    ),
    "staging that vanished is fine": _on(
        "rows_are_lost", staged_plenty=(1,), canary_branches=(3,), first=(YES,)
    ),
    "the guard staged.staging_not_gone is not asked": _on(
        "rows_are_lost", staged_plenty=(1,), canary_branches=(3,), first=(YES,)
    ),
    "a shard of what lives is passed over though something is wanted in it": _on(
        "old_versions",
        shard_values=(4,),
        shared_live=(1,),
        at_once=(3,),
        canary_branches=(0,),
        listing_rows=(3,),
    ),
    "an empty list of active commits is believed": _on("dangling"),
    "young commits to which no ref leads keep nothing that the server's walk loses": _on(
        "two_lines", active_walk_early_stop=(YES,), read_kv=(NO,)
    ),
    "only the server walks over commits": _on("two_lines", active_walk_early_stop=(YES,), read_kv=(NO,)),
    "what earlier runs knew is old": _on("known_and_young", read_kv=(YES,), mode=("clean",)),
    "an object that cannot be looked at may go": _on("known_and_young", read_kv=(YES,), mode=("clean",)),
    "a question without an answer clears": _on("no_answers"),
    "what is not among the cleared is cleared": _on("long_commit", read_kv=(NO,), suspects=(5_000_000,)),
    "canaries are not looked for": _on("the_same_again"),
    "the guard surroundings.canaries_stay is not asked": _on("the_same_again"),
    "the guard proofs.order is not asked": _on("begun_anew", **_FEW),
    "results may be read in any order": _on("begun_anew", **_FEW),
    "the guard proofs.server_clock is not asked": _on("clocks_jump"),
    "the clock in the server's ids is not looked at": _on("clocks_jump"),
    "the guard surroundings.namespaces_apart is not asked": _on("others_come"),
    "namespaces that overlap by now pass": _on("others_come"),
    "nobody looks at namespaces while workers delete": _on("others_come", delete_keys=(1,), at_once=(1,)),
    "a repository that shares the namespace by now is not noticed": _on("others_come"),
    "the guard surroundings.no_other_collector is not asked": _on("others_come"),
    "another collector's run is passed over": _on("others_come"),
    "the guard surroundings.lease_held is not asked": _on(
        "asleep_meanwhile", lease_seconds=(600.0,), by=("person",)
    ),
    "the guards do not ask for the lease": _on("asleep_meanwhile", lease_seconds=(600.0,), by=("person",)),
    "the loss of the lease is ignored": _on(
        "lease_runs_out", lease_seconds=(600.0,), delete_keys=(1,), at_once=(1,)
    ),
    "an overtaken try goes on": _on("beside_its_retry", delete_keys=(1,)),
    "a sweep in a Spark application that lives on goes on": _on("beside_its_retry", delete_keys=(1,)),
    "a sweep that was overtaken opens its gate": _on("done_again"),
    "a sweep takes back the lease that its run gave back": _on("given_up", by=("dag",)),
    "a lease is taken while another holds it": _on("overtaken"),
    "a lower number is handed over": _on("handed_over"),
    "another holder's run is taken over": _on("overtaken"),
    "a lease is handed over whoever wrote meanwhile": _on("handed_over"),
    "a run is resumed unconditionally": _on("handed_over"),
    "an older report replaces a later one": _on("reported_twice"),
    "a task that is still at work replaces what its repetition told": _on("taken_back", twice=(0.3,)),
    "what left staging may go at once": _on("long_commit", read_kv=(NO,)),
    "what left staging may go as soon as one mark did not show it": _on("long_commit", read_kv=(NO,)),
    "what tells that something left staging is removed": _on("long_commit", read_kv=(NO,), dry=(YES,)),
    "what a mark saw staged is forgotten when another try of it is begun": _on("marked_anew", read_kv=(NO,)),
    "what an earlier try of a mark saw staged is forgotten": _on("marked_anew", read_kv=(NO,)),
    "a mark that cannot be read saw nothing": _on("long_commit", read_kv=(NO,)),
    "a run whose plan cannot be read saw nothing": _on("long_commit", read_kv=(NO,)),
    "only runs beside this one saw anything": _on("seen_elsewhere", read_kv=(NO,), dry=(YES,)),
    "a proof about one hold lifts another": _on("long_commit", read_kv=(NO,), suspects=(5_000_000,)),
    "a hold that may be lifted comes before others": _on("long_commit", read_kv=(NO,)),
    "a window covers what is too young to be listed": _on(
        "young_and_named_no_more", rest=("optimized",), slice_names=(2,)
    ),
    "what a run kept is forgotten": _on("kept_by_the_sweep", rest=("optimized",)),
    "young objects in slices that are done with are forgotten": _on(
        "young_and_named_no_more", rest=("optimized",)
    ),
    "dropped ranges still count": _on("let_go", rest=("optimized",)),
    "what new ranges name does not count": _on("committed_since", rest=("optimized",), raggedness=(1,)),
    "paths that another policy kept are not looked at again": _on(
        "kept_by_a_policy", rest=("optimized",), first=(NO,), dry=(YES,)
    ),
    "the state moves on from wherever it is": _on("states_cross", rest=("optimized",)),
    "what the mark read in the records answers for what is staged since": _on("copy_is_read", read_kv=(YES,)),
    "the re-check reads commits before staging": _on(
        "left_behind", canary_branches=(0,), read_kv=(NO,), servers=(2, 3), raggedness=(1,)
    ),
    "the re-check keeps no new paths": _on("kept_by_a_policy", dry=(YES,)),
    "a sweep right after its guards does not ask branches again": _on("alike_at_once", read_kv=(NO,)),
    "a sweep asks branches again only by entries that heads had before": _on("alike_at_once", read_kv=(NO,)),
    "verdicts are skipped": _on("alike_later"),
    "an object uploaded in parts goes though somebody may be about to stage it": _on(
        "parts_settle", "late_parts"
    ),
    "an object uploaded in parts counts as known however short ago the run before found it": _on(
        "parts_settle"
    ),
    "an object in parts counts as known though another one lay under its name": _on(
        "parts_take_a_place", slice_margin=(51.0,)
    ),
    "an object in parts settles although branches were asked about it before its server had staged it": _on(
        "parts_after_the_questions", read_kv=(NO,)
    ),
    "the time of the re-check itself lets an object in parts settle": _on(
        "parts_during_the_re_check", read_kv=(NO,)
    ),
    "a branch that moves is not noticed": _on("heads_move", delete_keys=(1,), at_once=(1,), pace=(2.0,)),
    "a driver that says nothing is believed": _on("driver_is_silent", delete_keys=(1,)),
    "a look at heads that fails finds nothing": _on(
        "nobody_looks", delete_keys=(1,), at_once=(1,), pace=(0.02, 0.2)
    ),
    "a watch that cannot look leaves the gate open": _on(
        "nobody_looks", delete_keys=(1,), at_once=(1,), pace=(0.02, 0.2)
    ),
    "a watch that found something leaves the gate open": _on(
        "heads_move", delete_keys=(1,), at_once=(1,), pace=(2.0,)
    ),
    "a gate is not watched": _on("heads_move", delete_keys=(1,), at_once=(1,), pace=(2.0,)),
    "a gate that the driver closed is open": _on("heads_move", delete_keys=(1,), at_once=(1,), pace=(2.0,)),
    "a gate that nobody has opened yet is open": _on(
        "nobody_looks", delete_keys=(1,), at_once=(1,), pace=(0.02, 0.2)
    ),
    "a gate that could not look lets through": _on(
        "lost_meanwhile", delete_keys=(1,), lease_seconds=(600.0,), by=("person",)
    ),
    "a worker that slept while it looked believes what it saw before": _on(
        "worker_sleeps", delete_keys=(1,), at_once=(1,), pace=(2.0,)
    ),
    "a driver that slept while it looked is believed": _on(
        "both_sleep", delete_keys=(1,), at_once=(1,), pace=(0.02, 0.2)
    ),
    "an earlier look that arrives last opens the gate again": _on(
        "look_arrives_last", delete_keys=(1,), at_once=(1,), pace=(0.02, 0.2)
    ),
    "an earlier try shortens the right of a run that waits": _on("woken_while_asked"),
    "a gate that shut opens again": _on("copies_fail"),
    "a result may be made from another result": _on("begun_anew", **_FEW),
    "a dry run may count for other results than it guarded": _on("begun_anew", dry=(YES,)),
    "a round of deleting does not look at the chain again": _on("claimed_late"),
    "a question that was changed before its answer counts": _on("asked_first"),
    "an answer from the future counts for longer": _on("asked_first"),
    "a yes counts for whatever the run asks by now": _on("changed_while_asked"),
    "the sweep takes the word of the step that asked": _on("answered_early", "asked_first"),
    "an answer to something else counts": _on("beyond_limits"),
    "candidates that were made anew need no new answer": _on("asked_anew"),
    "a run is waited for longer than its mark may be swept": _on("asked_first"),
    "the second answer replaces the first": _on("asked_late"),
    "a waiting run loses its repository": _on("asked_late", lease_seconds=(600.0,)),
    "a local run goes on from a state that has moved on": _on("asked_late"),
    "an object goes though its copy could not be made": _on("copies_fail"),
    "an object goes though it is not as it was listed": _on("taken_back"),
    "a restore copies over what was put there since it looked": _on("something_is_there"),
    "pins that hold go with old files": _on("weeks_later"),
    "a restore puts a damaged copy under the key": _on("copy_is_damaged"),
    "what lies outside the data is restored and purged": _on("taken_back"),
    "a restore does not look what is there": _on("something_is_there", versioned=(YES,)),
    "a restore brings another object back than the run deleted": _on("something_is_there", versioned=(YES,)),
    "versions are taken for delete markers": _on("taken_back", versioned=(YES,)),
    "a current version goes for good": _on("made_final", versioned=(YES,)),
    "a purge lets go what the ledger does not call deleted": _on("not_all_deleted"),
    "a purge lets versions of other objects go": _on("written_over", versioned=(YES,)),
    "a purge brings an older version back": _on("written_over", versioned=(YES,)),
    "a purge brings back what it could not delete": _on("written_over", versioned=(YES,)),
    "what came back into slices that runs are done with is not looked for": _on(
        "back_in_a_slice", rest=("optimized",), slice_margin=(51.0,)
    ),
    "slices that objects came back into are listed once, however young those are": _on(
        "back_in_a_slice", rest=("optimized",), slice_margin=(51.0,)
    ),
    "a restore that died counts as finished": _on(
        "back_a_day_late", rest=("optimized",), slice_margin=(51.0,)
    ),
    "a pin goes before a run has seen what came back": _on("taken_back", rest=("optimized",)),
    "the folder of a purge goes whoever it is of": _on("made_final"),
}
"""By name of the bug."""
