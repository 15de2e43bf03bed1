"""The Params of the trash cleaner's DAG, and how its tasks read them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from dredge.trash.finding import KINDS
from operators.hooks.kv import DEFAULT_CONNECTION
from operators.retry import RETRY_BY_FAMILY

#: For every task of the DAG.
TRASH_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_policy": RETRY_BY_FAMILY,
    "kv_conn_id": "{{ params.kv_conn_id }}",
    "state_uri": "{{ params.state_uri }}",
    "grace_hours": "{{ params.grace_hours }}",
    "unsafe_grace_seconds": "{{ params.unsafe_grace_seconds }}",
    "kinds": "{{ params.kinds | join(',') }}",
    "read_rate": "{{ params.read_rate }}",
}


def trash_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of the trash cleaner.

    :param defaults: values that differ from ours, by name, such as ``state_uri`` for a DAG with a schedule
    """
    state = (defaults["state_uri"],) if "state_uri" in defaults else ()
    params = {
        "kv_conn_id": Param(
            defaults.pop("kv_conn_id", DEFAULT_CONNECTION),
            title="Connection of the key-value store",
            description_md="Of type `postgres`, `aws` (DynamoDB: extra `dynamodb_table`) or `sqlite`.",
            type="string",
            minLength=1,
        ),
        "state_uri": Param(
            *state,
            title="State folder",
            description_md="URI of a folder for sightings, undo files and reports; the same one every time.",
            type="string",
            minLength=1,
        ),
        "dry_run": Param(
            defaults.pop("dry_run", True),
            title="Dry run",
            description_md="Find and report trash, **remove nothing**.",
            type="boolean",
        ),
        "grace_hours": Param(
            defaults.pop("grace_hours", 24),
            title="Grace in hours",
            description_md="How far apart two looks must be that see the same unused bytes. At least 24.",
            type="number",
            minimum=24,
        ),
        "unsafe_grace_seconds": Param(
            defaults.pop("unsafe_grace_seconds", None),
            title="Unsafe grace in seconds",
            description_md="Replaces the grace and **can remove what is still being written**. For tests, on a store"
            " that nobody writes to. Empty: not used.",
            type=["null", "number"],
            minimum=0,
        ),
        "kinds": Param(
            defaults.pop("kinds", []),
            title="Kinds",
            description_md="Only these kinds of trash. Empty: all.",
            type="array",
            items={"type": "string", "enum": list(KINDS)},
            examples=list(KINDS),
        ),
        "max_partitions": Param(
            defaults.pop("max_partitions", None),
            title="Most partitions to remove",
            description_md="More than this, and nothing is removed. Empty: 10,000.",
            type=["null", "integer"],
            minimum=0,
        ),
        "max_rows": Param(
            defaults.pop("max_rows", None),
            title="Most rows to remove",
            description_md="More than this, and nothing is removed. Empty: 1,000,000.",
            type=["null", "integer"],
            minimum=0,
        ),
        "read_rate": Param(
            defaults.pop("read_rate", None),
            title="Read rate",
            description_md="DynamoDB: most read capacity units a second. Empty: no bound.",
            type=["null", "number"],
            exclusiveMinimum=0,
        ),
    }
    defaults.pop("state_uri", None)
    if defaults:
        raise TypeError(f"no such Param: {', '.join(sorted(defaults))}")
    return params
