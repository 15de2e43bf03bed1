"""The route table: every call of the API, one row each.

A row is an `Operation`: method, path, handler, required permissions and, for a call with a JSON body, its
schema. To add a call:

1. Row: add it here, with its permission.
2. Handler: add its function to `server/handlers/`. It reads arguments from the `ApiRequest`, makes one call on
   `request.catalog` and returns a response from `server.responses`. A new JSON body is a constant in
   `schemas.py`, a new JSON object a function in `serializers.py`.
3. Catalog: add a method to `lakefs_embedded.catalog`, tested there without HTTP. Its errors carry their HTTP status.
4. Test (in `tests/unit/lakefs_embedded/server`): add the call's status codes and a case for each to
   `routes/test_status_codes.py`, and its response to `handlers/`. Tests of the whole table cover the rest:
   credentials, the permission, error bodies, unknown repositories, malformed bodies. A call without a permission
   (`PUBLIC`, `AUTHENTICATED`) is also listed in `test_permissions.py`.

If the call was listed in `UNIMPLEMENTED`, remove it there.

Order does not matter: a test proves that no two rows match the same request. A call of lakeFS without an
implementation here answers 501 with lakeFS's message (`UNIMPLEMENTED`); an unknown call answers 404.
"""

from lakefs_embedded.auth.permissions import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import auth as users
from lakefs_embedded.server.handlers import commits, objects, refs, repositories, server_info
from lakefs_embedded.server.handlers import garbage_collection as gc
from lakefs_embedded.server.operations import (
    AUTHENTICATED,
    BRANCH,
    GROUP,
    OBJECT,
    POLICY,
    PUBLIC,
    REPOSITORY,
    TAG,
    USER,
    Operation,
    any_resource,
    auth,
    fs,
)

BASE_PATH = "/api/v1"

# Paths of rows; the same names without `_` are resources of permissions.
_REPOSITORY = "/repositories/{repository}"
_BRANCHES = _REPOSITORY + "/branches"
_BRANCH = _BRANCHES + "/{branch}"
_OBJECTS = _BRANCH + "/objects"
_BACKING = _BRANCH + "/staging/backing"
_IMPORT = _BRANCH + "/import"
_REF = _REPOSITORY + "/refs/{ref}"
_MERGE = _REPOSITORY + "/refs/{source}/merge/{branch}"
_COMMITS = _REPOSITORY + "/commits"
_TAGS = _REPOSITORY + "/tags"
_TAG = _TAGS + "/{tag}"
_METADATA = _REPOSITORY + "/metadata"
_PROTECTION = _REPOSITORY + "/settings/branch_protection"
_RULES = _REPOSITORY + "/settings/gc_rules"
_PREPARE_COMMITS = _REPOSITORY + "/gc/prepare_commits"
_PREPARE_UNCOMMITTED = _REPOSITORY + "/gc/prepare_uncommited"  # misspelled in the API
_USER = "/auth/users/{user}"
_CREDENTIALS = _USER + "/credentials"
_USER_POLICY = _USER + "/policies/{policy}"
_GROUP = "/auth/groups/{group}"
_MEMBER = _GROUP + "/members/{user}"
_GROUP_POLICY = _GROUP + "/policies/{policy}"
_POLICY = "/auth/policies/{policy}"

