"""The Params of the Icechunk DAG, what a person sees in the form before a run, and how tasks read them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from operators.retry import RETRY_BY_FAMILY

#: For every task of the DAG.
RUN_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_policy": RETRY_BY_FAMILY,
    "storage": "{{ params.storage }}",
    "report_only": "{{ params.dry_run }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan_collection') or {}).get('run_uri', '') }}",
    "mode": "{{ params.collect_mode }}",
    "spark_engine": "{{ params.spark_engine }}",
}

#: Arguments of the expiration's plan, read from the Params.
EXPIRATION: dict[str, Any] = {
    "older_than": "{{ params.older_than }}",
    "rule": "{{ params.rule }}",
    "delete_expired_branches": "{{ params.delete_expired_branches }}",
    "delete_expired_tags": "{{ params.delete_expired_tags }}",
    "estimate": "{{ params.estimate }}",
}

#: Arguments of the collection's plan, read from the Params.
COLLECTION: dict[str, Any] = {
    name: f"{{{{ params.{name} }}}}"
    for name in (
        "collect",
        "min_age_hours",
        "unsafe_min_age_seconds",
        "grace_hours",
        "overwritten_min_age_hours",
        "keep_chunks",
        "keep_transactions",
        "max_delete_objects",
        "max_delete_percent",
        "run_root",
    )
}

_LIMIT = "More than this stops the run: nothing is deleted. Empty: no limit."


def icechunk_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of an Icechunk maintenance run.

    :param defaults: values that differ from ours, by name, such as ``storage`` for a DAG with a schedule
    """
    made = {name: _param(name, given, defaults) for name, given in _PARAMS.items()}
    if defaults:
        raise TypeError(f"no such Param: {', '.join(sorted(defaults))}")
    return made


def _param(name: str, given: dict[str, Any], defaults: dict[str, Any]) -> Param:
    schema = dict(given)
    default = defaults.pop(name, schema.pop("default", None))
    schema.pop("default", None)
    description = schema.pop("text")
    # A required text without a value has no default at all, so that the form asks for it.
    value = () if default is None and schema["type"] == "string" else (default,)
    return Param(*value, description_md=description, **schema)


_PARAMS: dict[str, dict[str, Any]] = {
    "storage": {
        "title": "Repository",
        "text": "URI: `s3://bucket/prefix`, `gs://bucket/prefix` or a folder.",
        "type": "string",
        "minLength": 1,
    },
    "older_than": {
        "default": "30d",
        "title": "Older than",
        "text": "A duration (`30d`, `12h`), a date, or a time with its zone. Older snapshots leave history.",
        "type": "string",
        "minLength": 1,
    },
    "rule": {
        "title": "Rule",
        "text": "Empty: what Icechunk itself does. `document` and `spec_v1` can be applied to spec 1 only.",
        "type": ["null", "string"],
        "enum": [None, "document", "spec_v1", "spec_v2"],
    },
    "delete_expired_branches": {
        "default": False,
        "title": "Delete expired branches",
        "text": "Branches whose tip is expired go too; never main.",
        "type": "boolean",
    },
    "delete_expired_tags": {
        "default": False,
        "title": "Delete expired tags",
        "text": "Tags whose tip is expired go too. **Their names can never be used again.**",
        "type": "boolean",
    },
    "estimate": {
        "default": True,
        "title": "Estimate",
        "text": "Count what a collection would then free; reads every live manifest.",
        "type": "boolean",
    },
    "collect": {
        "default": True,
        "title": "Collect",
        "text": "Then delete the objects that nothing reaches.",
        "type": "boolean",
    },
    "collect_mode": {
        "default": "spark",
        "title": "How to collect",
        "text": "`spark` spreads the work, `local` does the same in the Airflow worker, `library` leaves it to"
        " Icechunk and has no ledger.",
        "type": "string",
        "enum": ["spark", "local", "library"],
    },
    "dry_run": {
        "default": True,
        "title": "Dry run",
        "text": "Plan and report, **change and delete nothing**.",
        "type": "boolean",
    },
    "min_age_hours": {
        "default": 168,
        "title": "Minimum age in hours",
        "text": "Younger objects stay. Must exceed the longest writing session; at least 24.",
        "type": "number",
        "minimum": 24,
    },
    "unsafe_min_age_seconds": {
        "title": "Unsafe minimum age in seconds",
        "text": "Replaces the minimum age and **can delete what writers are about to commit**. For tests. Empty:"
        " not used.",
        "type": ["null", "number"],
        "minimum": 0,
    },
    "grace_hours": {
        "default": 24,
        "title": "Grace in hours",
        "text": "Spec 1: how long released snapshots stay, because refs can be put on them.",
        "type": "number",
        "minimum": 0,
    },
    "overwritten_min_age_hours": {
        "title": "Age of old repo infos in hours",
        "text": "Spec 2: also delete older copies of the repo info. Empty: keep them.",
        "type": ["null", "number"],
        "minimum": 0,
    },
    "keep_chunks": {
        "default": False,
        "title": "Keep all chunks",
        "text": "Delete no chunk. For a repository that lacks live chunks, which holds every other run.",
        "type": "boolean",
    },
    "keep_transactions": {
        "default": False,
        "title": "Keep all transaction logs",
        "text": "Delete no transaction log. For a repository that lacks logs which its repo info names.",
        "type": "boolean",
    },
    "max_delete_objects": {
        "title": "Most objects to delete",
        "text": _LIMIT,
        "type": ["null", "integer"],
        "minimum": 0,
    },
    "max_delete_percent": {
        "title": "Largest share to delete, in percent of the listed objects",
        "text": _LIMIT,
        "type": ["null", "number"],
        "minimum": 0,
        "maximum": 100,
    },
    "run_root": {
        "title": "Run root",
        "text": "URI of the folder for run folders. Empty: inside the repository.",
        "type": ["null", "string"],
    },
    "spark_engine": {
        "default": "submit",
        "title": "Spark engine",
        "text": "`submit` runs spark-submit (connection `spark_default`); `connect` uses the Spark Connect server of"
        " connection `spark_connect_default`.",
        "type": "string",
        "enum": ["submit", "connect"],
    },
}
