"""Airflow's Variables as JSON.

Airflow says "not found" also where a secrets backend does not answer. So the state of a repository knows which
Variables its runs were bound by (`dredge.runs.consents`), and a missing one stops the run.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret

from airflow_dredge.operators.airflow_versions import AccessDenied
from dredge.errors import ConfigError, UnavailableError


def json_variable(name: str) -> Any:
    """Return what a Variable says; None when there is none.

    Asked for JSON, Airflow would log a text that is none, and give the default: settings that were to keep a run from
    deleting would be gone.

    :param name: of the Variable
    :raises ConfigError: it is no JSON, or null, or may not be read
    :raises UnavailableError: Airflow fails to look it up
    """
    try:
        text = _text_of(name)
    except AccessDenied:
        raise ConfigError(f"Airflow does not let this process read the Variable {name}") from None
    except Exception as error:
        # The words of the error may have secrets, so they are in no log and in no cause.
        raise UnavailableError(
            f"Airflow failed to look up the Variable {name} ({type(error).__name__}). Nothing was touched."
        ) from None
    if text is None:
        return None
    mask_secret(text, name)
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
    except ValueError as error:
        raise ConfigError(f"Variable {name} is no JSON: {error}") from None
    if found is None:
        raise ConfigError(f"Variable {name} is null; remove it, or write what it should say")
    return found


def _text_of(name: str) -> str | None:
    from airflow.sdk import Variable

    try:
        found: str | None = Variable.get(name, default=None)
    except ImportError:
        # The API server of Airflow 3.0 reads Variables by the model only.
        from airflow.models.variable import Variable as Model

        found = Model.get(name, default_var=None)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two members of one name the last would count, and what keeps a run from deleting may be in the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
