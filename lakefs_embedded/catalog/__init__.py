"""lakeFS's rules as a library, without HTTP.

Start at `Catalog`: one service for each kind of call, one method for each API call. Methods raise errors of
`lakefs_embedded.errors` (with HTTP status) and return values of `results`. Times are aware UTC; `force` also changes a
read-only repository; `prefix`, `after` and `amount` select a page (listing.py).
"""

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.catalog import Catalog
from lakefs_embedded.catalog.garbage import Rules
from lakefs_embedded.catalog.imports import ImportPath, ImportStatus
from lakefs_embedded.catalog.model import CATALOG_DEFECTS, Settings
from lakefs_embedded.catalog.results import (
    CommitOverrides,
    DeleteError,
    Diff,
    ExpiredRecords,
    MergeBase,
    ObjectContent,
    ObjectStats,
    Page,
    PreparedCommits,
    PreparedUncommitted,
    PrepareStatus,
    SignedUrl,
)
from lakefs_embedded.catalog.signing import PresignUnsupportedError
from lakefs_embedded.refs.records import Commit, Tag

__all__ = [
    "CATALOG_DEFECTS",
    "Branch",
    "Catalog",
    "Commit",
    "CommitOverrides",
    "DeleteError",
    "Diff",
    "ExpiredRecords",
    "ImportPath",
    "ImportStatus",
    "MergeBase",
    "ObjectContent",
    "ObjectStats",
    "Page",
    "PrepareStatus",
    "PreparedCommits",
    "PreparedUncommitted",
    "PresignUnsupportedError",
    "Repository",
    "Rules",
    "Settings",
    "SignedUrl",
    "Tag",
]
