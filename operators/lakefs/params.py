"""The Params of the DAGs, what a person sees in the form before a run, and how tasks read them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from dredge.gc.config import (
    AUTO,
    CLEAN,
    KEEP_DAYS_MIN,
    MIN_AGE_HOURS,
    OPTIMIZED,
    SLICE_MARGIN_HOURS,
    SLICE_OPEN_HOURS,
)
from operators.retry import RETRY_BY_FAMILY

#: For every task of a DAG: which run it belongs to, and tries enough to sit out a restart of a server.
RUN_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_policy": RETRY_BY_FAMILY,
    "repository": "{{ params.repository }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan') or {}).get('run_uri', '') }}",
    "spark_engine": "{{ params.spark_engine }}",
    "kv_conn_id": "{{ params.kv_conn_id }}",
}

#: Arguments of the plan step, read from the Params.
PLANNED: dict[str, Any] = {
    "mode": "{{ params.mode }}",
    "slice_margin_hours": "{{ params.slice_margin_hours }}",
    "clean_every_days": "{{ params.clean_every_days }}",
    "keep_runs_days": "{{ params.keep_runs_days }}",
    "report_only": "{{ params.dry_run }}",
    "min_age_hours": "{{ params.min_age_hours }}",
    "unsafe_min_age_seconds": "{{ params.unsafe_min_age_seconds }}",
    "max_delete_objects": "{{ params.max_delete_objects }}",
    "max_delete_percent": "{{ params.max_delete_percent }}",
    "run_root": "{{ params.run_root }}",
    "keep_tags": "{{ params.keep_tags }}",
    "retention_policy": "{{ params.retention_policy }}",
}

_LIMIT = "More than this stops the run: nothing is deleted. Empty: no limit."


def gc_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of a lakeFS collection.

    :param defaults: values that differ from ours, by name, such as ``repository`` for a DAG with a schedule
    """

    def param(name: str, default: Any, title: str, description: str, **schema: Any) -> tuple[str, Param]:
        value = (defaults.pop(name, default),)
        given = () if value == (None,) and schema["type"] == "string" else value
        return name, Param(*given, title=title, description_md=description, **schema)

    params = dict(
        (
            param("repository", None, "Repository", "Its name in lakeFS.", type="string", minLength=1),
            param(
                "mode",
                AUTO,
                "Mode",
                "`clean` reads everything. `optimized` reads what changed since the last complete run that was no"
                " dry run. `auto` is optimized, and clean at intervals. Without such a run before it, every run"
                " is a clean one.",
                type="string",
                enum=[AUTO, OPTIMIZED, CLEAN],
            ),
            param("dry_run", True, "Dry run", "Find and report garbage, **delete nothing**.", type="boolean"),
            param(
                "min_age_hours",
                MIN_AGE_HOURS,
                "Minimum age in hours",
                "Younger objects are kept. At least 25: lakeFS lets uploads be linked for 24, and its servers' clocks"
                " may differ.",
                type="number",
                minimum=MIN_AGE_HOURS,
            ),
            param(
                "unsafe_min_age_seconds",
                None,
                "Unsafe minimum age in seconds",
                "Replaces the minimum age and **can delete uploads in flight**. For tests, on a repository"
                " that nobody writes to. Empty: not used.",
                type=["null", "number"],
                minimum=0,
            ),
            param(
                "clean_every_days",
                30,
                "Days between clean runs",
                "An `auto` run is a clean one when the last clean run is as long ago. It finds what optimized runs"
                " cannot see, such as uploads into slices older than the margin.",
                type="number",
                minimum=0,
            ),
            param(
                "keep_runs_days",
                90,
                "Days that run folders are kept",
                "Older ones are removed at the end of a complete run, but for what later runs build on. A dry run says"
                " what would go. Empty: they stay for ever, and so do superseded counts of live objects.",
                type=["null", "number"],
                minimum=KEEP_DAYS_MIN,
            ),
            param(
                "slice_margin_hours",
                SLICE_MARGIN_HOURS,
                "Slice margin in hours",
                "Folders of uploads (slices) are listed again until they are as old as this, for uploads that take"
                " long or come late. At least 25 more than the minimum age.",
                type="number",
                minimum=SLICE_OPEN_HOURS,
            ),
            param(
                "max_delete_objects",
                None,
                "Most objects to delete",
                _LIMIT,
                type=["null", "integer"],
                minimum=0,
            ),
            param(
                "max_delete_percent",
                None,
                "Largest share to delete, in percent of the listed objects",
                _LIMIT,
                type=["null", "number"],
                minimum=0,
                maximum=100,
            ),
            param(
                "keep_tags",
                True,
                "Keep what tags name",
                "Commits with a tag stay active. lakeFS itself lets them expire like all others.",
                type="boolean",
            ),
            param(
                "retention_policy",
                None,
                "Retention policy",
                "What else stays, beyond lakeFS's own rules: a YAML file by absolute path or URI, or its text; see"
                " docs/retention.md. Empty: nothing.",
                type=["null", "string"],
                format="multiline",
            ),
            param(
                "kv_conn_id",
                None,
                "Connection of lakeFS's key-value store",
                "Of type `postgres`, `aws` (DynamoDB) or `sqlite`. Staging is then read from its records, too, and no"
                " object has to be asked for because its content looks familiar. Empty: only the server is asked.",
                type=["null", "string"],
            ),
            param(
                "run_root",
                None,
                "Run root",
                "URI of the folder for run folders. Empty: a place inside the repository's namespace.",
                type=["null", "string"],
            ),
            param(
                "spark_engine",
                "submit",
                "Spark engine",
                "`submit` runs spark-submit (connection `spark_default`); `connect` uses the Spark Connect"
                " server of connection `spark_connect_default`.",
                type="string",
                enum=["submit", "connect"],
            ),
        )
    )
    if defaults:
        raise TypeError(f"no such Param: {', '.join(sorted(defaults))}")
    return params
