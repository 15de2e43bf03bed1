"""Guards of what is read: places and ages, staging, commits, and what earlier runs knew."""

from __future__ import annotations

from tests.mutations.breakages.breakage import HISTORIES, Breakage
from tests.mutations.edits import Always, Drop, Keep, Put, Rename

AGE_AND_PLACE = (
    Breakage(
        "the cutoff is now",
        "dredge.gc.planning",
        "cutoff",
        Keep("BinOp", 2, "left"),
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "an object of exactly the minimum age counts as old",
        "dredge.gc.slice_listing.items",
        "sort_by_age",
        Rename("Call", "less", "less_equal"),
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "objects without a time pass",
        "dredge.gc.slice_listing.items",
        "check_times",
        Put("If", "as_py", False),
        ("test_an_object_without_a_time_stops_the_run",),
    ),
    Breakage(
        "clocks may differ",
        "dredge.runs.clock",
        "check_clocks",
        Put("If", "abs", False),
        ("test_clocks_that_differ_stop_the_run",),
    ),
    Breakage(
        "namespaces may overlap",
        "dredge.gc.namespaces",
        "check_namespaces",
        Put("If", "own", False),
        ("test_trap_16_two_repositories_on_one_namespace_stop_the_run",),
    ),
    Breakage(
        "a namespace that ends with several slashes is collected",
        "dredge.gc.namespaces",
        "check_namespaces",
        Put("If", "endswith", False),
        ("test_a_namespace_that_ends_with_several_slashes_is_not_collected",),
    ),
    Breakage(
        "slashes before a path make another place",
        "dredge.storage.schemes",
        "served_parts",
        Keep("Call", "lstrip", "func.value"),
        ("test_trap_15_16_39_namespaces_are_compared_as_places", "test_a_namespace_that_begins_with_a_slash"),
    ),
    Breakage(
        "a slash at the end of a key that is decoded is always cut off",
        "dredge.lakefs.files.addresses",
        "_full_readings",
        Put("Assign", "kept", []),
        ("test_what_a_full_address_may_mean_is_all_named_the_servers_reading_first",),
    ),
    Breakage(
        "a repository among the data of another one is collected",
        "dredge.gc.namespaces",
        "_lies_among_files",
        Put("IfExp", 1, True),
        ("test_trap_15_a_repository_among_the_files_of_one_on_the_root_is_refused",),
    ),
    Breakage(
        "a repository nested in the data is passed over",
        "dredge.gc.subtract.step",
        "_config",
        Drop("keyword", "nested"),
        (
            "test_trap_15_what_a_deleted_nested_repository_left_is_kept_and_the_rest_is_collected",
            "test_trap_15_a_nested_repository_of_another_server_is_kept_by_its_files",
        ),
    ),
    Breakage(
        "an object outside data/ may be a candidate",
        "dredge.gc.subtract.candidates",
        "_check",
        Put("If", "as_py", False),
        ("test_an_object_outside_data_is_no_candidate",),
    ),
    Breakage(
        "a row with the hash of another address may be a candidate",
        "dredge.gc.subtract.candidates",
        "_check",
        Put("If", "array_equal", False),
        ("test_a_row_whose_hash_is_another_addresss_is_no_candidate",),
    ),
    Breakage(
        "hashes of a shard that were not compared are not missed",
        "dredge.gc.subtract.step",
        "find_dead",
        Put("If", "compared", False),
        ("test_what_no_task_compared_stops_the_run",),
    ),
    Breakage(
        "rows that were not cut into shards are not missed",
        "dredge.gc.subtract.step",
        "_cut",
        Put("If", "cut", False),
        ("test_what_no_task_compared_stops_the_run",),
    ),
    Breakage(
        "a shard of what lives is passed over though something is wanted in it",
        "dredge.sets.live",
        "_any_in",
        Always(False),
        ("test_both_ways_find_the_same",),
    ),
    Breakage(
        "rows that were not compared are not missed",
        "dredge.gc.subtract.step",
        "_compare",
        Put("If", "compared", False),
        ("test_rows_that_no_task_compared_stop_the_run",),
    ),
)

