"""Routes of garbage collection: rules, active commits, uncommitted addresses, metadata files."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import garbage_collection as gc
from lakefs_embedded.server.operations import REPOSITORY as REPOSITORY_RESOURCE
from lakefs_embedded.server.operations import Operation, fs
from lakefs_embedded.server.routes.paths import REPOSITORY

_GET_RULES = fs(Action.GET_GC_RULES, REPOSITORY_RESOURCE)
_SET_RULES = fs(Action.SET_GC_RULES, REPOSITORY_RESOURCE)
_PREPARE_COMMITS = fs(Action.PREPARE_GC_COMMITS, REPOSITORY_RESOURCE)
_PREPARE_UNCOMMITTED = fs(Action.PREPARE_GC_UNCOMMITTED, REPOSITORY_RESOURCE)
_METADATA = fs(Action.LIST_OBJECTS, REPOSITORY_RESOURCE) + fs(Action.READ_REPOSITORY, REPOSITORY_RESOURCE)

_RULES = REPOSITORY + "/settings/gc_rules"
_DEPRECATED_RULES = REPOSITORY + "/gc/rules"
_COMMITS = REPOSITORY + "/gc/prepare_commits"
_UNCOMMITTED = REPOSITORY + "/gc/prepare_uncommited"  # misspelled in the API
_FILES = REPOSITORY + "/metadata"

GARBAGE_COLLECTION: tuple[Operation, ...] = (
    Operation("POST", _COMMITS, gc.prepare_commits, _PREPARE_COMMITS),
    Operation("POST", _COMMITS + "/async", gc.prepare_commits_async, _PREPARE_COMMITS),
    Operation("GET", _COMMITS + "/status", gc.prepare_commits_status, _PREPARE_COMMITS),
    Operation(
        "POST", _UNCOMMITTED, gc.prepare_uncommitted, _PREPARE_UNCOMMITTED, schemas.PREPARE_UNCOMMITTED
    ),
    Operation("GET", _RULES, gc.get_gc_rules, _GET_RULES),
    Operation("PUT", _RULES, gc.set_gc_rules, _SET_RULES, schemas.GC_RULES),
    Operation("DELETE", _RULES, gc.delete_gc_rules, _SET_RULES),
    Operation("GET", _DEPRECATED_RULES, gc.get_gc_rules, _GET_RULES),
    Operation("POST", _DEPRECATED_RULES, gc.set_gc_rules, _SET_RULES, schemas.GC_RULES),
    Operation("DELETE", _DEPRECATED_RULES, gc.delete_gc_rules, _SET_RULES),
    Operation("GET", _DEPRECATED_RULES + "/set_allowed", gc.check_gc_rules_set_allowed, _SET_RULES),
    Operation("GET", _FILES + "/meta_range/{id}", gc.get_meta_range, _METADATA),
    Operation("GET", _FILES + "/range/{id}", gc.get_range, _METADATA),
    Operation("GET", _FILES + "/object/meta_range/{id}", gc.get_metadata_object, _METADATA),
    Operation("GET", _FILES + "/object/range/{id}", gc.get_metadata_object, _METADATA),
)
