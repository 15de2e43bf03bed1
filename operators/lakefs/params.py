"""Params of the lakeFS DAGs, their defaults, and the Variable of schedules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.failures import by_family
from airflow_dredge.operators.params import check_only_setting, params_of, templates
from airflow_dredge.operators.schedules import schedules_in, settings_in
from airflow_dredge.operators.spark import SparkSettings
from dredge.gc.config import GCConfig
from dredge.gc.many.choose import ManyConfig
from dredge.gc.steps import MetadataConfig, PurgeConfig, RestoreConfig
from dredge.settings import setting, settings_of


@dataclass(frozen=True, kw_only=True)
class LakeFSTaskSettings(SparkSettings):
    """What the form asks for besides the collector's own settings: how its tasks reach what they work with."""

    kv_conn_id: str | None = setting(
        "Connection of lakeFS's key-value store",
        "Of type `postgres`, `aws` (DynamoDB) or `sqlite`. Staging and commits are read from its records"
        " (`live_source`), and no branch has to be asked about objects with the content of a candidate."
        " Empty: only the server is asked.",
        default=None,
    )
    spark_rows_min: int = setting(
        "Rows from which Spark is used",
        "A step on fewer objects runs in the Airflow worker, which takes less time than starting Spark. 0:"
        " Spark is always used.",
        default=25_000,
        minimum=0,
    )
    check_only: bool = check_only_setting()


#: The collector's settings that the form asks for. `kv_conn_id` says whether it reads the key-value store.
COLLECTION = tuple(found for found in settings_of(GCConfig) if found.name != "read_kv")
FORM = (*COLLECTION, *settings_of(LakeFSTaskSettings))
#: What the forms of a restore and of a purge ask for.
RESTORE_FORM = tuple(settings_of(RestoreConfig))
PURGE_FORM = tuple(settings_of(PurgeConfig))
#: What the form of the metadata DAG asks for: the settings, and how the task reaches the key-value store.
METADATA = tuple(settings_of(MetadataConfig))
METADATA_FORM = (*METADATA, *(found for found in FORM if found.name == "kv_conn_id"))

#: For every task of a DAG: which run it belongs to, and tries enough to sit out a restart of a server.
RUN_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    **by_family(),
    "repository": "{{ params.repository }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan') or {}).get('run_uri', '') }}",
    **templates(settings_of(LakeFSTaskSettings)),
}

#: For the task of a restore or a purge, which is a whole run of its own.
UNDO_DEFAULTS: dict[str, Any] = {
    name: value for name, value in RUN_DEFAULTS.items() if name.startswith("retr")
}

#: The plan step's `config`, read from the Params.
CONFIG: dict[str, str] = templates(COLLECTION)

#: What the form of all repositories asks for: which ones, and for each what the form of one asks for.
FORM_OF_A_RUN = tuple(found.name for found in FORM if found.name not in ("repository", "check_only"))
ALL_FORM = (*settings_of(ManyConfig), *(found for found in FORM if found.name in FORM_OF_A_RUN))

#: For the tasks about all repositories.
ALL_DEFAULTS: dict[str, Any] = {
    name: value for name, value in RUN_DEFAULTS.items() if name.startswith("retr")
}

#: Which repositories, read from the Params.
WHICH: dict[str, str] = templates(settings_of(ManyConfig))


def gc_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of a lakeFS collection.

    :param defaults: values that differ from ours, by name, such as ``repository`` for a DAG with a schedule
    """
    return params_of(FORM, defaults)


GC_SCHEDULES = "dredge_gc_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `repository` and other Params of `lakefs_gc`."""


def gc_schedules() -> dict[str, dict[str, Any]]:
    """Return what each scheduled collection is to be made with, by DAG id.

    :raises ConfigError: the Variable does not say what it should; Airflow shows it as an import error
    """
    return schedules_in(GC_SCHEDULES, "repository")


def repository_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings that repositories have in the Variable; see ``settings_in``."""
    return settings_in(GC_SCHEDULES, "repository", FORM)