STAGED = (
    Breakage(
        "a missing file of staged addresses is accepted",
        "dredge.gc.mark_uncommitted.staged",
        "_file_keys",
        Put("If", "len", False),
        ("test_a_page_whose_file_is_missing_stops_the_run",),
    ),
    Breakage(
        "a scan of staging without proof is believed",
        "dredge.gc.mark_uncommitted.staging",
        "_scan_until_proved",
        Put("If", "missing", True),
        ("test_where_no_scan_can_be_proved_nothing_is_deleted",),
    ),
    Breakage(
        "a page without a file says that nothing was staged",
        "dredge.gc.mark_uncommitted.staged",
        "_note_page",
        Drop("Expr", 3),
        ("test_pages_without_location_and_ends_of_branches_are_two_guards",),
    ),
    Breakage(
        "what only the branches showed is dropped",
        "dredge.gc.mark_uncommitted.staging",
        "_add_proof",
        Put("If", "addresses", False),
        ("test_sweep_keeps_staged_objects_while_branches_come_and_go_within_each_page",),
    ),
    Breakage(
        "heads that branches had during the scan are forgotten",
        "dredge.gc.mark_uncommitted.staged",
        "write_heads",
        Put("Assign", "rows", []),
        ("test_a_copy_that_was_hidden_by_a_head_of_the_time_of_the_scan_stays",),
    ),
    Breakage(
        "of the heads of the scan only the commits themselves count",
        "dredge.gc.list_committed.active",
        "_kept_by",
        Put("Assign", "found", set()),
        ("test_what_an_old_commit_carries_whose_branch_is_reset_during_each_scan_stays",),
    ),
    Breakage(
        "staging that vanished is fine",
        "dredge.gc.check_limits.guards",
        "staging_not_gone",
        Put("If", 1, True),
        ("test_staging_that_vanished_since_the_last_run_stops_the_run",),
    ),
)

COMMITTED = (
    Breakage(
        "a missing or damaged range names nothing",
        "dredge.gc.list_committed.read_ranges",
        "read_ranges",
        Put("keyword", "lenient", True),
        ("test_trap_09_a_damaged_range_or_metarange_stops_the_run",),
    ),
    Breakage(
        "full addresses are read as keys",
        "dredge.gc.index.ranges",
        "decode",
        Put("If", "any", False),
        ("test_trap_12_a_full_address_inside_the_namespace_is_the_same_as_a_relative_one",),
    ),
    Breakage(
        "an empty list of active commits is believed",
        "dredge.gc.list_committed.history",
        "_read_server_list",
        Put("If", "server", False),
        ("test_trap_02_an_empty_or_odd_list_of_commits_stops_the_run",),
    ),
    Breakage(
        "only the server walks over commits",
        "dredge.gc.list_committed.active",
        "_by_own_walk",
        Always([]),
        ("test_trap_19_a_commit_that_the_servers_walk_loses_is_kept",),
    ),
    Breakage(
        "young commits to which no ref leads keep nothing that the server's walk loses",
        "dredge.gc.list_committed.active",
        "find_active",
        Put("Assign", "dangling", {}),
        ("test_trap_19_a_commit_that_the_servers_walk_loses_is_kept",),
    ),
    Breakage(
        "tags keep nothing",
        "dredge.gc.list_committed.active",
        "_by_tags",
        Drop("Call", "frozenset", "args.0"),
        ("test_tags_and_rules_of_a_policy_keep_commits_and_rules_about_paths_only_name_them",),
    ),
    Breakage(
        "a part of the index is believed unseen",
        "dredge.runs.parts",
        "check_digest",
        Put("If", 1, False),
        ("test_a_part_that_is_not_what_was_written_is_refused",),
    ),
)

OPTIMIZED = (
    Breakage(
        "a window covers what is too young to be listed",
        "dredge.gc.save_report.advance_state",
        "make_state",
        Keep("Call", "min", "args.0"),
        (HISTORIES,),
    ),
    Breakage(
        "what a run kept is forgotten",
        "dredge.gc.subtract.earlier_runs",
        "_search_all",
        Put("Attribute", "parts", ()),
        ("test_what_was_kept_by_a_run_is_looked_at_again_by_the_next",),
    ),
    Breakage(
        "young objects in slices that are done with are forgotten",
        "dredge.gc.slice_listing.items",
        "sort_by_age",
        Put("If", 2, False),
        ("test_what_was_young_when_its_slice_was_covered_goes_when_it_is_old",),
    ),
    Breakage(
        "dropped ranges still count",
        "dredge.gc.list_committed.read_ranges",
        "_Sorter.add",
        Drop("Expr", 2),
        ("test_a_difference_adds_what_is_new_and_takes_away_what_is_dropped",),
    ),
    Breakage(
        "what new ranges name does not count",
        "dredge.gc.list_committed.read_ranges",
        "_Sorter.add",
        Drop("Expr", 3),
        (HISTORIES,),
    ),
    Breakage(
        "paths that another policy kept are not looked at again",
        "dredge.gc.subtract.earlier_runs",
        "_let_go",
        Drop("List", 1, "elts.1"),
        ("test_an_optimized_run_under_another_policy_deletes_what_a_clean_run_would",),
    ),
    Breakage(
        "the state moves on from wherever it is",
        "dredge.runs.versions",
        "VersionStore.advance",
        Put("If", 1, False),
        ("test_the_state_moves_on_only_from_where_the_run_began",),
    ),
)