_CREATE_REPOSITORY = fs(Action.CREATE_REPOSITORY, "repository/{.name}") + fs(
    Action.ATTACH_STORAGE_NAMESPACE, "namespace/{.storage_namespace}"
)
_READ = fs(Action.READ_REPOSITORY, REPOSITORY)
_UPDATE = fs(Action.UPDATE_REPOSITORY, REPOSITORY)
_CREATE_BRANCH = fs(Action.CREATE_BRANCH, REPOSITORY + "/branch/{.name}")
_CREATE_TAG = fs(Action.CREATE_TAG, REPOSITORY + "/tag/{.id}")
_COMMIT = fs(Action.CREATE_COMMIT, BRANCH)
_PICK = _COMMIT + fs(Action.READ_COMMIT, REPOSITORY)
_REVERT = fs(Action.REVERT_BRANCH, BRANCH)
_LOG = fs(Action.READ_BRANCH, REPOSITORY + "/branch/{ref}")
_IMPORTS = fs(Action.WRITE_OBJECT, BRANCH) + _COMMIT  # the handler checks each source and destination
_LIST_OBJECTS = fs(Action.LIST_OBJECTS, REPOSITORY)
_READ_OBJECT = fs(Action.READ_OBJECT, OBJECT)
_WRITE_OBJECT = fs(Action.WRITE_OBJECT, OBJECT)
_COPY = fs(Action.READ_OBJECT, REPOSITORY + "/object/{.src_path}") + fs(
    Action.WRITE_OBJECT, REPOSITORY + "/object/{?dest_path}"
)
_PREPARE = fs(Action.PREPARE_GC_COMMITS, REPOSITORY)
_SET_RULES = fs(Action.SET_GC_RULES, REPOSITORY)
_SET_PROTECTION = fs(Action.SET_BRANCH_PROTECTION, REPOSITORY)
_TABLES = _LIST_OBJECTS + _READ
_PREPARE_STAGED = fs(Action.PREPARE_GC_UNCOMMITTED, REPOSITORY)

