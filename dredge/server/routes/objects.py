"""Routes of objects: read at any ref, written on a branch."""

from __future__ import annotations

from dredge.auth import Action
from dredge.server import request_schemas as schemas
from dredge.server.handlers import object_reads, object_writes, presigned_uploads
from dredge.server.operations import Operation
from dredge.server.permissions import AUTHENTICATED, OBJECT, REPOSITORY, fs
from dredge.server.routes.paths import BRANCH, REF

_READ = fs(Action.READ_OBJECT, OBJECT)
_WRITE = fs(Action.WRITE_OBJECT, OBJECT)
_DELETE = fs(Action.DELETE_OBJECT, OBJECT)
_LIST = fs(Action.LIST_OBJECTS, REPOSITORY)
_COPY = fs(Action.READ_OBJECT, REPOSITORY + "/object/{.src_path}") + fs(
    Action.WRITE_OBJECT, REPOSITORY + "/object/{?dest_path}"
)

_COPY_PART = _WRITE + fs(
    Action.READ_OBJECT, "repository/{.copy_source.repository}/object/{.copy_source.path}"
)

_ON_BRANCH = BRANCH + "/objects"
_STAGING = BRANCH + "/staging/backing"
_MULTIPART = BRANCH + "/staging/pmpu"
_UPLOAD = _MULTIPART + "/{upload}"

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
    Operation("POST", _MULTIPART, presigned_uploads.create_presign_multipart_upload, _WRITE),
    Operation(
        "PUT",
        _UPLOAD,
        presigned_uploads.complete_presign_multipart_upload,
        _WRITE,
        schemas.COMPLETE_UPLOAD,
    ),
    Operation(
        "DELETE", _UPLOAD, presigned_uploads.abort_presign_multipart_upload, _WRITE, schemas.ABORT_UPLOAD
    ),
    Operation("PUT", _UPLOAD + "/parts/{part}", presigned_uploads.upload_part, _WRITE, schemas.PART_ADDRESS),
    Operation(
        "PUT",
        _UPLOAD + "/parts/{part}/copy",
        presigned_uploads.upload_part_copy,
        _COPY_PART,
        schemas.PART_COPY,
    ),
)
