"""Params of the trash cleaner's DAGs, and their defaults."""

from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param

from airflow_dredge.operators.failures import RETRIES
from airflow_dredge.operators.hooks.kv import DEFAULT_CONNECTION
from airflow_dredge.operators.params import check_only_setting, make_params, templates
from dredge.settings import setting, settings_of
from dredge.trash.findings import TrashConfig, TrashRestoreConfig


@dataclass(frozen=True, kw_only=True)
class LakeFSKVTaskSettings:
    """Params of tasks, in addition to the cleaner's settings."""

    kv_conn_id: str = setting(
        "Connection of the key-value store",
        "Of type `postgres`, `aws` (DynamoDB: extra `dynamodb_table`) or `sqlite`.",
        default=DEFAULT_CONNECTION,
    )


@dataclass(frozen=True, kw_only=True)
class LakeFSKVCheckSettings:
    """Params of the cleaner's first task."""

    check_only: bool = check_only_setting()


CHECK = tuple(settings_of(LakeFSKVCheckSettings))
FORM = (*settings_of(LakeFSKVTaskSettings), *settings_of(TrashConfig), *CHECK)
RESTORE_FORM = (*settings_of(LakeFSKVTaskSettings), *settings_of(TrashRestoreConfig))

_DEFAULTS: dict[str, Any] = {
    **RETRIES,
    **templates(settings_of(LakeFSKVTaskSettings)),
}
#: Arguments of every task of the cleaner's DAG, and of the restore.
TRASH_DEFAULTS = {**_DEFAULTS, "config": templates(settings_of(TrashConfig)), **templates(CHECK)}
RESTORE_DEFAULTS = {**_DEFAULTS, "config": templates(settings_of(TrashRestoreConfig))}


def trash_params(**defaults: Any) -> dict[str, Param]:
    """Return the Params of the trash cleaner.

    :param defaults: values by name that replace the defaults, such as ``state_uri`` for a DAG with a schedule
    """
    return make_params(FORM, defaults)
