"""Step mark_uncommitted: everything that branches have staged, read to the end.

step             notes what was read
staging          scans until a scan is proved complete; the re-check before deleting does the same
server_scan      one scan by the server, copied
extents          what a page of it may have covered
proof            what branches say about it, and why that proves it
branch_reader    asks the branches
kv_records       staging from the key-value store, as the proof or instead of the scan
kv_repository    the records of a repository; kv_access opens the store
kv_standing      what they are worth: whether it is the server's own store, as of now
"""

from dredge.gc.mark_uncommitted.branch_reader import BranchReader, TooManyError, UnreadableError
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.mark_uncommitted.kv_records import read_records
from dredge.gc.mark_uncommitted.kv_repository import RepositoryRecords
from dredge.gc.mark_uncommitted.kv_standing import Standing, look
from dredge.gc.mark_uncommitted.output import MarkUncommittedOutput, StagedFiles
from dredge.gc.mark_uncommitted.staging import scan_staging

__all__ = [
    "BranchReader",
    "KVAccess",
    "MarkUncommittedOutput",
    "RepositoryRecords",
    "StagedFiles",
    "Standing",
    "TooManyError",
    "UnreadableError",
    "look",
    "read_records",
    "scan_staging",
]