_SERVED: tuple[Operation, ...] = (
    # objects, read at any ref
    Operation("GET", _REF + "/objects/stat", objects.stat_object, _READ_OBJECT),
    Operation("GET", _REF + "/objects/ls", objects.list_objects, _LIST_OBJECTS),
    Operation("HEAD", _REF + "/objects", objects.head_object, _READ_OBJECT),
    Operation("GET", _REF + "/objects", objects.get_object, _READ_OBJECT),
    Operation("GET", _REF + "/objects/underlyingProperties", objects.get_underlying_properties, _READ_OBJECT),
    # objects, written on a branch
    Operation("POST", _OBJECTS, objects.upload_object, _WRITE_OBJECT),
    Operation("PUT", _OBJECTS, objects.stage_object, _WRITE_OBJECT, schemas.STAGE),
    Operation("DELETE", _OBJECTS, objects.delete_object, fs(Action.DELETE_OBJECT, OBJECT)),
    # checked path by path in the handler
    Operation("POST", _OBJECTS + "/delete", objects.delete_objects, AUTHENTICATED, schemas.PATHS),
    Operation("GET", _OBJECTS + "/stage_allowed", objects.check_upload_allowed, _WRITE_OBJECT),
    Operation("POST", _OBJECTS + "/copy", objects.copy_object, _COPY, schemas.COPY),
    Operation(
        "PUT",
        _OBJECTS + "/stat/user_metadata",
        objects.update_object_user_metadata,
        _WRITE_OBJECT,
        schemas.USER_METADATA,
    ),
    Operation("GET", _BACKING, objects.get_physical_address, _WRITE_OBJECT),
    Operation("PUT", _BACKING, objects.link_physical_address, _WRITE_OBJECT, schemas.LINK),
    # branches
    Operation("GET", _BRANCHES, refs.list_branches, fs(Action.LIST_BRANCHES, REPOSITORY)),
    Operation("POST", _BRANCHES, refs.create_branch, _CREATE_BRANCH, schemas.BRANCH),
    Operation("GET", _BRANCH, refs.get_branch, fs(Action.READ_BRANCH, BRANCH)),
    Operation("DELETE", _BRANCH, refs.delete_branch, fs(Action.DELETE_BRANCH, BRANCH)),
    Operation("PUT", _BRANCH, refs.reset_branch, _REVERT, schemas.RESET),
    Operation("PUT", _BRANCH + "/hard_reset", refs.hard_reset_branch, _REVERT),
    Operation("GET", _BRANCH + "/diff", refs.diff_branch, _LIST_OBJECTS),
    # tags
    Operation("GET", _TAGS, refs.list_tags, fs(Action.LIST_TAGS, REPOSITORY)),
    Operation("POST", _TAGS, refs.create_tag, _CREATE_TAG, schemas.TAG),
    Operation("GET", _TAG, refs.get_tag, fs(Action.READ_TAG, TAG)),
    Operation("DELETE", _TAG, refs.delete_tag, fs(Action.DELETE_TAG, TAG)),
    # commits
    Operation("POST", _BRANCH + "/commits", commits.commit, _COMMIT, schemas.COMMIT),
    Operation("POST", _BRANCH + "/revert", commits.revert, _REVERT, schemas.REVERT),
    Operation("POST", _BRANCH + "/cherry-pick", commits.cherry_pick, _PICK, schemas.CHERRY_PICK),
    Operation("GET", _COMMITS + "/{commit_id}", commits.get_commit, fs(Action.READ_COMMIT, REPOSITORY)),
    Operation(
        "POST",
        _COMMITS,
        commits.create_commit_record,
        fs(Action.CREATE_COMMIT, REPOSITORY),
        schemas.COMMIT_RECORD,
    ),
    Operation("GET", _REF + "/commits", commits.log_commits, _LOG),
    Operation("GET", _REPOSITORY + "/refs/{left}/diff/{right}", commits.diff_refs, _LIST_OBJECTS),
    Operation("POST", _MERGE, commits.merge, _COMMIT, schemas.MERGE),
    Operation("GET", _MERGE, commits.find_merge_base, fs(Action.LIST_COMMITS, REPOSITORY)),
    # imports
    Operation("POST", _IMPORT, commits.import_start, _IMPORTS, schemas.IMPORT),
    Operation("GET", _IMPORT, commits.import_status, fs(Action.READ_BRANCH, BRANCH)),
    Operation("DELETE", _IMPORT, commits.import_cancel, fs(Action.IMPORT_CANCEL, BRANCH)),
    # garbage collection: active commits, uncommitted addresses, rules, metadata files
    Operation("POST", _PREPARE_COMMITS, gc.prepare_commits, _PREPARE),
    Operation("POST", _PREPARE_COMMITS + "/async", gc.prepare_commits_async, _PREPARE),
    Operation("GET", _PREPARE_COMMITS + "/status", gc.prepare_commits_status, _PREPARE),
    Operation(
        "POST", _PREPARE_UNCOMMITTED, gc.prepare_uncommitted, _PREPARE_STAGED, schemas.PREPARE_UNCOMMITTED
    ),
    Operation("GET", _RULES, gc.get_gc_rules, fs(Action.GET_GC_RULES, REPOSITORY)),
    Operation("PUT", _RULES, gc.set_gc_rules, _SET_RULES, schemas.GC_RULES),
    Operation("DELETE", _RULES, gc.delete_gc_rules, _SET_RULES),
    Operation("GET", _METADATA + "/meta_range/{id}", gc.get_meta_range, _TABLES),
    Operation("GET", _METADATA + "/range/{id}", gc.get_range, _TABLES),
    Operation("GET", _METADATA + "/object/meta_range/{id}", gc.get_metadata_object, _TABLES),
    Operation("GET", _METADATA + "/object/range/{id}", gc.get_metadata_object, _TABLES),
    # repositories, their metadata and branch protection
    # the handler leaves out repositories that the user may not list
    Operation("GET", "/repositories", repositories.list_repositories, AUTHENTICATED),
    Operation(
        "POST", "/repositories", repositories.create_repository, _CREATE_REPOSITORY, schemas.REPOSITORY
    ),
    Operation("GET", _REPOSITORY, repositories.get_repository, _READ),
    Operation(
        "DELETE", _REPOSITORY, repositories.delete_repository, fs(Action.DELETE_REPOSITORY, REPOSITORY)
    ),
    Operation("GET", _METADATA, repositories.get_repository_metadata, _READ),
    Operation("POST", _METADATA, repositories.set_repository_metadata, _UPDATE, schemas.METADATA_SET),
    Operation("DELETE", _METADATA, repositories.delete_repository_metadata, _UPDATE, schemas.METADATA_KEYS),
    Operation(
        "GET", _PROTECTION, repositories.get_branch_protection, fs(Action.GET_BRANCH_PROTECTION, REPOSITORY)
    ),
    Operation(
        "PUT", _PROTECTION, repositories.set_branch_protection, _SET_PROTECTION, schemas.BRANCH_PROTECTION
    ),
    # the server itself
    Operation("GET", "/healthcheck", server_info.health, PUBLIC),
    Operation("GET", "/setup_lakefs", server_info.get_setup_state, PUBLIC),
    Operation("POST", "/setup_lakefs", server_info.setup, PUBLIC, schemas.SETUP),
    Operation("POST", "/auth/login", server_info.login, PUBLIC, schemas.LOGIN),
    Operation("GET", "/auth/capabilities", server_info.get_auth_capabilities, PUBLIC),
    Operation("GET", "/usage-report/summary", server_info.get_usage_report_summary, AUTHENTICATED),
    Operation("GET", "/user", server_info.get_user, AUTHENTICATED),
    Operation("GET", "/config", server_info.get_config, AUTHENTICATED),
    Operation("GET", "/config/storage", server_info.get_storage_config, any_resource(Action.READ_CONFIG)),
    Operation("GET", "/config/version", server_info.get_version, AUTHENTICATED),
    Operation("GET", "/config/garbage-collection", server_info.get_garbage_collection_config, AUTHENTICATED),
    Operation("POST", "/statistics", server_info.post_statistics, AUTHENTICATED, schemas.STATISTICS),
)

