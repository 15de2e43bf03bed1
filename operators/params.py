"""Params of a DAG, made from settings, and their templates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.sdk import Param

from dredge.settings import Setting, setting, with_nearest


def make_params(settings: Iterable[Setting], defaults: dict[str, Any]) -> dict[str, Param]:
    """Return a Param for each setting.

    :raises TypeError: a default without a setting
    """
    known = {setting.name: setting for setting in settings}
    if unknown := sorted(set(defaults) - known.keys()):
        raise TypeError(f"no such Param: {with_nearest(unknown[0], known)}")
    return {name: _param(setting, defaults) for name, setting in known.items()}


def templates(settings: Iterable[Setting]) -> dict[str, str]:
    """Return a template for each setting with its Param."""
    return {setting.name: f"{{{{ params.{setting.name} }}}}" for setting in settings}


def check_only_setting() -> Any:
    """Return the field of the Param ``check_only``."""
    return setting(
        "Check only",
        "Check everything that a run needs (`dredge … check`, a few seconds) and skip the run. The task `check` lists"
        " the results, and fails where a run would.",
        default=False,
    )


def _param(setting: Setting, defaults: dict[str, Any]) -> Param:
    given = defaults.get(setting.name, setting.default)
    # Without a default the form requires a value.
    value = () if setting.required and given is None else (given,)
    return Param(*value, title=setting.title, description_md=setting.description, **setting.schema())
