"""The client of a lakeFS server; the SDK is imported nowhere else. What servers write is in `files`."""

from dredge.lakefs.client import LakeFSClient
from dredge.lakefs.model import (
    Change,
    Commit,
    CommitText,
    Environment,
    ObjectStats,
    PreparedCommits,
    Ref,
    Repository,
    Rules,
    UncommittedPage,
    Usage,
)
from dredge.lakefs.transport import QUESTIONS

__all__ = [
    "QUESTIONS",
    "Change",
    "Commit",
    "CommitText",
    "Environment",
    "LakeFSClient",
    "ObjectStats",
    "PreparedCommits",
    "Ref",
    "Repository",
    "Rules",
    "UncommittedPage",
    "Usage",
]
