"""Guards of the report on metadata: what it calls garbage is named by no commit that is known."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

_COLLECTING = f"{GC}/metadata/collecting.py"

METADATA = (
    Breakage(
        "files go that another repository on the namespace may name",
        _COLLECTING,
        "if shared := self._shared():",
        "if shared := '':",
        ("test_what_another_repository_on_the_namespace_may_name_stays",),
    ),
    Breakage(
        "files of commits that nothing leads to are garbage",
        f"{GC}/metadata/report.py",
        "unreachable = {commit.metarange_id for commit in history.unreachable.values()}",
        "unreachable = set[str]()",
        ("test_a_commit_that_nothing_leads_to_keeps_its_files_and_is_told_of_once_no_rule_keeps_it",),
    ),
    Breakage(
        "files that were just written are garbage",
        f"{GC}/metadata/files.py",
        "elif info.last_modified >= cutoff:",
        "elif False:",
        ("test_young_files_are_nobodys_garbage",),
    ),
    Breakage(
        "what an import made is garbage",
        f"{GC}/metadata/history.py",
        "named.add(status.metarange_id)",
        "pass",
        ("test_an_import_that_has_not_ended_is_told_of_and_what_imports_made_is_kept",),
    ),
    Breakage(
        "refs dumps are garbage",
        f"{GC}/metadata/files.py",
        "if envelope.entity is not None:",
        "if False:",
        ("test_refs_dumps_are_no_garbage",),
    ),
    Breakage(
        "ranges that a commit's metarange names are garbage",
        f"{GC}/metadata/files.py",
        "found.update(info.id for info in metarange.ranges)",
        "pass",
        ("test_on_random_histories_no_file_that_any_commit_names_is_garbage_and_what_was_left_is",),
    ),
    Breakage(
        "metadata goes by name",
        "dredge/storage/memory.py",
        "if name in store.objects and store.older.forget_current(name, version_id):",
        "if name in store.objects:",
        ("test_whenever_a_commit_writes_its_files_and_names_them_they_are_there",),
    ),
    Breakage(
        "metadata goes though the records are a copy's",
        _COLLECTING,
        "if found.standing.doubt:",
        "if False:",
        ("test_what_a_copy_of_the_store_does_not_know_stays",),
    ),
    Breakage(
        "metadata goes while an import is at work",
        _COLLECTING,
        "if found.at_work:",
        "if False:",
        ("test_while_an_import_is_at_work_nothing_goes",),
    ),
    Breakage(
        "metadata goes though nobody knows what a commit names",
        _COLLECTING,
        "if found.missing:",
        "if False:",
        ("test_a_commit_whose_metarange_is_gone_keeps_everything",),
    ),
    Breakage(
        "metadata goes that was written again since its note",
        _COLLECTING,
        "earlier.get(file.name) == file.versions",
        "file.name in earlier",
        ("test_a_file_that_was_written_again_between_two_notes_stays",),
    ),
    Breakage(
        "two notes of metadata may be of one moment",
        _COLLECTING,
        "summary.finished_at <= before",
        "True",
        ("test_two_notes_must_be_as_far_apart_as_a_file_is_old",),
    ),
    Breakage(
        "ranges of a metarange that was just written go",
        _COLLECTING,
        "named = found.files | self.names.of_tables([name for name in names if _is_unnamed(name, found)])",
        "named = found.files",
        ("test_ranges_that_a_young_metarange_names_stay",),
    ),
    Breakage(
        "what a commit has come to name is not put back",
        _COLLECTING,
        "missing = found.files - there",
        "missing = set[str]()",
        ("test_who_names_a_file_by_its_id_gets_it_back_with_the_next_run",),
    ),
    Breakage(
        "a version of the time before versioning goes",
        "dredge/storage/undo.py",
        'if version_id in ("", NULL_VERSION):',
        "if False:",
        ("test_a_version_of_the_time_before_versioning_is_never_deleted",),
    ),
    Breakage(
        "anything can be deleted as metadata",
        f"{GC}/metadata/taking.py",
        "(file.name for file in files if not is_table_id(file.name))",
        "(file.name for file in files if not file.name)",
        ("test_nothing_but_ranges_and_metaranges_can_be_deleted",),
    ),
    Breakage(
        "copies go that may still be put back",
        f"{GC}/metadata/taking.py",
        "        if descending_time(run_id) >= now - timedelta(days=days):\n            continue\n",
        "",
        ("test_copies_of_metadata_go_when_no_run_puts_them_back_any_more",),
    ),
    Breakage(
        "an old copy goes though a commit names what it is of",
        f"{GC}/metadata/taking.py",
        "if name not in named and is_table_id(name)]",
        "if is_table_id(name)]",
        ("test_an_old_copy_of_what_a_commit_names_stays",),
    ),
    Breakage(
        "a dry run lets copies go",
        f"{GC}/metadata/collecting.py",
        "            if not self.config.dry_run:\n                with",
        "            if True:\n                with",
        ("test_copies_of_metadata_go_when_no_run_puts_them_back_any_more",),
    ),
)
