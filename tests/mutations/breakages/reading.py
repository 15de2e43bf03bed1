"""Guards of what is read: places and ages, staging, commits, and what earlier runs knew."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, HISTORIES, Breakage

AGE_AND_PLACE = (
    Breakage(
        "the cutoff is now",
        f"{GC}/planning.py",
        "latest = now - timedelta(seconds=config.min_age_seconds)",
        "latest = now",
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "an object of exactly the minimum age counts as old",
        f"{GC}/slice_listing/items.py",
        "is_old = pc.less(batch",
        "is_old = pc.less_equal(batch",
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "objects without a time pass",
        f"{GC}/slice_listing/items.py",
        "if pc.any(useless).as_py():",
        "if False:",
        ("test_an_object_without_a_time_stops_the_run",),
    ),
    Breakage(
        "clocks may differ",
        "dredge/runs/clock.py",
        "if abs(store_ahead_seconds) > seconds_max:",
        "if False:",
        ("test_clocks_that_differ_stop_the_run",),
    ),
    Breakage(
        "namespaces may overlap",
        f"{GC}/namespaces.py",
        "    if own:",
        "    if False:",
        ("test_trap_16_two_repositories_on_one_namespace_stop_the_run",),
    ),
    Breakage(
        "a repository among the data of another one is collected",
        f"{GC}/namespaces.py",
        "taken = (METADATA,) if is_kept else (METADATA, DATA)",
        "taken = (METADATA,)",
        ("test_trap_15_a_repository_among_the_files_of_one_on_the_root_is_refused",),
    ),
    Breakage(
        "a repository nested in the data is passed over",
        f"{GC}/subtract/step.py",
        "        nested=_nested(run, record),\n",
        "",
        (
            "test_trap_15_what_a_deleted_nested_repository_left_is_kept_and_the_rest_is_collected",
            "test_trap_15_a_nested_repository_of_another_server_is_kept_by_its_files",
        ),
    ),
    Breakage(
        "an object outside data/ may be a candidate",
        f"{GC}/subtract/classify.py",
        "if pc.any(strays).as_py():",
        "if False:",
        ("test_an_object_outside_data_is_no_candidate",),
    ),
    Breakage(
        "a row with the hash of another address may be a candidate",
        f"{GC}/subtract/classify.py",
        "if not np.array_equal(hash64(addresses)",
        "if False and not np.array_equal(hash64(addresses)",
        ("test_a_row_whose_hash_is_another_addresss_is_no_candidate",),
    ),
    Breakage(
        "hashes of a shard that were not compared are not missed",
        f"{GC}/subtract/by_shard.py",
        "if compared != total:",
        "if False:",
        ("test_what_no_task_compared_stops_the_run",),
    ),
    Breakage(
        "rows that were not cut into shards are not missed",
        f"{GC}/subtract/by_shard.py",
        "if cut != rows:",
        "if False:",
        ("test_what_no_task_compared_stops_the_run",),
    ),
    Breakage(
        "a shard of what lives is passed over though something is wanted in it",
        "dredge/sets/sharded.py",
        "return any(bool((place == shard).any()) for place in places)",
        "return shard > 0 and any(bool((place == shard).any()) for place in places)",
        ("test_both_ways_find_the_same",),
    ),
    Breakage(
        "rows that were not compared are not missed",
        f"{GC}/subtract/step.py",
        "if compared != rows:",
        "if False:",
        ("test_rows_that_no_task_compared_stop_the_run",),
    ),
)

STAGED = (
    Breakage(
        "a missing file of staged addresses is accepted",
        f"{GC}/mark_uncommitted/server_scan.py",
        "if len(keys) < with_rows:",
        "if False:",
        ("test_a_page_whose_file_is_missing_stops_the_run",),
    ),
    Breakage(
        "a scan of staging without proof is believed",
        f"{GC}/mark_uncommitted/staging.py",
        "if not proof.missing:",
        "if True:",
        ("test_where_no_scan_can_be_proved_nothing_is_deleted",),
    ),
    Breakage(
        "a page without a file says that nothing was staged",
        f"{GC}/mark_uncommitted/server_scan.py",
        "scan.unsafe.append(Extent.between(token, page.token))",
        "pass",
        ("test_pages_without_location_and_ends_of_branches_are_two_guards",),
    ),
    Breakage(
        "what only the branches showed is dropped",
        f"{GC}/mark_uncommitted/staging.py",
        "    if proof.addresses:",
        "    if False:",
        ("test_sweep_keeps_staged_objects_while_branches_come_and_go_within_each_page",),
    ),
    Breakage(
        "heads that branches had during the scan are forgotten",
        f"{GC}/mark_uncommitted/output.py",
        "rows = sorted(heads)",
        "rows = list[tuple[str, str]]()",
        ("test_a_copy_that_was_hidden_by_a_head_of_the_time_of_the_scan_stays",),
    ),
    Breakage(
        "what a commit wrote while staging was read counts only where a branch leads to it",
        f"{GC}/list_committed/step.py",
        "unite_ranges(history.ranges, files.items())\n    record.counts",
        "record.counts",
        ("test_what_a_commit_left_behind_carries_around_each_scan_of_the_server_stays",),
    ),
    Breakage(
        "of the heads of the scan only the commits themselves count",
        f"{GC}/list_committed/active.py",
        "found = active_by_rules(graph, [*active.branches, *gone], rules, run.plan.created_at)",
        "found = {ref.commit_id for ref in gone}",
        ("test_what_an_old_commit_carries_whose_branch_is_reset_during_each_scan_stays",),
    ),
    Breakage(
        "staging that vanished is fine",
        f"{GC}/check_limits/staged.py",
        "if now or had < plenty:",
        "if True:",
        ("test_staging_that_vanished_since_the_last_run_stops_the_run",),
    ),
)

COMMITTED = (
    Breakage(
        "a missing or damaged range names nothing",
        f"{GC}/list_committed/read_ranges.py",
        'lenient=task.purpose != "index"',
        "lenient=True",
        ("test_trap_09_a_damaged_range_or_metarange_stops_the_run",),
    ),
    Breakage(
        "full addresses are read as keys",
        f"{GC}/index/decoding.py",
        'if np.any(rows["address_type"]',
        'if False and np.any(rows["address_type"]',
        ("test_trap_12_a_full_address_inside_the_namespace_is_the_same_as_a_relative_one",),
    ),
    Breakage(
        "an empty list of active commits is believed",
        f"{GC}/list_committed/sources.py",
        "    if not server:",
        "    if False:",
        ("test_trap_02_an_empty_or_odd_list_of_commits_stops_the_run",),
    ),
    Breakage(
        "only the server walks over commits",
        f"{GC}/list_committed/active.py",
        "    return [KeptSet(OWN",
        "    return [] if own else [KeptSet(OWN",
        ("test_trap_19_a_commit_that_the_servers_walk_loses_is_kept",),
    ),
    Breakage(
        "young commits to which no ref leads keep nothing that the server's walk loses",
        f"{GC}/list_committed/active.py",
        "dangling = kept_by_dangling(run, found, looked)",
        "dangling: Graph = {}",
        ("test_trap_19_a_commit_that_the_servers_walk_loses_is_kept",),
    ),
    Breakage(
        "tags keep nothing",
        f"{GC}/list_committed/active.py",
        "frozenset(tag.commit_id for tag in tags)",
        "frozenset()",
        ("test_trap_18_a_tag_keeps_its_commit_unless_told_otherwise",),
    ),
    Breakage(
        "a part of the index is believed unseen",
        "dredge/runs/folder.py",
        "if len(data) != part.size_bytes or",
        "if False and",
        ("test_a_part_that_is_not_what_was_written_is_refused",),
    ),
)

OPTIMIZED = (
    Breakage(
        "a window covers what is too young to be listed",
        f"{GC}/state/advance.py",
        "min(end, plan.covers_until)",
        "end",
        (HISTORIES,),
    ),
    Breakage(
        "what a run kept is forgotten",
        f"{GC}/state/advance.py",
        "[ledger.DELETED, ledger.MISSING]",
        "[ledger.DELETED, ledger.MISSING, ledger.KEPT]",
        ("test_what_was_kept_by_a_run_is_looked_at_again_by_the_next",),
    ),
    Breakage(
        "young objects in slices that are done with are forgotten",
        f"{GC}/slice_listing/items.py",
        "if will_be_covered and old.num_rows < batch.num_rows:",
        "if False:",
        ("test_what_was_young_when_its_slice_was_covered_goes_when_it_is_old",),
    ),
    Breakage(
        "dropped ranges still count",
        f"{GC}/list_committed/read_ranges.py",
        "self._counts.add(item.addresses, -1)",
        "pass",
        (HISTORIES,),
    ),
    Breakage(
        "what new ranges name does not count",
        f"{GC}/list_committed/read_ranges.py",
        "self._counts.add(item.addresses, 1)",
        "pass",
        (HISTORIES,),
    ),
    Breakage(
        "paths that another policy kept are not looked at again",
        f"{GC}/subtract/earlier_runs.py",
        'base.folder.read_part(base.state.path_ranges, ["range_id"]),',
        'base.folder.read_part(base.state.path_ranges, ["range_id"]).slice(0, 0),',
        ("test_an_optimized_run_under_another_policy_deletes_what_a_clean_run_would",),
    ),
    Breakage(
        "the state moves on from wherever it is",
        "dredge/runs/versions.py",
        "if etag != before.etag and",
        "if False and",
        ("test_the_state_moves_on_only_from_where_the_run_began",),
    ),
)
