"""Guards of the cleaner of the key-value store."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

TRASH = (
    Breakage(
        "one look is enough",
        "dredge/trash/classifier.py",
        "self.now - sighting.first_seen >= self.margins.grace",
        "True",
        ("test_nothing_goes_at_a_first_look",),
    ),
    Breakage(
        "any age of an id will do",
        "dredge/trash/classifier.py",
        "self.now - since < self.margins.id_age",
        "False",
        ("test_a_young_instance_without_a_record_is_not_trash_however_often_it_is_seen",),
    ),
    Breakage(
        "a run that skipped every hook began in the year 1",
        "dredge/trash/key_rules.py",
        "began = max(began, _start(run_key, rows[run_key]))",
        "began = _start(run_key, rows[run_key])",
        ("test_a_run_that_skipped_every_hook_stays_although_its_record_says_year_1",),
    ),
    Breakage(
        "a lost repository with a usable head is trash",
        "dredge/trash/classifier.py",
        "if usable or (first and",
        "if (first and",
        ("test_a_usable_head_alone_makes_a_repository_lost",),
    ),
    Breakage(
        "a life that lost its first commit and has a head is what a delete left",
        "dredge/trash/classifier.py",
        "if not (heads or first) and all(",
        "if not first and all(",
        ("test_a_partition_without_a_record_is_what_its_rows_make_of_it",),
    ),
    Breakage(
        "a repository that comes back does not keep its hook results",
        "dredge/trash/guards.py",
        "if finding.kind == OF_MISSING_REPOSITORY:",
        "if False:",
        ("test_hook_results_stay_when_the_record_of_their_repository_comes_back",),
    ),
    Breakage(
        "an earlier life that comes back does not keep its hook results",
        "dredge/trash/guards.py",
        "if finding.kind == OF_EARLIER_LIFE:",
        "if False:",
        ("test_hook_results_of_an_earlier_life_stay_when_somebody_brings_that_life_back",),
    ),
    Breakage(
        "a hook run that comes back does not keep its parts",
        "dredge/trash/guards.py",
        "if finding.kind == OF_MISSING_RUN:",
        "if False:",
        ("test_hook_results_stay_when_their_run_is_written_right_before_the_deletion",),
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
    Breakage(
        "a restore queues tokens that branches name",
        "dredge/trash/steps.py",
        "    if not tokens:\n        return tokens\n",
        "    return set()\n",
        ("test_restoring_a_run_does_not_queue_a_token_that_a_branch_names",),
    ),
    Breakage(
        "what was put back has no grace",
        "dredge/trash/steps.py",
        "        if back:\n            held.save_sightings(sightings.without(back))\n",
        "",
        ("test_what_was_put_back_has_its_whole_grace_again",),
    ),
)
