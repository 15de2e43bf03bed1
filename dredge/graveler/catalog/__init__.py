"""lakeFS's rules as a library: what the HTTP API does, without HTTP.

Start at `Catalog`, which holds one service for each kind of call. A method has the name of its API call,
raises errors of `dredge.graveler.errors`, which know their HTTP status, and returns values of `results`.
"""

from __future__ import annotations

from dredge.graveler.catalog.catalog import Catalog
from dredge.graveler.catalog.dump_files import RefsDump
from dredge.graveler.catalog.dumps import RefsTask
from dredge.graveler.catalog.imports import ImportPath, ImportStatus
from dredge.graveler.catalog.results import (
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
from dredge.graveler.catalog.settings import CATALOG_DEFECTS, Settings
from dredge.graveler.catalog.signed_urls import PresignUnsupportedError
from dredge.graveler.refs.records import Branch, Commit, Repository, Tag
from dredge.graveler.retention.rules import Rules

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
    "RefsDump",
    "RefsTask",
    "Repository",
    "Rules",
    "Settings",
    "SignedUrl",
    "Tag",
]
