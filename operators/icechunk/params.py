"""Params of the Icechunk DAGs, their defaults, and the Variable of schedules."""

from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.params import SparkSettings, check_only_setting, make_params, templates
from dredge.icechunk.collection.config import CollectConfig, IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.expiration.config import ExpireConfig
from dredge.icechunk.many import ManyConfig
from dredge.settings import setting, settings_of

ICECHUNK_SCHEDULES = "dredge_icechunk_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `storage` and other Params of `icechunk_expiration`."""


@dataclass(frozen=True, kw_only=True)
class IcechunkTaskSettings(SparkSettings):
    """Params of tasks, in addition to the settings of expiration and collection."""

    collect: bool = setting("Collect", "Delete unreachable objects after the expiration.", default=True)
    collect_mode: str = setting(
        "How to collect",
        "`spark`: on Spark. `local`: in the Airflow worker.",
        default="spark",
        choices=("spark", "local"),
    )
    check_only: bool = check_only_setting()


_STORAGE, *_COLLECTION = settings_of(CollectConfig)
FORM = (_STORAGE, *settings_of(ExpireConfig), *settings_of(IcechunkTaskSettings), *_COLLECTION)

#: Arguments of every task.
RUN_DEFAULTS: dict[str, Any] = {
    **RETRIES,
    "storage": "{{ params.storage }}",
    "report_only": "{{ params.dry_run }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan_collection') or {}).get('run_uri', '') }}",
    "collect": "{{ params.collect }}",
    "mode": "{{ params.collect_mode }}",
    "spark_engine": "{{ params.spark_engine }}",
    "check_only": "{{ params.check_only }}",
    "spark_python": "{{ params.spark_python }}",
}

#: Forms of a restore and a purge.
RESTORE_FORM = tuple(settings_of(IcechunkRestoreConfig))
PURGE_FORM = tuple(settings_of(IcechunkPurgeConfig))

#: Form for many repositories: the choice, and the form of one repository.
FORM_OF_A_RUN = tuple(found.name for found in FORM if found.name not in ("storage", "check_only"))
ALL_FORM = (*settings_of(ManyConfig), *(found for found in FORM if found.name in FORM_OF_A_RUN))

#: Argument `which` of the choice.
WHICH: dict[str, str] = templates(settings_of(ManyConfig))

#: Argument `config` of the expiration's plan task.
EXPIRATION: dict[str, str] = templates(settings_of(ExpireConfig))

#: Argument `config` of the collection's plan task.
COLLECTION: dict[str, str] = templates(_COLLECTION)


def icechunk_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of an Icechunk run.

    :param defaults: values by name that replace the defaults, such as ``storage`` for a DAG with a schedule
    """
    return make_params(FORM, defaults)
