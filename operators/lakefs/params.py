"""Params of the lakeFS DAGs, their defaults, and the Variable of schedules."""

from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.params import SparkSettings, check_only_setting, make_params, templates
from airflow_dredge.operators.schedules import read_schedules, read_settings
from dredge.gc.config import GCConfig
from dredge.gc.many import ManyConfig
from dredge.gc.steps import MetadataConfig, PurgeConfig, RestoreConfig
from dredge.settings import setting, settings_of


@dataclass(frozen=True, kw_only=True)
class LakeFSTaskSettings(SparkSettings):
    """Params of tasks, in addition to the collector's settings."""

    kv_conn_id: str | None = setting(
        "Connection of lakeFS's key-value store",
        "Of type `postgres`, `aws` (DynamoDB) or `sqlite`. A run reads staging and commits from its records"
        " (`live_source`), and needs no requests to branches for objects with the content of a candidate. Empty: a"
        " run reads from the server only.",
        default=None,
    )
    spark_rows_min: int = setting(
        "Minimum number of rows for Spark",
        "A step with fewer objects runs in the Airflow worker, which takes less time than starting Spark (up to a"
        " GiB of memory). 0: always Spark.",
        default=1_000_000,
        minimum=0,
    )
    check_only: bool = check_only_setting()


#: The collector's settings in the form. `kv_conn_id` replaces `read_kv`.
COLLECTION = tuple(found for found in settings_of(GCConfig) if found.name != "read_kv")
FORM = (*COLLECTION, *settings_of(LakeFSTaskSettings))
#: Forms of a restore and a purge.
RESTORE_FORM = tuple(settings_of(RestoreConfig))
PURGE_FORM = tuple(settings_of(PurgeConfig))
#: Form of the metadata DAG: its settings and the key-value store.
METADATA = tuple(settings_of(MetadataConfig))
METADATA_FORM = (*METADATA, *(found for found in FORM if found.name == "kv_conn_id"))

#: Arguments of every task.
RUN_DEFAULTS: dict[str, Any] = {
    **RETRIES,
    "repository": "{{ params.repository }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan') or {}).get('run_uri', '') }}",
    **templates(settings_of(LakeFSTaskSettings)),
}

#: Argument `config` of the plan task.
CONFIG: dict[str, str] = templates(COLLECTION)

#: Form for all repositories: the choice, and the form of one repository.
FORM_OF_A_RUN = tuple(found.name for found in FORM if found.name not in ("repository", "check_only"))
ALL_FORM = (*settings_of(ManyConfig), *(found for found in FORM if found.name in FORM_OF_A_RUN))

#: Argument `which` of the choice.
WHICH: dict[str, str] = templates(settings_of(ManyConfig))


def gc_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of a lakeFS collection.

    :param defaults: values by name that replace the defaults, such as ``repository`` for a DAG with a
        schedule
    """
    return make_params(FORM, defaults)


GC_SCHEDULES = "dredge_gc_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `repository` and other Params of `lakefs_gc`."""


def gc_schedules() -> dict[str, dict[str, Any]]:
    """Return the settings of each scheduled collection, by DAG id."""
    return read_schedules(GC_SCHEDULES, "repository")


def repository_settings() -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the settings of repositories in the Variable; see ``read_settings``."""
    return read_settings(GC_SCHEDULES, "repository", FORM)
