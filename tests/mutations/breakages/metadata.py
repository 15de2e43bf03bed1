"""Guards of the report on metadata: what it calls garbage is named by no commit that is known."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Drop, Keep, Put

METADATA = (
    Breakage(
        "files go that another repository on the namespace may name",
        "dredge.gc.metadata.collecting",
        "_Collection._why_not",
        Put("Call", "_shared", ""),
        ("test_what_another_repository_on_the_namespace_may_name_stays",),
    ),
    Breakage(
        "files of commits that nothing leads to are garbage",
        "dredge.gc.metadata.report",
        "look_at_metadata",
        Put("Assign", "unreachable", set()),
        ("test_a_commit_that_nothing_leads_to_keeps_its_files_and_is_told_of_once_no_rule_keeps_it",),
    ),
    Breakage(
        "files that were just written are garbage",
        "dredge.gc.metadata.files",
        "sort_files",
        Put("If", "last_modified", False),
        ("test_young_files_are_nobodys_garbage",),
    ),
    Breakage(
        "what an import made is garbage",
        "dredge.gc.metadata.history",
        "read_work",
        Drop("Expr", "add"),
        ("test_an_import_that_has_not_ended_is_told_of_and_what_imports_made_is_kept",),
    ),
    Breakage(
        "refs dumps are garbage",
        "dredge.gc.metadata.files",
        "_kind",
        Put("If", "entity", False),
        ("test_refs_dumps_are_no_garbage",),
    ),
    Breakage(
        "ranges that a commit's metarange names are garbage",
        "dredge.gc.metadata.files",
        "_closure",
        Drop("Expr", "update"),
        ("test_on_random_histories_no_file_that_any_commit_names_is_garbage_and_what_was_left_is",),
    ),
    Breakage(
        "metadata goes by name",
        "tests.support.memory_store",
        "MemoryVersionDeleter._delete",
        Put("BoolOp", 1, True, "values.1"),
        ("test_whenever_a_commit_writes_its_files_and_names_them_they_are_there",),
    ),
    Breakage(
        "metadata goes though the records are a copy's",
        "dredge.gc.metadata.collecting",
        "_Collection._why_not",
        Put("If", "doubt", False),
        ("test_what_a_copy_of_the_store_does_not_know_stays",),
    ),
    Breakage(
        "metadata goes while an import is at work",
        "dredge.gc.metadata.collecting",
        "_Collection._why_not",
        Put("If", "at_work", False),
        ("test_while_an_import_is_at_work_nothing_goes",),
    ),
    Breakage(
        "metadata goes though nobody knows what a commit names",
        "dredge.gc.metadata.collecting",
        "_Collection._why_not",
        Put("If", "missing", False),
        ("test_a_commit_whose_metarange_is_gone_keeps_everything",),
    ),
    Breakage(
        "metadata goes that was written again since its note",
        "dredge.gc.metadata.collecting",
        "_Collection._chosen",
        Keep("Compare", 1, "left"),
        ("test_a_file_that_was_written_again_between_two_notes_stays",),
    ),
    Breakage(
        "metadata goes that counts as a commit without a name",
        "dredge.gc.metadata.collecting",
        "_Collection._chosen",
        Put("Compare", 2, True),
        ("test_a_metarange_that_counts_as_a_lost_commit_stays_with_its_ranges_and_so_do_its_objects",),
    ),
    Breakage(
        "two notes of metadata may be of one moment",
        "dredge.gc.metadata.collecting",
        "_Collection._earlier",
        Put("Compare", "finished_at", True),
        ("test_two_notes_must_be_as_far_apart_as_a_file_is_old",),
    ),
    Breakage(
        "ranges of a metarange that was just written go",
        "dredge.gc.metadata.collecting",
        "_Collection._garbage",
        Keep("BinOp", 2, "left"),
        ("test_ranges_that_a_young_metarange_names_stay",),
    ),
    Breakage(
        "what a commit has come to name is not put back",
        "dredge.gc.metadata.collecting",
        "_Collection._put_back",
        Put("Assign", "missing", set()),
        ("test_who_names_a_file_by_its_id_gets_it_back_with_the_next_run",),
    ),
    Breakage(
        "a version of the time before versioning goes",
        "dredge.storage.undo",
        "ExactVersionDeleter.delete",
        Put("If", "version_id", False),
        ("test_a_version_of_the_time_before_versioning_is_never_deleted",),
    ),
    Breakage(
        "anything can be deleted as metadata",
        "dredge.gc.metadata.taking",
        "delete_files",
        Keep("Call", "is_table_id", "args.0"),
        ("test_nothing_but_ranges_and_metaranges_can_be_deleted",),
    ),
    Breakage(
        "copies go that may still be put back",
        "dredge.gc.metadata.taking",
        "old_copies",
        Put("If", "descending_time", False),
        ("test_copies_of_metadata_go_when_no_run_puts_them_back_any_more",),
    ),
    Breakage(
        "an old copy goes though a commit names what it is of",
        "dredge.gc.metadata.taking",
        "old_copies",
        Put("BoolOp", 1, True, "values.0"),
        ("test_an_old_copy_of_what_a_commit_names_stays",),
    ),
    Breakage(
        "a dry run lets copies go",
        "dredge.gc.metadata.collecting",
        "_Collection._purge_copies",
        Put("If", "dry_run", True),
        ("test_copies_of_metadata_go_when_no_run_puts_them_back_any_more",),
    ),
)
