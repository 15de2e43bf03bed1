"""The Params of the Icechunk DAG, what a person sees in the form before a run, and how tasks read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.check import check_only_setting
from airflow_dredge.operators.params import params_of, templates
from airflow_dredge.operators.retry import by_family
from airflow_dredge.operators.spark import SparkSettings
from dredge.icechunk.collection.config import CollectConfig, IcechunkPurgeConfig, IcechunkRestoreConfig
from dredge.icechunk.expiration.config import ExpireConfig
from dredge.icechunk.many import ManyConfig
from dredge.settings import setting, settings_of

ICECHUNK_SCHEDULES = "dredge_icechunk_schedules"
"""Variable: a JSON object of DAG ids, each with `schedule`, `storage` and other Params of `icechunk_expiration`."""


@dataclass(frozen=True, kw_only=True)
class IcechunkTaskSettings(SparkSettings):
    """What the form asks for besides the settings of expiration and collection: which tasks work, and where."""

    collect: bool = setting("Collect", "Then delete unreachable objects.", default=True)
    collect_mode: str = setting(
        "How to collect",
        "`spark`: on Spark. `local`: in the Airflow worker.",
        default="spark",
        choices=("spark", "local"),
    )
    check_only: bool = check_only_setting()


_STORAGE, *_COLLECTION = settings_of(CollectConfig)
FORM = (_STORAGE, *settings_of(ExpireConfig), *settings_of(IcechunkTaskSettings), *_COLLECTION)

#: For every task of the DAG.
RUN_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    **by_family(),
    "storage": "{{ params.storage }}",
    "report_only": "{{ params.dry_run }}",
    "run_uri": "{{ (ti.xcom_pull(task_ids='plan_collection') or {}).get('run_uri', '') }}",
    "collect": "{{ params.collect }}",
    "mode": "{{ params.collect_mode }}",
    "spark_engine": "{{ params.spark_engine }}",
    "check_only": "{{ params.check_only }}",
    "spark_python": "{{ params.spark_python }}",
}

#: What the forms of a restore and of a purge ask for.
RESTORE_FORM = tuple(settings_of(IcechunkRestoreConfig))
PURGE_FORM = tuple(settings_of(IcechunkPurgeConfig))

#: For the task of a restore or a purge, which is a whole run of its own, and for those about many repositories.
UNDO_DEFAULTS: dict[str, Any] = {
    name: value for name, value in RUN_DEFAULTS.items() if name.startswith("retr")
}

#: What the form of many repositories asks for: which ones, and for each what the form of one asks for.
FORM_OF_A_RUN = tuple(found.name for found in FORM if found.name not in ("storage", "check_only"))
ALL_FORM = (*settings_of(ManyConfig), *(found for found in FORM if found.name in FORM_OF_A_RUN))

#: Which repositories, read from the Params.
WHICH: dict[str, str] = templates(settings_of(ManyConfig))

#: The `config` of the step that plans the expiration, read from the Params.
EXPIRATION: dict[str, str] = templates(settings_of(ExpireConfig))

#: The `config` of the step that plans the collection, read from the Params.
COLLECTION: dict[str, str] = templates(_COLLECTION)


def icechunk_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of an Icechunk maintenance run.

    :param defaults: values that differ from ours, by name, such as ``storage`` for a DAG with a schedule
    """
    return params_of(FORM, defaults)
