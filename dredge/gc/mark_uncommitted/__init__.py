"""Step mark_uncommitted: the staged addresses of all branches.

staged        the files of staged addresses, and one scan of staging by the server
proof         comparison of a scan with each branch's own list of changes
kv_store      lakeFS's key-value store: access, records of a repository, and the check that it is the server's own
staging       the step: scans and key-value records, until they are proved complete
"""

from dredge.gc.mark_uncommitted.kv_store import (
    Before,
    KVAccess,
    ReadCommits,
    RecordedCommits,
    RepositoryRecords,
    StoreCheck,
    list_branches,
    read_checked,
)
from dredge.gc.mark_uncommitted.proof import BranchReader, TooManyError, UnreadableError
from dredge.gc.mark_uncommitted.staged import MarkUncommittedOutput, StagedFiles
from dredge.gc.mark_uncommitted.staging import look_before_scan, read_records, scan_staging

__all__ = [
    "Before",
    "BranchReader",
    "KVAccess",
    "MarkUncommittedOutput",
    "ReadCommits",
    "RecordedCommits",
    "RepositoryRecords",
    "StagedFiles",
    "StoreCheck",
    "TooManyError",
    "UnreadableError",
    "list_branches",
    "look_before_scan",
    "read_checked",
    "read_records",
    "scan_staging",
]
