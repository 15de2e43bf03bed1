"""Routes of objects: read at any ref, written on a branch."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import object_reads, object_writes
from lakefs_embedded.server.operations import AUTHENTICATED, OBJECT, REPOSITORY, Operation, fs
from lakefs_embedded.server.routes.paths import BRANCH, REF

_READ = fs(Action.READ_OBJECT, OBJECT)
_WRITE = fs(Action.WRITE_OBJECT, OBJECT)
_DELETE = fs(Action.DELETE_OBJECT, OBJECT)
_LIST = fs(Action.LIST_OBJECTS, REPOSITORY)
_COPY = fs(Action.READ_OBJECT, REPOSITORY + "/object/{.src_path}") + fs(
    Action.WRITE_OBJECT, REPOSITORY + "/object/{?dest_path}"
)

_ON_BRANCH = BRANCH + "/objects"
_STAGING = BRANCH + "/staging/backing"

OBJECTS: tuple[Operation, ...] = (
    Operation("GET", REF + "/objects/stat", object_reads.stat_object, _READ),
    Operation("GET", REF + "/objects/ls", object_reads.list_objects, _LIST),
    Operation("HEAD", REF + "/objects", object_reads.head_object, _READ),
    Operation("GET", REF + "/objects", object_reads.get_object, _READ),
    Operation("GET", REF + "/objects/underlyingProperties", object_reads.get_underlying_properties, _READ),
    Operation("POST", _ON_BRANCH, object_writes.upload_object, _WRITE),
    Operation("PUT", _ON_BRANCH, object_writes.stage_object, _WRITE, schemas.STAGE),
    Operation("DELETE", _ON_BRANCH, object_writes.delete_object, _DELETE),
    # checked path by path in the handler
    Operation("POST", _ON_BRANCH + "/delete", object_writes.delete_objects, AUTHENTICATED, schemas.PATHS),
    Operation("GET", _ON_BRANCH + "/stage_allowed", object_writes.check_upload_allowed, _WRITE),
    Operation("POST", _ON_BRANCH + "/copy", object_writes.copy_object, _COPY, schemas.COPY),
    Operation(
        "PUT",
        _ON_BRANCH + "/stat/user_metadata",
        object_writes.update_object_user_metadata,
        _WRITE,
        schemas.USER_METADATA,
    ),
    Operation("GET", _STAGING, object_writes.get_physical_address, _WRITE),
    Operation("PUT", _STAGING, object_writes.link_physical_address, _WRITE, schemas.LINK),
)
