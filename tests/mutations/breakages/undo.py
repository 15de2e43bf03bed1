"""Guards of what can be taken back: nothing goes before it can come back, nothing is replaced, and only old leftovers
go for good."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

PURGED = "test_a_purge_lets_old_leftovers_go_and_nothing_else"
REPLACES = "test_a_restore_never_replaces_what_is_there"

UNDO = (
    Breakage(
        "an object goes before it was copied",
        "dredge/runs/sweep.py",
        "group = candidates if self._protect is None else",
        "group = candidates if True else",
        ("test_an_object_is_deleted_only_when_its_copy_is_there",),
    ),
    Breakage(
        "an object goes though its copy could not be made",
        f"{GC}/undo/protecting.py",
        "return _not_copied(error)",
        "return Protected()",
        ("test_an_object_whose_copy_cannot_be_made_stays_until_the_next_run",),
    ),
    Breakage(
        "an object goes though it is not as it was listed",
        f"{GC}/undo/protecting.py",
        'return Protected(ledger.KEPT, NOT_COPIED, "the object has another size than when it was listed")',
        "return Protected()",
        ("test_an_object_that_is_not_as_it_was_listed_stays",),
    ),
    Breakage(
        "a bucket without versions is swept as if it had them",
        f"{GC}/undo/protecting.py",
        'if found != "enabled":',
        "if False:",
        ("test_a_bucket_that_keeps_no_versions_any_more_stops_the_sweep",),
    ),
    Breakage(
        "a copy that differs from its source passes",
        "dredge/storage/s3/copying.py",
        "    if differs:\n",
        "    if False:\n",
        ("test_a_copy_that_is_not_like_its_source_is_an_error",),
    ),
    Breakage(
        "the comparison does not know what is pinned",
        f"{GC}/subtract/classify.py",
        "pinned=config.pinned,",
        "pinned=(),",
        ("test_what_came_back_is_kept_from_the_next_runs_until_the_end_of_its_pin",),
    ),
    Breakage(
        "the sweep does not look for pins again",
        f"{GC}/bulk_delete/sweep.py",
        "codes = pc.if_else(pa.array(pinned), PINNED, codes)",
        "pass",
        ("test_a_sweep_whose_mark_is_older_than_a_pin_keeps_what_the_pin_holds",),
    ),
    Breakage(
        "a pin that cannot be read holds nothing",
        f"{GC}/undo/pins.py",
        "except (KeyError, TypeError, ValueError, LookupError) as error:\n",
        "except (KeyError, TypeError, ValueError, LookupError) as error:\n            continue\n",
        ("test_a_pin_that_cannot_be_read_stops_the_run",),
    ),
    Breakage(
        "what comes back is not pinned",
        f"{GC}/restore/step.py",
        "    write_pin(run.state, pin)\n",
        "",
        ("test_whatever_came_back_when_a_restore_is_killed_is_pinned",),
    ),
    Breakage(
        "a restore copies over what was put there since it looked",
        f"{GC}/restore/putting_back.py",
        'copy(row["address"], if_absent=True)',
        'copy(row["address"])',
        ("test_what_is_put_under_the_key_between_look_and_copy_stays",),
    ),
    Breakage(
        "a restore does not look what is there",
        f"{GC}/restore/putting_back.py",
        "there = self._look(row)",
        "there = None",
        (REPLACES, "test_everything_that_a_run_may_delete_comes_back_byte_for_byte"),
    ),
    Breakage(
        "a restore brings another object back than the run deleted",
        f"{GC}/restore/putting_back.py",
        "if not _is_the_one(newest, row):",
        "if False:",
        ("test_another_object_that_was_deleted_since_is_not_brought_back_in_its_place",),
    ),
    Breakage(
        "a restore takes from a run of another repository",
        f"{GC}/restore/step.py",
        "        _check_is_of(swept, run)\n",
        "",
        ("test_a_run_of_another_repository_gives_nothing_back",),
    ),
    Breakage(
        "versions are taken for delete markers",
        "dredge/storage/undo.py",
        "if not marker.is_marker:",
        "if False:",
        ("test_taking_the_marker_away_brings_the_object_back",),
    ),
    Breakage(
        "a current version goes for good",
        "dredge/storage/undo.py",
        "if version.is_latest and not version.is_marker:",
        "if False:",
        ("test_an_old_version_goes_for_good_and_a_current_one_never",),
    ),
    Breakage(
        "a dry run of a purge deletes",
        f"{GC}/purge/step.py",
        "if not config.dry_run:",
        "if True:",
        ("test_a_dry_run_is_the_default_says_what_would_go_and_lets_nothing_go",),
    ),
    Breakage(
        "a purge lets go what is pinned",
        f"{GC}/purge/step.py",
        "(pinned,) = in_any(config.pinned,",
        "(pinned,) = in_any((),",
        ("test_what_is_pinned_stays_as_long_as_its_pin",),
    ),
    Breakage(
        "a purge lets go what the ledger does not call deleted",
        f"{GC}/purge/step.py",
        '    rows = rows.filter(pc.is_in(rows["outcome"], pa.array(_WENT)))\n',
        "",
        ("test_a_copy_of_what_the_ledger_does_not_call_deleted_stays",),
    ),
    Breakage(
        "a purge lets young copies go",
        f"{GC}/purge/choosing.py",
        "WOULD_GO if found.last_modified < self._cutoff else YOUNG",
        "WOULD_GO",
        ("test_leftovers_that_came_late_in_an_old_run_stay",),
    ),
    Breakage(
        "a purge lets young versions go",
        f"{GC}/purge/choosing.py",
        "if marker.last_modified >= self._cutoff:",
        "if False:",
        ("test_leftovers_that_came_late_in_an_old_run_stay",),
    ),
    Breakage(
        "a purge lets versions of other objects go",
        f"{GC}/purge/choosing.py",
        'if version.size != row["size"] or version.etag != row["etag"]:',
        "if False:",
        ("test_a_version_of_another_object_stays",),
    ),
    Breakage(
        "a purge brings an older version back",
        f"{GC}/purge/choosing.py",
        "alone = sum(not item.is_marker for item in found) == 1",
        "alone = True",
        ("test_a_marker_above_an_older_version_stays_so_that_nothing_comes_back",),
    ),
    Breakage(
        "a purge brings back what it could not delete",
        f"{GC}/purge/deleting.py",
        "and item.outcome in (PURGED, WOULD_GO)",
        "",
        ("test_a_marker_stays_above_a_version_that_could_not_be_deleted",),
    ),
    Breakage(
        "the folder of a run goes with the copies in it",
        f"{GC}/save_report/lifetimes.py",
        "if not is_ours or _has_copies(runs, run_id):",
        "if not is_ours:",
        ("test_the_folder_of_a_run_stays_as_long_as_copies_are_in_it",),
    ),
)
