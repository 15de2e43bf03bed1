"""Bounds that an administrator sets for the Params of every run, in the Variable `dredge_policy`.

    {"approval": {"fixed": "always"}, "max_delete_percent": {"maximum": 5}, "min_age_hours": {"minimum": 48}}

Who triggers a run chooses its Params, and can choose them without limits and approvals. Whoever may change Variables
can change the bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_dredge.operators.variables import json_variable
from dredge.errors import ConfigError, RefusedError
from dredge.settings import Setting, with_nearest

POLICY = "dredge_policy"
"""Variable: a JSON object of names of Params, each with `fixed`, `allowed`, `minimum` or `maximum`."""
_BOUNDS = ("fixed", "allowed", "minimum", "maximum")
#: Params that replace another one, whose bounds hold for the value in their place; and their unit in that of the other.
_REPLACES = {"unsafe_min_age_seconds": ("min_age_hours", 3600), "unsafe_grace_seconds": ("grace_hours", 3600)}

#: Params whose value is chosen by the run where they are empty, with the least that it may be.
_LEAST_WHEN_EMPTY = {"grace_hours": 20.0}


def check_policy(form: Sequence[Setting], values: Mapping[str, Any]) -> None:
    """Check the Params of a run against the policy; without a policy there are no bounds.

    :param form: settings that the DAG has as Params
    :param values: of the Params, by name
    :raises ConfigError: the policy may not be read, or has an unknown name or a bound that does not fit
    :raises UnavailableError: Airflow cannot tell whether there is a policy
    :raises RefusedError: the policy does not allow a value
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
                        f" {_WORDS[bound]} {_shown(bounds[bound])}. Nothing was touched. Start the run with an allowed"
                        " value, or ask who administers Airflow."
                    )


def present_variables(schedules: str, what: str, repository: str) -> dict[str, bool | None]:
    """Return which Variables bind the runs of a repository; see ``dredge.runs.consents.check_variables``.

    :param schedules: Variable of schedules
    :param what: the setting of an entry that names its repository
    :param repository: its name or URI
    :raises ConfigError: a Variable may not be read, or is no JSON
    :raises UnavailableError: Airflow fails to look a Variable up
    """
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
            raise _wrong(f"has a name that no Param has: {with_nearest(name, known)}")
        if not isinstance(bounds, Mapping) or not bounds:
            raise _wrong(f"{name} must be an object with one or more of {', '.join(_BOUNDS)}")
        for bound, limit in bounds.items():
            _check_bound(known[name], bound, limit)
    return {name: dict(bounds) for name, bounds in policy.items()}


def _check_bound(found: Setting, bound: str, limit: Any) -> None:
    if bound not in _BOUNDS:
        raise _wrong(f"{found.name} has an unknown bound {with_nearest(bound, _BOUNDS)}")
    if bound == "allowed" and not (isinstance(limit, list) and limit):
        raise _wrong(f"allowed of {found.name} must be a list of values")
    if bound in ("minimum", "maximum"):
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if not number or found.kind not in ("number", "integer"):
            raise _wrong(f"{bound} of {found.name} is {limit!r}; it must be a number, of a Param that is one")


def _effective(name: str, values: Mapping[str, Any]) -> Iterator[Any]:
    """Give the value that a run uses, which another Param may replace."""
    for replacing, (replaced, units) in _REPLACES.items():
        if name == replaced and values.get(replacing) is not None:
            yield values[replacing] / units
            return
    yield _LEAST_WHEN_EMPTY.get(name) if values[name] is None else values[name]


def _keeps(found: Setting, value: Any, bound: str, limit: Any) -> bool:
    if bound == "minimum":
        return value is None or value >= limit  # no value is no limit
    if bound == "maximum":
        return value is not None and value <= limit
    try:
        return value in [found.read(item) for item in (limit if bound == "allowed" else [limit])]
    except ConfigError as error:
        raise _wrong(f"{bound} does not fit: {error}") from None


def _every_setting() -> Iterator[Setting]:
    # Loaded by tasks only: the modules of Params are made before.
    from airflow_dredge.operators.icechunk import params as icechunk
    from airflow_dredge.operators.kv import params as kv
    from airflow_dredge.operators.lakefs import params as lakefs

    for forms in (lakefs, icechunk):
        for form in (forms.ALL_FORM, forms.FORM, forms.PURGE_FORM, forms.RESTORE_FORM):
            yield from form
    for form in (lakefs.METADATA_FORM, kv.FORM, kv.RESTORE_FORM):
        yield from form


def _wrong(what: str) -> ConfigError:
    return ConfigError(f"Variable {POLICY} {what}. Nothing was touched.")


def _shown(value: Any) -> str:
    return "empty" if value is None else json.dumps(value)
