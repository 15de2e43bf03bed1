"""The Params of the trash cleaner's DAGs, and how their tasks read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.check import check_only_setting
from airflow_dredge.operators.hooks.kv import DEFAULT_CONNECTION
from airflow_dredge.operators.params import params_of, templates
from airflow_dredge.operators.retry import by_family
from dredge.settings import setting, settings_of
from dredge.trash.settings import TrashConfig, TrashRestoreConfig


@dataclass(frozen=True, kw_only=True)
class LakeFSKVTaskSettings:
    """What the form asks for besides the cleaner's own settings."""

    kv_conn_id: str = setting(
        "Connection of the key-value store",
        "Of type `postgres`, `aws` (DynamoDB: extra `dynamodb_table`) or `sqlite`.",
        default=DEFAULT_CONNECTION,
    )


@dataclass(frozen=True, kw_only=True)
class LakeFSKVCheckSettings:
    """What the form of the cleaner asks for about its first task."""

    check_only: bool = check_only_setting()


CHECK = tuple(settings_of(LakeFSKVCheckSettings))
FORM = (*settings_of(LakeFSKVTaskSettings), *settings_of(TrashConfig), *CHECK)
RESTORE_FORM = (*settings_of(LakeFSKVTaskSettings), *settings_of(TrashRestoreConfig))

_DEFAULTS: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    **by_family(),
    **templates(settings_of(LakeFSKVTaskSettings)),
}
#: For every task of the cleaner's DAG, and of the one that puts rows back.
TRASH_DEFAULTS = {**_DEFAULTS, "config": templates(settings_of(TrashConfig)), **templates(CHECK)}
RESTORE_DEFAULTS = {**_DEFAULTS, "config": templates(settings_of(TrashRestoreConfig))}


def trash_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of the trash cleaner.

    :param defaults: values that differ from ours, by name, such as ``state_uri`` for a DAG with a schedule
    """
    return params_of(FORM, defaults)
