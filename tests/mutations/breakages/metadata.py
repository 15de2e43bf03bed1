"""Guards of the report on metadata: what it calls garbage is named by no commit that is known."""

from __future__ import annotations

from tests.mutations.breakages.breakage import GC, Breakage

METADATA = (
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
        "found.named.add(status.metarange_id)",
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
)
