"""Routes of pull requests."""

from __future__ import annotations

from dredge.auth import Action
from dredge.server import request_schemas as schemas
from dredge.server.handlers import pull_requests
from dredge.server.operations import Operation
from dredge.server.permissions import REPOSITORY as REPOSITORY_RESOURCE
from dredge.server.permissions import fs
from dredge.server.routes.paths import REPOSITORY

_LIST = fs(Action.LIST_PULL_REQUESTS, REPOSITORY_RESOURCE)
_READ = fs(Action.READ_PULL_REQUEST, REPOSITORY_RESOURCE)
_WRITE = fs(Action.WRITE_PULL_REQUEST, REPOSITORY_RESOURCE)

_PULLS = REPOSITORY + "/pulls"
_PULL = _PULLS + "/{pull}"

PULL_REQUESTS: tuple[Operation, ...] = (
    Operation("GET", _PULLS, pull_requests.list_pull_requests, _LIST),
    Operation("POST", _PULLS, pull_requests.create_pull_request, _WRITE, schemas.PULL_CREATION),
    Operation("GET", _PULL, pull_requests.get_pull_request, _READ),
    Operation("PATCH", _PULL, pull_requests.update_pull_request, _WRITE, schemas.PULL_CHANGE),
    # the handler also checks that the user may commit on the destination
    Operation("PUT", _PULL + "/merge", pull_requests.merge_pull_request, _WRITE),
)
