"""Guards of the product, each broken in one line, and the tests that must notice.

file    where the guard is, from the root of the tree
old     text of the guard that occurs once in the file
new     what it becomes
tests   functions that fail then; they are looked up by name, wherever they live
"""

from __future__ import annotations

from typing import NamedTuple


class Breakage(NamedTuple):
    """One guard, broken."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


GC = "dredge/gc"
RECHECK = "test_sweep_keeps_what_a_branch_that_was_made_after_the_mark_reads_and_what_a_policy_keeps_for_it"
HISTORIES = "test_an_optimized_run_deletes_what_a_clean_run_would_and_forgets_nothing"

AGE_AND_PLACE = (
    Breakage(
        "the cutoff is now",
        f"{GC}/planning.py",
        "return now - timedelta(seconds=config.min_age_seconds)",
        "return now",
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "an object of exactly the minimum age counts as old",
        f"{GC}/slice_listing/step.py",
        "old = pc.less(times",
        "old = pc.less_equal(times",
        ("test_trap_05_age_is_the_stores_and_the_bound_is_strict",),
    ),
    Breakage(
        "objects without a time pass",
        f"{GC}/slice_listing/step.py",
        "if pc.any(useless).as_py():",
        "if False:",
        ("test_an_object_without_a_time_stops_the_run",),
    ),
    Breakage(
        "clocks may differ",
        f"{GC}/clocks.py",
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
        "a repository nested in the data is passed over",
        f"{GC}/check_limits/step.py",
        '"nothing_nested", metadata == 0,',
        '"nothing_nested", True,',
        ("test_trap_15_a_nested_repository_of_another_server_is_noticed_by_its_metadata",),
    ),
)

STAGED = (
    Breakage(
        "a missing file of staged addresses is accepted",
        f"{GC}/mark_uncommitted/step.py",
        "if len(keys) < with_rows:",
        "if False:",
        ("test_a_page_whose_file_is_missing_stops_the_run",),
    ),
    Breakage(
        "a scan of staging without proof is believed",
        f"{GC}/mark_uncommitted/step.py",
        "if not proof.missing:",
        "if True:",
        ("test_where_no_scan_can_be_proved_nothing_is_deleted",),
    ),
    Breakage(
        "a page without a file says that nothing was staged",
        f"{GC}/mark_uncommitted/step.py",
        "unsafe.append(Extent.between(token, page.token))",
        "pass",
        ("test_pages_without_location_and_ends_of_branches_are_two_guards",),
    ),
    Breakage(
        "what only the branches showed is dropped",
        f"{GC}/mark_uncommitted/step.py",
        "        if proof.addresses:",
        "        if False:",
        ("test_sweep_keeps_staged_objects_while_branches_come_and_go_within_each_page",),
    ),
    Breakage(
        "heads that branches had during the scan are forgotten",
        f"{GC}/mark_uncommitted/step.py",
        "rows = sorted(scan.heads)",
        "rows = list[tuple[str, str]]()",
        ("test_a_copy_that_was_hidden_by_a_head_of_the_time_of_the_scan_stays",),
    ),
    Breakage(
        "staging that vanished is fine",
        f"{GC}/check_limits/step.py",
        "if now or had < plenty:",
        "if True:",
        ("test_staging_that_vanished_since_the_last_run_stops_the_run",),
    ),
)

COMMITTED = (
    Breakage(
        "a missing or damaged range names nothing",
        f"{GC}/list_committed/collect_tasks.py",
        '_decode_leniently if task["lenient"] else _decode',
        "_decode_leniently",
        ("test_trap_09_a_damaged_range_or_metarange_stops_the_run",),
    ),
    Breakage(
        "full addresses are read as keys",
        f"{GC}/index/decoding.py",
        'if pc.any(pc.not_equal(rows["address_type"]',
        'if False and pc.any(pc.not_equal(rows["address_type"]',
        ("test_trap_12_a_full_address_inside_the_namespace_is_the_same_as_a_relative_one",),
    ),
    Breakage(
        "an empty list of active commits is believed",
        f"{GC}/list_committed/active.py",
        "    if not server:",
        "    if False:",
        ("test_trap_02_an_empty_or_odd_list_of_commits_stops_the_run",),
    ),
    Breakage(
        "only the server walks over commits",
        f"{GC}/list_committed/active.py",
        "kept.append(KeptSet(OWN",
        "list().append(KeptSet(OWN",
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

COMPARED = (
    Breakage(
        "what earlier runs knew is not compared with what lives",
        f"{GC}/subtract/earlier_runs.py",
        "dead = pa.array(~live.find([hashes])[0])",
        "dead = pa.array(np.ones(len(hashes), bool))",
        ("test_what_only_dropped_ranges_named_goes_and_what_others_name_too_stays", HISTORIES),
    ),
    Breakage(
        "what earlier runs knew is old",
        f"{GC}/subtract/earlier_runs.py",
        "elif info.last_modified < cutoff:",
        "elif True:",
        (HISTORIES,),
    ),
    Breakage(
        "identical content is garbage like any other",
        f"{GC}/subtract/classify.py",
        'np.where(same_size, SIZE, "")',
        'np.where(same_size, "", "")',
        ("test_trap_06_45_the_same_bytes_uploaded_again_stay",),
    ),
    Breakage(
        "an object that cannot be looked at may go",
        f"{GC}/subtract/classify.py",
        "np.full(rows.num_rows, reasons.UNREADABLE)",
        'np.full(rows.num_rows, "")',
        ("test_an_object_that_the_store_will_not_describe_is_held_and_asked_for_again",),
    ),
    Breakage(
        "a question without an answer clears",
        f"{GC}/check_limits/identical.py",
        "rows = [row for row, found in answers.unanswered.items() if found == code]",
        "rows = list[int]()",
        ("test_without_an_answer_the_suspects_are_held_and_the_run_goes_on",),
    ),
    Breakage(
        "a path that nobody can ask for clears",
        f"{GC}/check_limits/identical.py",
        "reasons.NO_PATH: no_path,",
        "reasons.NO_PATH: NONE,",
        ("test_a_path_that_is_not_utf8_holds_what_is_as_long_as_its_object",),
    ),
    Breakage(
        "canaries are not looked for",
        f"{GC}/check_limits/step.py",
        "dead = canaries.among(run, birds, doomed)",
        "dead = list(birds[:0])",
        ("test_a_living_object_among_the_candidates_stops_the_run",),
    ),
    Breakage(
        "limits hold nothing",
        "dredge/runs/limits.py",
        '"passed" if figure <= limit else "held"',
        '"passed"',
        ("test_a_limit_holds_the_run_and_nothing_is_deleted",),
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
        f"{GC}/slice_listing/step.py",
        "if done_with and kept.num_rows < batch.num_rows:",
        "if False:",
        ("test_what_was_young_when_its_slice_was_covered_goes_when_it_is_old",),
    ),
    Breakage(
        "dropped ranges still count",
        f"{GC}/list_committed/collect_tasks.py",
        "            sums.take_away(item.addresses)",
        "            pass",
        (HISTORIES,),
    ),
    Breakage(
        "what new ranges name does not count",
        f"{GC}/list_committed/collect_tasks.py",
        "            sums.add(item.addresses)",
        "            pass",
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
        f"{GC}/state/store.py",
        "if etag != before.etag and",
        "if False and",
        ("test_the_state_moves_on_only_from_where_the_run_began",),
    ),
)

SWEEP = (
    Breakage(
        "a dry run deletes",
        f"{GC}/bulk_delete/step.py",
        "if run.plan.dry_run:",
        "if False:",
        ("test_a_dry_run_deletes_nothing_and_says_what_it_would",),
    ),
    Breakage(
        "an old mark is swept",
        f"{GC}/bulk_delete/step.py",
        "if age > age_max:",
        "if False:",
        ("test_an_old_mark_is_not_swept",),
    ),
    Breakage(
        "results need not belong together",
        "dredge/runs/chain.py",
        "    if wrong:",
        "    if False:",
        ("test_sweep_accepts_one_unbroken_chain_only",),
    ),
    Breakage(
        "what the re-check found alive is deleted",
        f"{GC}/bulk_delete/step.py",
        "again |= known.find(folder, [hashes])[0]",
        "pass",
        ("test_trap_24_an_old_object_staged_again_after_the_mark_is_found_by_the_re_check",),
    ),
    Breakage(
        "the re-check drops what is staged",
        f"{GC}/bulk_delete/recheck.py",
        "Roles(new_ranges), staged)",
        "Roles(new_ranges), [])",
        ("test_trap_24_an_old_object_staged_again_after_the_mark_is_found_by_the_re_check",),
    ),
    Breakage(
        "the re-check reads no new commits",
        f"{GC}/bulk_delete/recheck.py",
        "if range_id not in known.ranges}",
        "if False}",
        (RECHECK,),
    ),
    Breakage(
        "the re-check forgets heads of the time of its scan",
        f"{GC}/bulk_delete/recheck.py",
        "take_in_heads(run, active, scan.heads)",
        "pass",
        ("test_what_moves_from_a_head_back_into_staging_while_the_re_check_reads_stays",),
    ),
    Breakage(
        "the re-check keeps no new paths",
        f"{GC}/bulk_delete/recheck.py",
        "    _find_new_paths(run, runner, known, where, active)\n",
        "",
        (RECHECK,),
    ),
    Breakage(
        "verdicts are skipped",
        f"{GC}/bulk_delete/step.py",
        "held[suspect] |= ",
        "_ = held[suspect] | ",
        ("test_sweep_keeps_a_held_object_that_has_the_hash_of_a_cleared_one",),
    ),
    Breakage(
        "what is held is deleted",
        f"{GC}/bulk_delete/step.py",
        "pa.array(~(held | again))",
        "pa.array(~again)",
        ("test_trap_06_45_the_same_bytes_uploaded_again_stay",),
    ),
    Breakage(
        "the sweep deletes wherever candidates lie",
        f"{GC}/bulk_delete/step.py",
        "if not pc.all(pc.starts_with(",
        "if False and not pc.all(pc.starts_with(",
        ("test_sweep_deletes_nothing_when_a_candidate_lies_outside_data",),
    ),
    Breakage(
        "a branch that moves is not noticed",
        f"{GC}/bulk_delete/head_watch.py",
        "if ref.commit_id not in known",
        "if False",
        ("test_trap_25_a_head_that_moves_while_deleting_stops_the_sweep_until_it_is_checked",),
    ),
    Breakage(
        "the loss of the lease is ignored",
        "dredge/runs/gate.py",
        "check_lease(self._state, LEASE, self._grant, store_now)",
        "pass",
        ("test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request",),
    ),
    Breakage(
        "a driver that says nothing is believed",
        "dredge/runs/gate.py",
        "store_now - written < self._silence",
        "True",
        ("test_when_nobody_looks_at_branches_any_more_workers_stop_by_themselves",),
    ),
    Breakage(
        "an overtaken try goes on",
        "dredge/runs/gate.py",
        "self._attempt.check()",
        "pass",
        ("test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun",),
    ),
    Breakage(
        "a lease is taken while another holds it",
        "dredge/runs/lease.py",
        "and held.expires_at > now:",
        "and False:",
        ("test_one_holder_at_a_time", "test_two_runs_at_once_are_one_run_and_one_refusal"),
    ),
    Breakage(
        "any key may be deleted as an own file",
        f"{GC}/save_report/own_files.py",
        "if not is_own_file(key):",
        "if False:",
        ("test_the_deleter_takes_the_names_of_own_files_and_no_other",),
    ),
    Breakage(
        "an answer without a result counts as deleted",
        "dredge/storage/s3/deleting.py",
        "if not answer.get(IS_DELETE_RESULT):",
        "if False:",
        ("test_an_answer_that_says_nothing_of_a_key_does_not_count_as_deleted",),
    ),
    Breakage(
        "anything may be permission to delete",
        "operators/lakefs/plan.py",
        'if text not in ("true", "false"):',
        "if False:",
        ("test_nothing_vague_is_taken_for_permission_to_delete",),
    ),
)

TRASH = (
    Breakage(
        "one look is enough",
        "dredge/trash/rules.py",
        "self.now - sighting.first_seen >= self.safety.grace",
        "True",
        ("test_nothing_goes_at_a_first_look",),
    ),
    Breakage(
        "any age of an id will do",
        "dredge/trash/rules.py",
        "self.now - since < self.safety.id_age",
        "False",
        ("test_a_young_instance_without_a_record_is_not_trash_however_often_it_is_seen",),
    ),
    Breakage(
        "a lost repository with a usable head is trash",
        "dredge/trash/rules.py",
        "if usable or (first and",
        "if (first and",
        ("test_a_usable_head_alone_makes_a_repository_lost",),
    ),
    Breakage(
        "a record that comes right before the deletion saves nothing",
        "dredge/trash/guards.py",
        "return [_record(instance.repository, references)]",
        "return []",
        ("test_a_repository_whose_record_comes_right_before_the_deletion_stays",),
    ),
    Breakage(
        "a branch that comes right before the deletion saves nothing",
        "dredge/trash/guards.py",
        "return list(_branches(finding.partition, references))",
        "return []",
        ("test_what_is_named_right_before_the_deletion_stays",),
    ),
    Breakage(
        "what changed since the plan goes",
        "dredge/trash/apply.py",
        "if digest != finding.digest:",
        "if False:",
        ("test_what_changes_after_the_second_look_stays_whole",),
    ),
    Breakage(
        "what was removed and is named again stays removed",
        "dredge/trash/apply.py",
        "if not named:",
        "if True:",
        ("test_what_was_removed_and_is_named_afterwards_comes_back_and_stops_the_run",),
    ),
    Breakage(
        "an entry is believed against its record",
        "dredge/trash/deleted.py",
        "            if named:",
        "            if False:",
        ("test_a_life_that_a_record_names_is_skipped_whatever_the_entry_says",),
    ),
    Breakage(
        "what was handed over after the plan goes",
        "dredge/trash/deleted.py",
        "if instance.partition not in planned:",
        "if False:",
        ("test_a_clean_leaves_what_was_handed_over_after_its_plan",),
    ),
    Breakage(
        "a row is deleted by its key",
        "dredge/kv/sqlite_rows.py",
        "AND key = ? AND value = ?",
        "AND key = ? AND ? IS NOT NULL",
        ("test_only_rows_with_their_value_go",),
    ),
)

ICECHUNK = (
    Breakage(
        "young objects may go",
        "dredge/icechunk/collection/listing.py",
        "dead = right & ~named & old",
        "dead = right & ~named",
        ("test_open_writers_chunks_are_kept_by_the_age_guard",),
    ),
    Breakage(
        "what the repo info lists is not kept",
        "dredge/icechunk/collection/roots.py",
        "set(history.snapshots) if history.spec_version == 2 else history.reachable()",
        "history.reachable()",
        ("test_dangling_snapshots_of_spec_2_that_the_repo_info_lists_are_kept",),
    ),
    Breakage(
        "released snapshots have no time of grace",
        "dredge/icechunk/collection/roots.py",
        "        if grace:",
        "        if False:",
        ("test_first_mark_of_released_snapshots_only_remembers_them",),
    ),
    Breakage(
        "a chunk that is not there holds nothing",
        "dredge/icechunk/collection/absent.py",
        'Finding(rule, "held", count',
        'Finding(rule, "passed", count',
        ("test_flipped_chunk_id_holds_the_run_and_the_true_chunk_stays",),
    ),
    Breakage(
        "a ref on a doomed snapshot is not noticed",
        "dredge/icechunk/collection/recheck.py",
        "            if node in doomed:",
        "            if False:",
        ("test_ref_on_a_released_snapshot_between_mark_and_sweep_stops_the_sweep",),
    ),
    Breakage(
        "a released snapshot that is listed again is not noticed",
        "dredge/icechunk/collection/recheck.py",
        "sorted(listed & set(doomed))",
        "list[str]()",
        ("test_released_snapshot_cannot_come_back_on_spec_2_unnoticed",),
    ),
    Breakage(
        "candidates may lie anywhere",
        "dredge/icechunk/collection/sweeping.py",
        "if not pc.all(pc.starts_with(",
        "if False and not pc.all(pc.starts_with(",
        ("test_candidates_outside_their_folder_are_never_deleted",),
    ),
    Breakage(
        "what came to life since the mark is deleted",
        "dredge/icechunk/collection/sweeping.py",
        "sets.contains(alive, hashes) | ~right",
        "~right",
        ("test_set_of_what_came_to_life_is_asked_at_the_sweep",),
    ),
    Breakage(
        "the guards' verdict is not asked",
        "dredge/icechunk/collection/sweeping.py",
        'if guard.details["verdict"] != "passed":',
        "if False:",
        ("test_sweep_deletes_nothing_when_the_guards_did_not_pass",),
    ),
    Breakage(
        "a live snapshot that no task read is passed over",
        "dredge/icechunk/collection/marking.py",
        "    if missing:",
        "    if False:",
        ("test_live_snapshot_that_no_task_read_stops_the_mark",),
    ),
)

BREAKAGES = (*AGE_AND_PLACE, *STAGED, *COMMITTED, *COMPARED, *OPTIMIZED, *SWEEP, *TRASH, *ICECHUNK)
