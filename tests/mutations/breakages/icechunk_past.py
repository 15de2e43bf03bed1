"""Guards of the collection of Icechunk that compare with the past, and of local files that must last."""

from __future__ import annotations

from tests.mutations.breakages.breakage import ICE, Breakage

ICECHUNK_PAST = (
    Breakage(
        "main may lose its tip and no person is asked",
        f"{ICE}/witness/judging.py",
        "tip is not None\n        and tip not in said.tips",
        "False\n        and tip not in said.tips",
        ("test_refs_that_were_put_back_lose_nothing_that_a_run_called_live",),
    ),
    Breakage(
        "a lost tip is not kept",
        f"{ICE}/mark/roots.py",
        "held | {*lost})",
        "held)",
        ("test_lost_tip_is_kept_from_the_first_run_that_missed_it_whatever_its_age",),
    ),
    Breakage(
        "a snapshot that nothing names is garbage before it is old",
        f"{ICE}/mark/roots.py",
        "not in released and now - time < keep_lost}",
        "not in released and False}",
        ("test_commit_that_no_run_saw_is_kept_when_refs_are_put_back",),
    ),
    Breakage(
        "what was a tip again counts as released",
        f"{ICE}/witness/record.py",
        "links = {node: set(parents) - now.keys() for node, parents in known.items()}",
        "links = {node: set(parents) for node, parents in known.items()}",
        ("test_snapshot_that_is_reached_again_was_released_by_none_of_its_earlier_children",),
    ),
    Breakage(
        "a repo info without the last operation is believed",
        f"{ICE}/witness/judging.py",
        "if since is not None and since.is_there is False",
        "if since is not None and since.is_there is None",
        ("test_repo_info_that_was_put_back_stops_the_run_until_a_person_accepts_it",),
    ),
    Breakage(
        "refs of spec 1 that are later than the upgrade stop nothing",
        f"{ICE}/witness/old_refs.py",
        "    if migrated_at is None or ref.written_at > instant(migrated_at):",
        "    if False:",
        ("test_refs_beside_a_log_that_does_not_name_the_upgrade_stop_the_run",),
    ),
    Breakage(
        "what refs of before the upgrade reach is garbage",
        f"{ICE}/mark/step.py",
        "    if not run.plan.config.keep_old_refs:",
        "    if True:",
        ("test_what_left_over_refs_reach_is_kept_until_a_person_lets_it_go",),
    ),
    Breakage(
        "a ref of spec 1 that is written while a run works is not noticed",
        f"{ICE}/bulk_delete/recheck.py",
        "_late_old_ref(reader, marked, old_refs)",
        "None",
        ("test_ref_of_spec_1_that_is_written_between_mark_and_sweep_stops_the_sweep",),
    ),
    Breakage(
        "a snapshot that nothing names and that came since the mark keeps nothing",
        f"{ICE}/bulk_delete/step.py",
        "newly_live(run.reader, changes.new, unnamed)",
        "newly_live(run.reader, changes.new)",
        ("test_snapshot_that_nothing_names_and_that_was_written_since_the_mark_keeps_what_it_names",),
    ),
    Breakage(
        "a record of another run is replaced",
        f"{ICE}/witness/leaving.py",
        "    if found is None or found[1] != data:",
        "    if False:",
        ("test_record_that_another_run_has_left_since_the_mark_is_not_replaced",),
    ),
    Breakage(
        "what a run deleted is called damage",
        f"{ICE}/check_again.py",
        "        refuse_deleted(run, run.folder.label, absent_files(run.reader))\n",
        "",
        ("test_live_files_that_a_run_deleted_come_back_and_a_person_must_look",),
    ),
    Breakage(
        "an open alarm stops no deletion",
        f"{ICE}/bulk_delete/step.py",
        "    refuse_alarmed(run)\n    note_deletion",
        "    note_deletion",
        ("test_nothing_is_deleted_while_an_alarm_is_open",),
    ),
    Breakage(
        "a purge takes copies of what is live",
        f"{ICE}/undo.py",
        "clock, partial(find_live, marked))",
        "clock)",
        ("test_purge_leaves_copies_of_what_is_live",),
    ),
    Breakage(
        "the library collects what is to stay",
        f"{ICE}/by_library.py",
        "        _ask_witnesses(run)\n",
        "",
        ("test_library_does_not_collect_what_a_run_called_live",),
    ),
    Breakage(
        "a file of the local store has its name before its bytes are on the disk",
        "dredge/storage/local/folder.py",
        "                sync(file.fileno())\n",
        "",
        ("test_acknowledged_object_is_there_after_a_loss_of_power",),
    ),
    Breakage(
        "the name of a file of the local store is not forced to the disk",
        "dredge/storage/local/folder.py",
        "                sync(names)\n",
        "",
        ("test_acknowledged_object_is_there_after_a_loss_of_power",),
    ),
    Breakage(
        "rows of the embedded server may be lost with the power",
        "dredge/kv/sqlite.py",
        "'FULL' if is_durable() else 'NORMAL'",
        "'NORMAL'",
        ("test_rows_of_the_embedded_server_are_forced_to_the_disk",),
    ),
)
