"""Files that a server prepares for garbage collection, and where they lie in the namespace.

    _lakefs/retention/gc/commits/run_id=<run>/commits.csv          active commits
    _lakefs/retention/gc/addresses/                                named in responses, never written
    _lakefs/retention/gc/uncommitted/<run>/uncommitted/<xid>       parquet, one file per page with rows

Source: lakeFS pkg/graveler/retention/garbage_collection_manager.go
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from dredge.lakefs.files.records import Commit

UNCOMMITTED = "_lakefs/retention/gc/uncommitted"
COMMITS = "_lakefs/retention/gc/commits"
ADDRESSES_KEY = "_lakefs/retention/gc/addresses/"
COLUMNS = ("commit_id", "expired", "metarange_id")


def commits_key(run_id: str) -> str:
    """Key of a run's CSV."""
    return f"{COMMITS}/run_id={run_id}/commits.csv"


def uncommitted_key(run_id: str) -> str:
    """Key of the folder of a run's parquet files."""
    return f"{UNCOMMITTED}/{run_id}/uncommitted/"


def commits_csv(active: Iterable[Commit]) -> bytes:
    """Write active commits. The metarange of a repository's first commit is empty (L8)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((commit.id, "false", commit.metarange_id) for commit in active)
    return text.getvalue().encode()
