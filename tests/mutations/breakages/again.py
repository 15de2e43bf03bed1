"""Guards of what was deleted earlier: it is compared with what is live, and purged only when a mark shows it dead."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

ALARM = "test_live_objects_that_a_run_deleted_come_back_and_raise_an_alarm"
KILLED = "test_after_a_kill_at_each_write_the_alarm_is_raised_and_the_objects_are_back"
BENIGN = "test_expired_data_that_is_used_again_comes_back_without_an_alarm"

AGAIN = (
    Breakage(
        "what a commit names is explained by the rules that were taken away",
        f"{GC}/check_again/find.py",
        "if info.last_modified < cutoff} - claimed",
        "if info.last_modified < cutoff}",
        ("test_live_objects_of_a_commit_alarm_also_where_the_rules_were_taken_away_since",),
    ),
    Breakage(
        "what runs deleted is not compared with what is live",
        f"{GC}/check_limits/step.py",
        "    alarm = check_again(run, runner, record)\n",
        "    alarm = None\n",
        (ALARM,),
    ),
    Breakage(
        "a sweep does not write down what it may delete",
        f"{GC}/bulk_delete/step.py",
        "    note_deletion(run, record)\n",
        "",
        ("test_a_sweep_that_was_killed_is_compared_as_well",),
    ),
    Breakage(
        "a sweep writes down what it may delete only at its end",
        f"{GC}/bulk_delete/step.py",
        "    if not parts:\n        return\n    record.attempt.check()",
        "    if not parts or not record.details:\n        return\n    record.attempt.check()",
        ("test_a_sweep_that_was_killed_is_compared_as_well",),
    ),
    Breakage(
        "live objects that nothing explains count as used again",
        f"{GC}/check_again/judge.py",
        '    by_reason = pc.fill_null(pc.equal(rows["reason"], EXPIRED), False)\n',
        '    by_reason = pc.is_valid(rows["reason"])\n',
        (ALARM,),
    ),
    Breakage(
        "only the ranges that the deleting run read explain a reuse",
        f"{GC}/check_again/judge.py",
        "    found |= named | hits.unclaimed\n",
        "",
        (BENIGN,),
    ),
    Breakage(
        "an object that exists again is a hit",
        f"{GC}/check_again/find.py",
        "        return False\n    return True\n",
        "        return False\n    return False\n",
        ("test_an_object_that_was_deleted_and_is_linked_anew_alarms_if_it_is_gone_and_not_if_it_exists",),
    ),
    Breakage(
        "branches are not asked about what was deleted",
        f"{GC}/check_again/find.py",
        "    todo = [_unseen(run, runner, record, checked, item, found) for item in todo]\n",
        "",
        ("test_content_uploaded_again_that_no_answer_shows_is_found_once",),
    ),
    Breakage(
        "an alarm is written after its objects are back",
        f"{GC}/check_again/check.py",
        "    raised = _raise_alarm(run, judged)\n    unfinished = unite([_bring_back(run, item) for item in judged])\n",
        "    unfinished = unite([_bring_back(run, item) for item in judged])\n    raised = _raise_alarm(run, judged)\n",
        (KILLED,),
    ),
    Breakage(
        "a check is recorded before it is done",
        f"{GC}/check_again/check.py",
        "    raised = _raise_alarm(run, judged)\n    unfinished",
        "    now, label = run.store_now(), run.folder.label\n"
        "    write_checked(run.state, checked, label, run.plan.run_id, now, found.sweeps, found.live)\n"
        "    checked = read_checked(run.state)\n    raised = _raise_alarm(run, judged)\n    unfinished",
        (KILLED,),
    ),
    Breakage(
        "an alarm stops only the run that found it",
        f"{GC}/check_again/check.py",
        "    still_open = alarms.open_alarms(run.state)\n",
        "    still_open = [] if raised is None else [raised]\n",
        ("test_later_runs_delete_nothing_until_a_person_acknowledges_and_then_they_do",),
    ),
    Breakage(
        "a run that waited deletes although another one has alarmed",
        f"{GC}/bulk_delete/step.py",
        '    refuse_alarmed(run.state, f"run {run.plan.run_id} deletes nothing")\n',
        "",
        ("test_a_run_that_waited_deletes_nothing_when_another_one_has_alarmed_meanwhile",),
    ),
    Breakage(
        "a ledger that cannot be read is passed over",
        f"{GC}/check_again/find.py",
        "            found.unread.append(hashes)\n",
        "",
        ("test_a_deletion_that_cannot_be_read_is_named",),
    ),
    Breakage(
        "a purge removes what is live",
        "dredge/undo/purge/step.py",
        "    (live,) = config.live.find([hashes])\n",
        "    live = pinned & False\n",
        ("test_what_is_live_again_stays_although_it_was_not_brought_back",),
    ),
    Breakage(
        "a purge does not look again after its mark",
        f"{GC}/purge/proof.py",
        '    recheck(run, runner, subtracted, f"{PurgeOutput.STEP}/recheck/{record.attempt.number:03d}")\n',
        "",
        ("test_what_comes_alive_between_the_mark_and_the_purge_stays",),
    ),
    Breakage(
        "a purge removes what a branch may serve unseen",
        f"{GC}/purge/proof.py",
        "    unproved = _unproved(run, runner, record, runs)\n",
        "    unproved = NONE\n",
        ("test_a_copy_that_a_branch_may_serve_unseen_stays",),
    ),
    Breakage(
        "a purge goes on while an alarm is open",
        f"{GC}/purge/step.py",
        '        refuse_alarmed(run.state, f"run {run.plan.run_id} purges nothing")\n',
        "        pass\n",
        ("test_nothing_is_purged_while_an_alarm_is_open",),
    ),
    Breakage(
        "metadata is deleted while an alarm is open",
        f"{GC}/metadata/collecting.py",
        '        refuse_alarmed(self.run.state, f"run {plan.run_id} deletes no metadata")\n',
        "",
        ("test_no_metadata_is_deleted_while_an_alarm_is_open",),
    ),
    Breakage(
        "the ledger of what can still come back is removed with its folder",
        f"{GC}/save_report/lifetimes.py",
        "item.can_come_back(now) or ",
        "",
        ("test_the_ledger_of_what_can_still_come_back_is_kept",),
    ),
    Breakage(
        "a restore pins what is gone",
        "dredge/undo/restore/step.py",
        "_ABSENT = (GONE, TAKEN)\n",
        "_ABSENT = ()\n",
        ("test_what_came_back_is_pinned_and_what_is_gone_is_not",),
    ),
)
