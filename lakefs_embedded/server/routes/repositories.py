"""Routes of repositories, their metadata and their branch protection."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import repositories
from lakefs_embedded.server.operations import AUTHENTICATED, Operation, fs
from lakefs_embedded.server.operations import REPOSITORY as REPOSITORY_RESOURCE
from lakefs_embedded.server.routes.paths import REPOSITORY

_CREATE = fs(Action.CREATE_REPOSITORY, "repository/{.name}") + fs(
    Action.ATTACH_STORAGE_NAMESPACE, "namespace/{.storage_namespace}"
)
_READ = fs(Action.READ_REPOSITORY, REPOSITORY_RESOURCE)
_UPDATE = fs(Action.UPDATE_REPOSITORY, REPOSITORY_RESOURCE)
_DELETE = fs(Action.DELETE_REPOSITORY, REPOSITORY_RESOURCE)
_GET_PROTECTION = fs(Action.GET_BRANCH_PROTECTION, REPOSITORY_RESOURCE)
_SET_PROTECTION = fs(Action.SET_BRANCH_PROTECTION, REPOSITORY_RESOURCE)

_METADATA = REPOSITORY + "/metadata"
_PROTECTION = REPOSITORY + "/settings/branch_protection"
_DEPRECATED_PROTECTION = REPOSITORY + "/branch_protection"

REPOSITORIES: tuple[Operation, ...] = (
    # the handler leaves out repositories that the user may not list
    Operation("GET", "/repositories", repositories.list_repositories, AUTHENTICATED),
    Operation("POST", "/repositories", repositories.create_repository, _CREATE, schemas.REPOSITORY),
    Operation("GET", REPOSITORY, repositories.get_repository, _READ),
    Operation("DELETE", REPOSITORY, repositories.delete_repository, _DELETE),
    Operation("GET", _METADATA, repositories.get_repository_metadata, _READ),
    Operation("POST", _METADATA, repositories.set_repository_metadata, _UPDATE, schemas.METADATA_SET),
    Operation("DELETE", _METADATA, repositories.delete_repository_metadata, _UPDATE, schemas.METADATA_KEYS),
    Operation("GET", _PROTECTION, repositories.get_branch_protection, _GET_PROTECTION),
    Operation(
        "PUT", _PROTECTION, repositories.set_branch_protection, _SET_PROTECTION, schemas.BRANCH_PROTECTION
    ),
    Operation("GET", _DEPRECATED_PROTECTION, repositories.get_branch_protection, _GET_PROTECTION),
    Operation(
        "POST", _DEPRECATED_PROTECTION, repositories.add_branch_protection, _SET_PROTECTION, schemas.PATTERN
    ),
    Operation(
        "DELETE",
        _DEPRECATED_PROTECTION,
        repositories.delete_branch_protection,
        _SET_PROTECTION,
        schemas.PATTERN,
    ),
    Operation(
        "GET",
        _DEPRECATED_PROTECTION + "/set_allowed",
        repositories.check_branch_protection_set_allowed,
        _SET_PROTECTION,
    ),
)
