"""Checks of a run before each of its tasks: its conf, its Params, and the policy.

The policy is a Variable with limits for the Params of every run, set by an administrator:

    {"approval": {"fixed": "always"}, "max_delete_percent": {"maximum": 5}, "min_age_hours": {"minimum": 48}}

Airflow silently drops unknown names in a conf (`max_delete_object`), and ignores a conf's values with `[core]
dag_run_conf_overrides_params = False`. A run whose Params differ from its conf is refused.

Source: P26 of docs/platform-behaviour.md
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.failures import reported
from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, RefusedError
from dredge.settings import Setting, with_nearest

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context


POLICY = "dredge_policy"
"""Variable: a JSON object of Params, each with `fixed`, `allowed`, `minimum` or `maximum`."""
_BOUNDS = ("fixed", "allowed", "minimum", "maximum")
#: Params that replace another one and are subject to its limits; with the conversion of their unit.
_REPLACES = {"unsafe_min_age_seconds": ("min_age_hours", 3600), "unsafe_grace_seconds": ("grace_hours", 3600)}

#: Params with an automatic value when empty, and its minimum.
_LEAST_WHEN_EMPTY = {"grace_hours": 20.0}


def check_policy(form: Sequence[Setting], values: Mapping[str, Any]) -> None:
    """Check the Params of a run against the policy, if there is one.

    :raises RefusedError: a value is outside the policy's limits
    """
    policy = _read_policy()
    for found in form:
        bounds = policy.get(found.name)
        if bounds is None:
            continue
        for value in _effective(found.name, values):
            for bound in bounds:
                if not _keeps(found, value, bound, bounds[bound]):
                    raise RefusedError(
                        f"{found.name} is {_shown(value)}; the Variable {POLICY} allows"
                        f" {_WORDS[bound]} {_shown(bounds[bound])}. Nothing was changed. Start the run with an allowed"
                        " value, or ask an Airflow administrator."
                    )


def present_variables(schedules: str, what: str, repository: str) -> dict[str, bool | None]:
    """Return which Variables that limit the runs of a repository exist; see `dredge.runs.consents`."""
    entries = json_variable(schedules)
    named = isinstance(entries, Mapping) and any(
        isinstance(entry, Mapping) and str(entry.get(what)).rstrip("/") == repository.rstrip("/")
        for entry in entries.values()
    )
    return {
        POLICY: json_variable(POLICY) is not None,
        schedules: False if entries is None else named or None,
    }


_WORDS = {"fixed": "only", "allowed": "only one of", "minimum": "at least", "maximum": "at most"}


def _read_policy() -> dict[str, dict[str, Any]]:
    policy = json_variable(POLICY)
    if policy is None:
        return {}
    known = {found.name: found for found in _every_setting()}
    if not isinstance(policy, Mapping):
        raise _wrong('must be an object such as {"approval": {"fixed": "always"}}')
    for name, bounds in policy.items():
        if name not in known:
            raise _wrong(f"has an unknown Param: {with_nearest(name, known)}")
        if not isinstance(bounds, Mapping) or not bounds:
            raise _wrong(f"{name} must be an object with one or more of {', '.join(_BOUNDS)}")
        for bound, limit in bounds.items():
            _check_bound(known[name], bound, limit)
    return {name: dict(bounds) for name, bounds in policy.items()}


def _check_bound(found: Setting, bound: str, limit: Any) -> None:
    if bound not in _BOUNDS:
        raise _wrong(f"{found.name} has an unknown bound {with_nearest(bound, _BOUNDS)}")
    if bound == "allowed" and not (isinstance(limit, list) and limit):
        raise _wrong(f"`allowed` of {found.name} must be a list of values")
    if bound in ("minimum", "maximum"):
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not number or found.kind not in ("number", "integer"):
            raise _wrong(f"{bound} of {found.name} is {limit!r}; it must be a number, for a numeric Param")


def _effective(name: str, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the value in use: of another Param that replaces this one, or the default of an empty one."""
    for replacing, (replaced, units) in _REPLACES.items():
        if name == replaced and values.get(replacing) is not None:
            yield values[replacing] / units
            return
    yield _LEAST_WHEN_EMPTY.get(name) if values[name] is None else values[name]


def _keeps(found: Setting, value: Any, bound: str, limit: Any) -> bool:
    if bound == "minimum":
        return value is None or value >= limit  # an empty Param is unlimited
    if bound == "maximum":
        return value is not None and value <= limit
    try:
        return value in [found.read(item) for item in (limit if bound == "allowed" else [limit])]
    except ConfigError as error:
        raise _wrong(f"invalid {bound}: {error}") from None


def _every_setting() -> Iterator[Setting]:
    # Imported by tasks only, because the modules of Params import this one's users.
    from airflow_dredge.operators.icechunk import params as icechunk
    from airflow_dredge.operators.kv import params as kv
    from airflow_dredge.operators.lakefs import params as lakefs

    for forms in (lakefs, icechunk):
        for form in (forms.ALL_FORM, forms.FORM, forms.PURGE_FORM, forms.RESTORE_FORM):
            yield from form
    for form in (lakefs.METADATA_FORM, kv.FORM, kv.RESTORE_FORM):
        yield from form


def _wrong(what: str) -> ConfigError:
    return ConfigError(f"Variable {POLICY} {what}. Nothing was changed.")


def _shown(value: Any) -> str:
    return "empty" if value is None else json.dumps(value)


#: Names that Airflow adds to a conf: the OpenLineage provider adds ids of the triggering task.
_OF_AIRFLOW = frozenset({"openlineage"})

#: Argument of a task that reports or cleans up: it also runs after a refusal.
UNCHECKED: dict[str, Any] = {"pre_execute": None}


#: Airflow task arguments that a DAG's author may set. Other arguments are part of a run's safety.
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


def task_arguments(
    form: Iterable[Setting], default_args: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the default arguments of a DAG's tasks, with the check of conf, Params and policy before each task.

    Each task runs the check, because a person can mark the first task as success.

    :param own: arguments of the DAG's author, such as ``{"pool": "gc", "queue": "spark"}``; durations may be
        seconds
    :raises TypeError: an argument outside `TASK_ARGUMENTS`
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
    """The check, as a ``pre_execute`` callable."""

    form: tuple[Setting, ...]

    def __call__(self, context: Context) -> None:
        """Check the run of a task."""
        _check(context["task"], context, form=self.form)


@reported
def _check(_task: BaseOperator, context: Context, form: tuple[Setting, ...]) -> None:
    settings = {found.name: found for found in form}
    conf: Mapping[str, Any] = getattr(context["dag_run"], "conf", None) or {}
    for name in sorted(conf.keys() - settings.keys() - _OF_AIRFLOW):
        raise ConfigError(
            f"the run's conf has an unknown Param: {with_nearest(name, settings)}. Nothing was changed."
        )
    values = {name: found.read(context["params"][name]) for name, found in settings.items()}
    for name in settings.keys() & conf.keys():
        if settings[name].read(conf[name]) != values[name]:
            raise ConfigError(
                f"the run's conf has {name} = {conf[name]!r}, but the Param is {values[name]!r}: with [core]"
                " dag_run_conf_overrides_params = False Airflow ignores a run's conf. Nothing was changed. Set it to"
                " True, or start a DAG with these values as defaults."
            )
    check_policy(form, values)
