"""Checks what a run was asked to do, before each of its tasks does anything.

A run's conf may have a name that no Param has (`max_delete_object`), and Airflow drops it without a word. It may also
have a value that is not used: with `[core] dag_run_conf_overrides_params = False` a conf of `{"dry_run": true}` changes
nothing. Either way the run would do something else than it was asked to do, so it is refused.

Source: P26 of docs/platform-behaviour.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.policy import check_policy
from dredge.errors import ConfigError
from dredge.settings import Setting, with_nearest

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

#: Names that Airflow itself adds to a conf: the OpenLineage provider adds ids of the task that triggered the run.
_OF_AIRFLOW = frozenset({"openlineage"})

#: Argument of a task that only reports or cleans up after the others: it runs also when the run was refused.
UNCHECKED: dict[str, Any] = {"pre_execute": None}


#: Airflow's arguments of tasks that whoever makes a DAG may set; the others are part of what makes a run safe.
TASK_ARGUMENTS = frozenset(
    {
        "email",
        "email_on_failure",
        "email_on_retry",
        "execution_timeout",
        "executor",
        "executor_config",
        "on_execute_callback",
        "on_failure_callback",
        "on_retry_callback",
        "on_skipped_callback",
        "on_success_callback",
        "owner",
        "pool",
        "pool_slots",
        "priority_weight",
        "queue",
        "retries",
        "retry_delay",
        "run_as_user",
        "weight_rule",
    }
)
_DURATIONS = ("execution_timeout", "retry_delay")


def checked_tasks(
    form: Iterable[Setting], default_args: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the default arguments of a DAG's tasks, with the check of conf, Params and policy before each task.

    Each task is checked, not the first one alone: a person can mark the first one as successful.

    :param form: settings that the DAG has as Params
    :param default_args: further default arguments
    :param own: of whoever makes the DAG, such as ``{"pool": "gc", "queue": "spark"}``; durations may be in seconds
    :raises TypeError: an argument that may not be set
    """
    own = dict(own or {})
    if unknown := sorted(own.keys() - TASK_ARGUMENTS):
        raise TypeError(f"default_args has no such argument: {with_nearest(unknown[0], TASK_ARGUMENTS)}")
    for name in _DURATIONS:
        if isinstance(own.get(name), int | float):
            own[name] = timedelta(seconds=own[name])
    return {**default_args, **own, "pre_execute": RunCheck(tuple(form))}


@dataclass(frozen=True)
class RunCheck:
    """The check, as Airflow calls it before a task.

    :param form: settings that the DAG has as Params
    """

    form: tuple[Setting, ...]

    def __call__(self, context: Context) -> None:
        """Check the run of a task.

        :param context: of the task
        :raises ConfigError: an unknown name, a value that does not fit, or a conf that differs from the Params
        :raises RefusedError: the policy does not allow a value
        """
        _check(context["task"], context, form=self.form)


@reported
def _check(_task: BaseOperator, context: Context, form: tuple[Setting, ...]) -> None:
    settings = {found.name: found for found in form}
    conf: Mapping[str, Any] = getattr(context["dag_run"], "conf", None) or {}
    for name in sorted(conf.keys() - settings.keys() - _OF_AIRFLOW):
        raise ConfigError(
            f"the run's conf has a name that no Param has: {with_nearest(name, settings)}. Nothing was touched."
        )
    values = {name: found.read(context["params"][name]) for name, found in settings.items()}
    for name in settings.keys() & conf.keys():
        if settings[name].read(conf[name]) != values[name]:
            raise ConfigError(
                f"the run's conf asks for {name} = {conf[name]!r}, but the Param is {values[name]!r}: Airflow does not"
                " apply a run's conf with [core] dag_run_conf_overrides_params = False. Nothing was touched. Set it to"
                " True, or start a DAG whose Params have these values."
            )
    check_policy(form, values)