_ATTACH_TO_USER = auth(Action.ATTACH_POLICY, USER)
_ATTACH_TO_GROUP = auth(Action.ATTACH_POLICY, GROUP)
_DETACH_FROM_USER = auth(Action.DETACH_POLICY, USER)
_DETACH_FROM_GROUP = auth(Action.DETACH_POLICY, GROUP)
_CREATE_USER = auth(Action.CREATE_USER, "user/{.id}")
_CREATE_GROUP = auth(Action.CREATE_GROUP, "group/{.id}")
_CREATE_POLICY = auth(Action.CREATE_POLICY, "policy/{.id}")

AUTH: tuple[Operation, ...] = (
    # users and their credentials
    Operation("GET", "/auth/users", users.list_users, any_resource(Action.LIST_USERS)),
    Operation("POST", "/auth/users", users.create_user, _CREATE_USER, schemas.USER_CREATION),
    Operation("GET", _USER, users.get_named_user, auth(Action.READ_USER, USER)),
    Operation("DELETE", _USER, users.delete_user, auth(Action.DELETE_USER, USER)),
    Operation("GET", _CREDENTIALS, users.list_user_credentials, auth(Action.LIST_CREDENTIALS, USER)),
    Operation("POST", _CREDENTIALS, users.create_credentials, auth(Action.CREATE_CREDENTIALS, USER)),
    Operation("GET", _CREDENTIALS + "/{key}", users.get_credentials, auth(Action.READ_CREDENTIALS, USER)),
    Operation(
        "DELETE", _CREDENTIALS + "/{key}", users.delete_credentials, auth(Action.DELETE_CREDENTIALS, USER)
    ),
    Operation("GET", _USER + "/groups", users.list_user_groups, auth(Action.READ_USER, USER)),
    # groups and their members
    Operation("GET", "/auth/groups", users.list_groups, any_resource(Action.LIST_GROUPS)),
    Operation("POST", "/auth/groups", users.create_group, _CREATE_GROUP, schemas.GROUP_CREATION),
    Operation("GET", _GROUP, users.get_group, auth(Action.READ_GROUP, GROUP)),
    Operation("DELETE", _GROUP, users.delete_group, auth(Action.DELETE_GROUP, GROUP)),
    Operation("GET", _GROUP + "/members", users.list_group_members, auth(Action.READ_GROUP, GROUP)),
    Operation("PUT", _MEMBER, users.add_group_membership, auth(Action.ADD_GROUP_MEMBER, GROUP)),
    Operation("DELETE", _MEMBER, users.delete_group_membership, auth(Action.REMOVE_GROUP_MEMBER, GROUP)),
    # policies and their attachments
    Operation("GET", "/auth/policies", users.list_policies, any_resource(Action.LIST_POLICIES)),
    Operation("POST", "/auth/policies", users.create_policy, _CREATE_POLICY, schemas.POLICY),
    Operation("GET", _POLICY, users.get_policy, auth(Action.READ_POLICY, POLICY)),
    Operation("PUT", _POLICY, users.update_policy, auth(Action.UPDATE_POLICY, POLICY), schemas.POLICY),
    Operation("DELETE", _POLICY, users.delete_policy, auth(Action.DELETE_POLICY, POLICY)),
    Operation("GET", _USER + "/policies", users.list_user_policies, auth(Action.READ_USER, USER)),
    Operation("PUT", _USER_POLICY, users.attach_policy_to_user, _ATTACH_TO_USER),
    Operation("DELETE", _USER_POLICY, users.detach_policy_from_user, _DETACH_FROM_USER),
    Operation("GET", _GROUP + "/policies", users.list_group_policies, auth(Action.READ_GROUP, GROUP)),
    Operation("PUT", _GROUP_POLICY, users.attach_policy_to_group, _ATTACH_TO_GROUP),
    Operation("DELETE", _GROUP_POLICY, users.detach_policy_from_group, _DETACH_FROM_GROUP),
)

