"""Actions: the hooks that a repository asks for by files in it.

    service.py       Actions: what services of the catalog and the API call
    files.py         action files of a ref        model.py       what they say
    running.py       one run of hooks             conditions.py  their `if`
    webhook.py  airflow.py  lua/                  the types of hooks
    variables.py     secrets in their properties, and how they stay out of logs
    results.py       records of runs              outputs.py     logs and manifests

Nothing is skipped silently: a hook that cannot be run refuses the change that it would have had to approve.

Source: lakeFS pkg/actions (behaviour only).
"""

from __future__ import annotations

from dredge.graveler.actions.errors import ActionFileError, HookAbortedError
from dredge.graveler.actions.hooks import ApiCall, HookSettings
from dredge.graveler.actions.identity import acting_user
from dredge.graveler.actions.results import HookResult, RunResult
from dredge.graveler.actions.service import Actions

__all__ = [
    "ActionFileError",
    "Actions",
    "ApiCall",
    "HookAbortedError",
    "HookResult",
    "HookSettings",
    "RunResult",
    "acting_user",
]
