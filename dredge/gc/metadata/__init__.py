"""Range and metarange files without a commit, left by failed commits, merges and imports.

files        all known commits, the files in use by them, and the files in `_lakefs/` by kind, with the report
collecting   a run: puts such files on a pending list and deletes those with a finished wait
deleting     copies, exact versions, and restored files

A commit may refer to an unused file later: `docs/decisions/metadata.md` has the conditions of a safe deletion.
"""
