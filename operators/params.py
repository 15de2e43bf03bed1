"""Params of a DAG, made from settings, and their templates."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, Param

from dredge.settings import Setting, setting, with_nearest


def make_params(settings: Iterable[Setting], defaults: dict[str, Any]) -> dict[str, Param]:
    """Return a Param for each setting."""
    known = {setting.name: setting for setting in settings}
    if unknown := sorted(set(defaults) - known.keys()):
        raise TypeError(f"no such Param: {with_nearest(unknown[0], known)}")
    return {name: _param(setting, defaults) for name, setting in known.items()}


def share_params(dag: DAG) -> DAG:
    """Remove the tasks' own copies of the DAG's Params, and return the DAG.

    Tasks get the DAG's Params without copies. Airflow validates and stores each copy at every parse, which took 0.3 s
    and 190 kB for a DAG of 14 tasks.
    """
    for task in dag.tasks:
        task.params = type(dag.params)()
    return dag


def templates(settings: Iterable[Setting]) -> dict[str, str]:
    """Return a template for each setting, which renders the setting's Param."""
    return {setting.name: f"{{{{ params.{setting.name} }}}}" for setting in settings}


def is_given(rendered: str | None) -> bool:
    """Return whether a rendered Param has a value."""
    return rendered not in (None, "", "None")


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """Params of a DAG with Spark steps."""

    spark_engine: str = setting(
        "Spark engine",
        "`submit` runs spark-submit once a run (connection `spark_default`); `connect` uses the Spark Connect server"
        " of connection `spark_connect_default`.",
        default="submit",
        choices=("submit", "connect"),
    )
    spark_python: str | None = setting(
        "Python of Spark's executors",
        "A path on the executors' machines, the address of an environment that `dredge spark-env` packed"
        " (`.tar.gz`), or `image:NAME` on Kubernetes. Empty: the path of the Airflow worker's own Python.",
        default=None,
    )


def check_only_setting() -> Any:
    """Return the field of the Param ``check_only``."""
    return setting(
        "Check only",
        "Check everything that a run needs (`dredge … check`, a few seconds) and skip the run. The task `check`"
        " lists the results, and fails if a run would fail.",
        default=False,
    )


def _param(setting: Setting, defaults: dict[str, Any]) -> Param:
    given = defaults.get(setting.name, setting.default)
    # Without a default the form requires a value.
    value = () if setting.required and given is None else (given,)
    return Param(*value, title=setting.title, description_md=setting.description, **setting.schema())
