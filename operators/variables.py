"""Airflow's Variables as JSON.

Airflow reports "not found" even if a secrets backend does not answer. So the state of a repository stores
which Variables limited earlier runs (`dredge.runs.consents`), and a missing one stops the run.
"""

import json
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret

from airflow_dredge.operators.airflow_versions import AccessDenied
from dredge.errors import ConfigError, UnavailableError


def json_variable(name: str) -> Any:
    """Return the JSON value of a Variable; None if it does not exist.

    Airflow's own JSON option would log invalid text and return the default, without the limits in the text.

    :raises ConfigError: the value is invalid JSON or null, or access is denied
    """
    try:
        text = _read_text(name)
    except AccessDenied:
        raise ConfigError(f"Airflow does not let this process read the Variable {name}") from None
    except Exception as error:
        # The error text may contain secrets, so it is in no log and no cause.
        raise UnavailableError(
            f"Airflow failed to look up the Variable {name} ({type(error).__name__}). Nothing was changed."
        ) from None
    if text is None:
        return None
    mask_secret(text, name)
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
    except ValueError as error:
        raise ConfigError(f"Variable {name} is invalid JSON: {error}") from None
    if found is None:
        raise ConfigError(f"Variable {name} is null; delete it or set a value")
    return found


def _read_text(name: str) -> str | None:
    from airflow.sdk import Variable

    try:
        found: str | None = Variable.get(name, default=None)
    except ImportError:
        # The API server of Airflow 3.0 reads Variables by the model only.
        from airflow.models.variable import Variable as Model

        found = Model.get(name, default_var=None)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise for a duplicate name: JSON parsers keep the last value, and the first may be the limit."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found
