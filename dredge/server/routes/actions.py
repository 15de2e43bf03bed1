"""Routes of runs of actions."""

from __future__ import annotations

from dredge.auth import Action
from dredge.server.handlers import actions
from dredge.server.operations import Operation
from dredge.server.permissions import REPOSITORY as REPOSITORY_RESOURCE
from dredge.server.permissions import fs
from dredge.server.routes.paths import REPOSITORY

_READ = fs(Action.READ_ACTION, REPOSITORY_RESOURCE)

_RUNS = REPOSITORY + "/actions/runs"
_HOOKS = _RUNS + "/{run}/hooks"

ACTIONS: tuple[Operation, ...] = (
    Operation("GET", _RUNS, actions.list_repository_runs, _READ),
    Operation("GET", _RUNS + "/{run}", actions.get_run, _READ),
    Operation("GET", _HOOKS, actions.list_run_hooks, _READ),
    Operation("GET", _HOOKS + "/{hook_run}/output", actions.get_run_hook_output, _READ),
)
