"""Range and metarange files without a commit, left by failed commits, merges and imports.

named        all known commits, and the files in use by them
files        the files in `_lakefs/` by kind, with the report
collecting   a run: puts such files on a pending list and deletes those with a finished wait
deleting     copies, exact versions, and restored files

A commit may refer to an unused file later: `docs/decisions/metadata.md` has the conditions of a safe deletion.
"""