WITHOUT_RBAC = frozenset({"list_users", "create_user", "get_named_user", "delete_user", "get_credentials"})
"""Calls of AUTH served with RBAC `none`; the others answer 501."""

OPERATIONS: tuple[Operation, ...] = (*_SERVED, *AUTH)

UNIMPLEMENTED: tuple[tuple[str, str], ...] = (
    ("POST", "/setup_comm_prefs"),
    ("POST", "/sts/login"),
    ("POST", "/auth/external/principal/login"),
    ("GET", "/auth/external/principals"),
    ("GET", _USER + "/external/principals/ls"),
    ("POST", _USER + "/external/principals"),
    ("DELETE", _USER + "/external/principals"),
    ("GET", _GROUP + "/acl"),
    ("POST", _GROUP + "/acl"),
    ("GET", _REPOSITORY + "/actions/runs"),
    ("GET", _REPOSITORY + "/actions/runs/{run}"),
    ("GET", _REPOSITORY + "/actions/runs/{run}/hooks"),
    ("GET", _REPOSITORY + "/actions/runs/{run}/hooks/{hook_run}/output"),
    ("GET", _REPOSITORY + "/pulls"),
    ("POST", _REPOSITORY + "/pulls"),
    ("GET", _REPOSITORY + "/pulls/{pull}"),
    ("PATCH", _REPOSITORY + "/pulls/{pull}"),
    ("PUT", _REPOSITORY + "/pulls/{pull}/merge"),
    ("POST", _REPOSITORY + "/refs/{branch}/symlink"),
    ("PUT", _REPOSITORY + "/refs/dump"),
    ("PUT", _REPOSITORY + "/refs/restore"),
    ("POST", _REPOSITORY + "/dump"),
    ("GET", _REPOSITORY + "/dump"),
    ("POST", _REPOSITORY + "/restore"),
    ("GET", _REPOSITORY + "/restore"),
    # deprecated in lakeFS: rules and branch protection have other calls now
    ("GET", _REPOSITORY + "/gc/rules"),
    ("POST", _REPOSITORY + "/gc/rules"),
    ("DELETE", _REPOSITORY + "/gc/rules"),
    ("GET", _REPOSITORY + "/gc/rules/set_allowed"),
    ("GET", _REPOSITORY + "/branch_protection"),
    ("POST", _REPOSITORY + "/branch_protection"),
    ("DELETE", _REPOSITORY + "/branch_protection"),
    ("GET", _REPOSITORY + "/branch_protection/set_allowed"),
    ("POST", _BRANCH + "/staging/pmpu"),
    ("PUT", _BRANCH + "/staging/pmpu/{upload}"),
    ("DELETE", _BRANCH + "/staging/pmpu/{upload}"),
    ("PUT", _BRANCH + "/staging/pmpu/{upload}/parts/{part}"),
    ("PUT", _BRANCH + "/staging/pmpu/{upload}/parts/{part}/copy"),
)
"""Method and path of each unimplemented lakeFS call: 501, with credentials."""
