"""Files of garbage collection in a storage namespace: the rules, and lists prepared by a server.

    _lakefs/retention/gc/rules/config.json                         days of active commits, a protobuf message
    _lakefs/retention/gc/commits/run_id=<run>/commits.csv          active commits
    _lakefs/retention/gc/addresses/                                named in responses, never written
    _lakefs/retention/gc/uncommitted/<run>/uncommitted/<xid>       parquet, a file per page with rows

Source: lakeFS pkg/graveler/retention/garbage_collection_manager.go
"""

from __future__ import annotations

UNCOMMITTED = "_lakefs/retention/gc/uncommitted"
COMMITS = "_lakefs/retention/gc/commits"


def uncommitted_key(run_id: str) -> str:
    """Key of the folder of a run's parquet files."""
    return f"{UNCOMMITTED}/{run_id}/uncommitted/"
