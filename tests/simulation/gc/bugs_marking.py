"""Known bugs of the collector's world: reading, comparing and guarding."""

from __future__ import annotations

from functools import partial

from tests.simulation.bug import KnownBug
from tests.simulation.gc.focusing import on
from tests.simulation.gc.settings import NO, YES

bug = partial(KnownBug, "gc")
_FEW = {"delete_keys": (1,), "at_once": (1,), "canary_branches": (0,)}
"""A sweep takes long, and no other check finds the bug by chance."""

BUGS = (
    bug("the cutoff is now", 1, "young", on("late_link")),
    bug(
        "an object of exactly the minimum age counts as old",
        0,
        "young",
        on("exactly_old", whole_seconds=(YES,)),
    ),
    bug(
        "clocks may differ",
        13,
        "clocks",
        on(
            "late_link",
            off=(400.0,),
            store_off=(1, -1),
            servers_off=(1, -1),
            workers_off=(0.0, -140.0, 140.0, 250.0),
        ),
    ),
    bug("namespaces may overlap", 1, "foreign", on("in_one_place")),
    bug("a repository nested in the data is passed over", 11, "foreign", on("in_one_place")),
    bug(
        "a shard of what lives is passed over though something is wanted in it",
        6,
        "live",
        on(
            "old_versions",
            shard_values=(4,),
            shared_live=(1,),
            at_once=(3,),
            canary_branches=(0,),
            listing_rows=(3,),
        ),
    ),
    bug(
        "a missing file of staged addresses is accepted",
        6,
        "live",
        on("pages_are_lost", canary_branches=(0,), read_kv=(NO,)),
        breaks=("a missing file of staged addresses is accepted", "L52: ends of branches are not looked at"),
    ),
    bug(
        "a scan of staging without proof is believed",
        5,
        "live",
        on("rows_are_lost", staged_questions=(2,), canary_branches=(0,)),
    ),
    bug(
        "a page without a file says that nothing was staged",
        2,
        "live",
        on("rows_are_lost", canary_branches=(0,)),
        breaks=(
            "a page without a file says that nothing was staged",
            "L52: ends of branches are not looked at",
        ),
    ),
    bug("what only the branches showed is dropped", 2, "live", on("rows_are_lost", canary_branches=(0,))),
    bug(
        "heads that branches had during the scan are forgotten",
        7,
        "live",
        on("hidden_then_not", canary_branches=(0,), rules=(None, 30)),
    ),
    bug(
        "metaranges written since the cutoff do not count",
        9,
        "live",
        on("carried_over", canary_branches=(0,), read_kv=(NO,), servers=(2, 3)),
    ),
    bug(
        "of the heads of the scan only the commits themselves count",
        0,
        "live",
        on("taken_from_behind", canary_branches=(0,), read_kv=(NO,)),
    ),
    bug(
        "staging that vanished is fine",
        4,
        "live",
        on("rows_are_lost", staged_plenty=(1,), canary_branches=(3,), first=(YES,)),
        breaks=(
            "staging that vanished is fine",
            "a scan of staging without proof is believed",
            "canaries are not looked for",
        ),
    ),
    bug(
        "a missing or damaged range names nothing",
        0,
        "live",
        on("table_is_missing", canary_branches=(0,), rules=(None, 30)),
    ),
    bug("an empty list of active commits is believed", 12, "live", on("dangling")),
    bug(
        "only the server walks over commits",
        2,
        "live",
        on("two_lines", active_walk_early_stop=(YES,), read_kv=(NO,)),
    ),
    bug(
        "young commits to which no ref leads keep nothing that the server's walk loses",
        2,
        "live",
        on("two_lines", active_walk_early_stop=(YES,), read_kv=(NO,)),
    ),
    bug(
        "tags keep nothing",
        0,
        "peace",
        on("kept_by_a_tag"),
        breaks=("tags keep nothing", "the re-check forgets tags of the time before its scan"),
    ),
    bug(
        "what earlier runs knew is not compared with what lives",
        1,
        "peace",
        on("committed_since", "again_and_again", rest=("optimized",)),
    ),
    bug("what earlier runs knew is old", 2, "young", on("known_and_young", read_kv=(YES,), mode=("clean",))),
    bug("identical content is garbage like any other", 2, "peace", on("the_same_again")),
    bug(
        "an object that cannot be looked at may go",
        0,
        "young",
        on("known_and_young", read_kv=(YES,), mode=("clean",)),
    ),
    bug("a question without an answer clears", 90, "live", on("no_answers")),
    bug("an address that lakeFS shows for another object is deleted", 0, ""),
    bug("a living object is ambiguous although its other name goes as well", 0, ""),
    bug(
        "canaries are not looked for",
        2,
        "live",
        on("the_same_again"),
        breaks=("canaries are not looked for", "identical content is garbage like any other"),
    ),
    bug("limits never await approval", 0, "approved", on("beyond_limits")),
    bug(
        "the guard order is not asked",
        76,
        "chain",
        on("begun_anew", **_FEW),
        breaks=("the guard order is not asked", "results need not belong together"),
    ),
    bug(
        "the guard staging_not_gone is not asked",
        4,
        "live",
        on("rows_are_lost", staged_plenty=(1,), canary_branches=(3,), first=(YES,)),
        breaks=(
            "the guard staging_not_gone is not asked",
            "a scan of staging without proof is believed",
            "canaries are not looked for",
        ),
    ),
    bug(
        "the guard namespaces_apart is not asked",
        0,
        "foreign",
        on("others_come"),
        breaks=(
            "the guard namespaces_apart is not asked",
            "a repository that shares the namespace by now is not noticed",
            "nobody looks at namespaces while workers delete",
        ),
    ),
    bug(
        "the guard lease_held is not asked",
        0,
        "lease",
        on("asleep_meanwhile", lease_seconds=(600.0,), by=("person",)),
        breaks=(
            "the guard lease_held is not asked",
            "the loss of the lease is ignored",
            "the guard lease_held is not asked, 2",
            "the guard lease_held is not asked, 3",
        ),
    ),
    bug("the guard no_other_collector is not asked", 4, "foreign", on("others_come")),
    bug(
        "the guard canaries_stay is not asked",
        2,
        "live",
        on("the_same_again"),
        breaks=(
            "the guard canaries_stay is not asked",
            "identical content is garbage like any other",
        ),
    ),
    bug("a guard that says no is not heard", 11, "foreign", on("in_one_place")),
    bug(
        "results may be read in any order",
        76,
        "chain",
        on("begun_anew", **_FEW),
        breaks=("results may be read in any order", "results need not belong together"),
    ),
    bug(
        "namespaces that overlap by now pass",
        0,
        "foreign",
        on("others_come"),
        breaks=(
            "namespaces that overlap by now pass",
            "a repository that shares the namespace by now is not noticed",
            "nobody looks at namespaces while workers delete",
        ),
    ),
    bug(
        "the guards do not ask for the lease",
        0,
        "lease",
        on("asleep_meanwhile", lease_seconds=(600.0,), by=("person",)),
        breaks=(
            "the guards do not ask for the lease",
            "the loss of the lease is ignored",
            "the guard lease_held is not asked, 2",
            "the guard lease_held is not asked, 3",
        ),
    ),
    bug("another collector's run is passed over", 4, "foreign", on("others_come")),
    bug("limits are not asked", 0, "approved", on("beyond_limits")),
    bug("the best verdict counts", 11, "foreign", on("in_one_place")),
    bug(
        "a run whose verdict is bad ends well",
        11,
        "foreign",
        on("in_one_place"),
        breaks=("a run whose verdict is bad ends well", "a sweep does not ask for the guards' verdict"),
    ),
    bug("an earlier run whose plan cannot be read is passed over", 0, ""),
    bug("only runs beside this one are earlier ones", 0, ""),
    bug("a proof about one hold lifts another", 0, ""),
    bug("a hold that may be lifted comes before others", 0, ""),
    bug("what is not among the cleared is cleared", 0, ""),
    bug(
        "without any verdict an object of equal size may go", 2, "peace", on("the_same_again", suspects=(0,))
    ),
    bug("what a branch reads is cleared", 3, "live", on("the_same_again")),
    bug(
        "a task that is still at work replaces what its repetition told",
        8,
        "figures",
        on("taken_back", twice=(0.3,)),
    ),
    bug(
        "a window covers what is too young to be listed",
        0,
        "garbage",
        on("young_and_named_no_more", rest=("optimized",), slice_names=(2,)),
    ),
    bug("what a run kept is forgotten", 0, "garbage", on("kept_by_the_sweep", rest=("optimized",))),
    bug(
        "young objects in slices that are done with are forgotten",
        0,
        "garbage",
        on("young_and_named_no_more", rest=("optimized",)),
    ),
    bug("dropped ranges still count", 0, "garbage", on("let_go", rest=("optimized",))),
    bug(
        "what new ranges name does not count",
        0,
        "peace",
        on("committed_since", rest=("optimized",), raggedness=(1,)),
    ),
    bug(
        "paths that another policy kept are not looked at again",
        0,
        "garbage",
        on("kept_by_a_policy", rest=("optimized",), first=(NO,), dry=(YES,)),
    ),
    bug("the state moves on from wherever it is", 0, "state", on("states_cross", rest=("optimized",))),
)
