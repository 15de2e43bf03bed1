"""Every call of the API: method, path, handler, what its user must be allowed to do, body. The order decides
where patterns overlap. `SIGNED_IN` needs credentials and nothing more (or the handler looks at each thing it
touches), None needs none.

What lakeFS has and this server has not yet answers 501 in lakeFS's words; what lakeFS has not answers 404.
"""

from __future__ import annotations

from dredge.auth import Action
from dredge.server import bodies
from dredge.server.endpoint import Operation
from dredge.server.handlers import auth_people as people
from dredge.server.handlers import auth_policies as policies
from dredge.server.handlers import (
    branches,
    commits,
    dumps,
    garbage,
    general,
    imports,
    objects,
    presigned,
    pulls,
    reading,
    repositories,
)
from dredge.server.needs import (
    BRANCH,
    GROUP,
    OBJECT,
    POLICY,
    REPOSITORY,
    SIGNED_IN,
    TAG,
    USER,
    auth,
    everywhere,
    fs,
)

BASE_PATH = "/api/v1"

R = "/repositories/{repository}"
B = R + "/branches/{branch}"
REF = R + "/refs/{ref}"
U = "/auth/users/{user}"
G = "/auth/groups/{group}"

# What several calls need, or one call of several things.
NEW_BRANCH = REPOSITORY + "/branch/{.name}"
METADATA = fs(Action.LIST_OBJECTS, REPOSITORY) + fs(Action.READ_REPOSITORY, REPOSITORY)
COPY = fs(Action.READ_OBJECT, REPOSITORY + "/object/{.src_path}") + fs(
    Action.WRITE_OBJECT, REPOSITORY + "/object/{?dest_path}"
)
DUMPED = (
    fs(Action.LIST_TAGS, REPOSITORY)
    + fs(Action.LIST_BRANCHES, REPOSITORY)
    + fs(Action.LIST_COMMITS, REPOSITORY)
)
DUMP = DUMPED + fs(Action.UPDATE_REPOSITORY, REPOSITORY)  # it writes files, which no reader shall
RESTORE = (
    fs(Action.CREATE_TAG, REPOSITORY)
    + fs(Action.CREATE_BRANCH, REPOSITORY)
    + fs(Action.CREATE_COMMIT, REPOSITORY)
)
IMPORT = fs(Action.WRITE_OBJECT, BRANCH) + fs(Action.CREATE_COMMIT, BRANCH)  # and more for each source
CREATE = fs(Action.CREATE_REPOSITORY, "repository/{.name}") + fs(
    Action.ATTACH_STORAGE_NAMESPACE, "namespace/{.storage_namespace}"
)

OPERATIONS: tuple[Operation, ...] = (
    # objects first: they are asked for most
    Operation("GET", REF + "/objects/stat", reading.stat_object, fs(Action.READ_OBJECT, OBJECT)),
    Operation("GET", REF + "/objects/ls", reading.list_objects, fs(Action.LIST_OBJECTS, REPOSITORY)),
    Operation("HEAD", REF + "/objects", reading.head_object, fs(Action.READ_OBJECT, OBJECT)),
    Operation("GET", REF + "/objects", reading.get_object, fs(Action.READ_OBJECT, OBJECT)),
    Operation(
        "GET",
        REF + "/objects/underlyingProperties",
        reading.get_underlying_properties,
        fs(Action.READ_OBJECT, OBJECT),
    ),
    Operation("POST", B + "/objects", objects.upload_object, fs(Action.WRITE_OBJECT, OBJECT)),
    Operation("PUT", B + "/objects", objects.stage_object, fs(Action.WRITE_OBJECT, OBJECT), bodies.STAGE),
    Operation("DELETE", B + "/objects", objects.delete_object, fs(Action.DELETE_OBJECT, OBJECT)),
    Operation("POST", B + "/objects/delete", objects.delete_objects, SIGNED_IN, bodies.PATHS),
    Operation(
        "GET", B + "/objects/stage_allowed", objects.check_upload_allowed, fs(Action.WRITE_OBJECT, OBJECT)
    ),
    Operation("POST", B + "/objects/copy", objects.copy_object, COPY, bodies.COPY),
    Operation(
        "PUT",
        B + "/objects/stat/user_metadata",
        objects.update_object_user_metadata,
        fs(Action.WRITE_OBJECT, OBJECT),
        bodies.USER_METADATA,
    ),
    Operation("GET", B + "/staging/backing", objects.get_physical_address, fs(Action.WRITE_OBJECT, OBJECT)),
    Operation(
        "PUT",
        B + "/staging/backing",
        objects.link_physical_address,
        fs(Action.WRITE_OBJECT, OBJECT),
        bodies.LINK,
    ),
    Operation(
        "POST",
        B + "/staging/pmpu",
        presigned.create_presign_multipart_upload,
        fs(Action.WRITE_OBJECT, OBJECT),
    ),
    Operation(
        "PUT",
        B + "/staging/pmpu/{upload}",
        presigned.complete_presign_multipart_upload,
        fs(Action.WRITE_OBJECT, OBJECT),
        bodies.COMPLETE_UPLOAD,
    ),
    Operation(
        "DELETE",
        B + "/staging/pmpu/{upload}",
        presigned.abort_presign_multipart_upload,
        fs(Action.WRITE_OBJECT, OBJECT),
        bodies.ABORT_UPLOAD,
    ),
    Operation(
        "PUT",
        B + "/staging/pmpu/{upload}/parts/{part}",
        presigned.upload_part,
        fs(Action.WRITE_OBJECT, OBJECT),
        bodies.PART_ADDRESS,
    ),
    # branches, tags, commits
    Operation("GET", R + "/branches", branches.list_branches, fs(Action.LIST_BRANCHES, REPOSITORY)),
    Operation(
        "POST", R + "/branches", branches.create_branch, fs(Action.CREATE_BRANCH, NEW_BRANCH), bodies.BRANCH
    ),
    Operation("GET", B, branches.get_branch, fs(Action.READ_BRANCH, BRANCH)),
    Operation("DELETE", B, branches.delete_branch, fs(Action.DELETE_BRANCH, BRANCH)),
    Operation("PUT", B, branches.reset_branch, fs(Action.REVERT_BRANCH, BRANCH), bodies.RESET),
    Operation("PUT", B + "/hard_reset", branches.hard_reset_branch, fs(Action.REVERT_BRANCH, BRANCH)),
    Operation("GET", B + "/diff", branches.diff_branch, fs(Action.LIST_OBJECTS, REPOSITORY)),
    Operation("POST", B + "/commits", commits.commit, fs(Action.CREATE_COMMIT, BRANCH), bodies.COMMIT),
    Operation("POST", B + "/revert", commits.revert, fs(Action.REVERT_BRANCH, BRANCH), bodies.REVERT),
    Operation(
        "POST",
        B + "/cherry-pick",
        commits.cherry_pick,
        fs(Action.CREATE_COMMIT, BRANCH) + fs(Action.READ_COMMIT, REPOSITORY),
        bodies.CHERRY_PICK,
    ),
    Operation("POST", B + "/import", imports.import_start, IMPORT, bodies.IMPORT),
    Operation("GET", B + "/import", imports.import_status, fs(Action.READ_BRANCH, BRANCH)),
    Operation("DELETE", B + "/import", imports.import_cancel, fs(Action.IMPORT_CANCEL, BRANCH)),
    Operation("GET", R + "/commits/{commit_id}", commits.get_commit, fs(Action.READ_COMMIT, REPOSITORY)),
    Operation(
        "POST",
        R + "/commits",
        commits.create_commit_record,
        fs(Action.CREATE_COMMIT, REPOSITORY),
        bodies.COMMIT_RECORD,
    ),
    Operation(
        "GET", REF + "/commits", commits.log_commits, fs(Action.READ_BRANCH, REPOSITORY + "/branch/{ref}")
    ),
    Operation("GET", R + "/refs/{left}/diff/{right}", commits.diff_refs, fs(Action.LIST_OBJECTS, REPOSITORY)),
    Operation(
        "POST",
        R + "/refs/{source}/merge/{branch}",
        commits.merge,
        fs(Action.CREATE_COMMIT, BRANCH),
        bodies.MERGE,
    ),
    Operation(
        "GET",
        R + "/refs/{source}/merge/{branch}",
        commits.find_merge_base,
        fs(Action.LIST_COMMITS, REPOSITORY),
    ),
    Operation("GET", R + "/tags", branches.list_tags, fs(Action.LIST_TAGS, REPOSITORY)),
    Operation(
        "POST", R + "/tags", branches.create_tag, fs(Action.CREATE_TAG, REPOSITORY + "/tag/{.id}"), bodies.TAG
    ),
    Operation("GET", R + "/tags/{tag}", branches.get_tag, fs(Action.READ_TAG, TAG)),
    Operation("DELETE", R + "/tags/{tag}", branches.delete_tag, fs(Action.DELETE_TAG, TAG)),
    # garbage collection
    Operation(
        "POST", R + "/gc/prepare_commits", garbage.prepare_commits, fs(Action.PREPARE_GC_COMMITS, REPOSITORY)
    ),
    Operation(
        "POST",
        R + "/gc/prepare_commits/async",
        garbage.prepare_commits_async,
        fs(Action.PREPARE_GC_COMMITS, REPOSITORY),
    ),
    Operation(
        "GET",
        R + "/gc/prepare_commits/status",
        garbage.prepare_commits_status,
        fs(Action.PREPARE_GC_COMMITS, REPOSITORY),
    ),
    Operation(
        "POST",
        R + "/gc/prepare_uncommited",
        garbage.prepare_uncommitted,
        fs(Action.PREPARE_GC_UNCOMMITTED, REPOSITORY),
        bodies.PREPARE_UNCOMMITTED,
    ),
    Operation("GET", R + "/settings/gc_rules", garbage.get_gc_rules, fs(Action.GET_GC_RULES, REPOSITORY)),
    Operation(
        "PUT",
        R + "/settings/gc_rules",
        garbage.set_gc_rules,
        fs(Action.SET_GC_RULES, REPOSITORY),
        bodies.GC_RULES,
    ),
    Operation(
        "DELETE", R + "/settings/gc_rules", garbage.delete_gc_rules, fs(Action.SET_GC_RULES, REPOSITORY)
    ),
    Operation("GET", R + "/gc/rules", garbage.get_gc_rules, fs(Action.GET_GC_RULES, REPOSITORY)),
    Operation(
        "POST", R + "/gc/rules", garbage.set_gc_rules, fs(Action.SET_GC_RULES, REPOSITORY), bodies.GC_RULES
    ),
    Operation("DELETE", R + "/gc/rules", garbage.delete_gc_rules, fs(Action.SET_GC_RULES, REPOSITORY)),
    Operation(
        "GET",
        R + "/gc/rules/set_allowed",
        garbage.check_gc_rules_set_allowed,
        fs(Action.SET_GC_RULES, REPOSITORY),
    ),
    Operation("GET", R + "/metadata/meta_range/{id}", garbage.get_meta_range, METADATA),
    Operation("GET", R + "/metadata/range/{id}", garbage.get_range, METADATA),
    Operation("GET", R + "/metadata/object/meta_range/{id}", garbage.get_metadata_object, METADATA),
    Operation("GET", R + "/metadata/object/range/{id}", garbage.get_metadata_object, METADATA),
    # refs as files
    Operation("PUT", R + "/refs/dump", dumps.dump_refs, DUMP),
    Operation("PUT", R + "/refs/restore", dumps.restore_refs, RESTORE, bodies.REFS_RESTORE),
    Operation("POST", R + "/dump", dumps.dump_submit, DUMP),
    Operation("GET", R + "/dump", dumps.dump_status, DUMPED),
    Operation("POST", R + "/restore", dumps.restore_submit, RESTORE, bodies.REFS_RESTORE),
    Operation("GET", R + "/restore", dumps.restore_status, RESTORE),
    # pull requests
    Operation("GET", R + "/pulls", pulls.list_pull_requests, fs(Action.LIST_PULL_REQUESTS, REPOSITORY)),
    Operation(
        "POST",
        R + "/pulls",
        pulls.create_pull_request,
        fs(Action.WRITE_PULL_REQUEST, REPOSITORY),
        bodies.PULL_CREATION,
    ),
    Operation("GET", R + "/pulls/{pull}", pulls.get_pull_request, fs(Action.READ_PULL_REQUEST, REPOSITORY)),
    Operation(
        "PATCH",
        R + "/pulls/{pull}",
        pulls.update_pull_request,
        fs(Action.WRITE_PULL_REQUEST, REPOSITORY),
        bodies.PULL_CHANGE,
    ),
    Operation(
        "PUT",
        R + "/pulls/{pull}/merge",
        pulls.merge_pull_request,
        fs(Action.WRITE_PULL_REQUEST, REPOSITORY),  # and to commit on the destination
    ),
    # repositories
    Operation("GET", "/repositories", repositories.list_repositories, SIGNED_IN),
    Operation("POST", "/repositories", repositories.create_repository, CREATE, bodies.REPOSITORY),
    Operation("GET", R, repositories.get_repository, fs(Action.READ_REPOSITORY, REPOSITORY)),
    Operation("DELETE", R, repositories.delete_repository, fs(Action.DELETE_REPOSITORY, REPOSITORY)),
    Operation(
        "GET", R + "/metadata", repositories.get_repository_metadata, fs(Action.READ_REPOSITORY, REPOSITORY)
    ),
    Operation(
        "GET",
        R + "/settings/branch_protection",
        repositories.get_branch_protection,
        fs(Action.GET_BRANCH_PROTECTION, REPOSITORY),
    ),
    Operation(
        "PUT",
        R + "/settings/branch_protection",
        repositories.set_branch_protection,
        fs(Action.SET_BRANCH_PROTECTION, REPOSITORY),
        bodies.BRANCH_PROTECTION,
    ),
    Operation(
        "POST",
        R + "/metadata",
        repositories.set_repository_metadata,
        fs(Action.UPDATE_REPOSITORY, REPOSITORY),
        bodies.METADATA_SET,
    ),
    Operation(
        "DELETE",
        R + "/metadata",
        repositories.delete_repository_metadata,
        fs(Action.UPDATE_REPOSITORY, REPOSITORY),
        bodies.METADATA_KEYS,
    ),
    Operation(
        "GET",
        R + "/branch_protection",
        repositories.get_branch_protection,
        fs(Action.GET_BRANCH_PROTECTION, REPOSITORY),
    ),
    Operation(
        "POST",
        R + "/branch_protection",
        repositories.add_branch_protection,
        fs(Action.SET_BRANCH_PROTECTION, REPOSITORY),
        bodies.PATTERN,
    ),
    Operation(
        "DELETE",
        R + "/branch_protection",
        repositories.delete_branch_protection,
        fs(Action.SET_BRANCH_PROTECTION, REPOSITORY),
        bodies.PATTERN,
    ),
    Operation(
        "GET",
        R + "/branch_protection/set_allowed",
        repositories.check_branch_protection_set_allowed,
        fs(Action.SET_BRANCH_PROTECTION, REPOSITORY),
    ),
    # users, groups, policies
    Operation("GET", "/auth/users", people.list_users, everywhere(Action.LIST_USERS)),
    Operation(
        "POST",
        "/auth/users",
        people.create_user,
        auth(Action.CREATE_USER, "user/{.id}"),
        bodies.USER_CREATION,
    ),
    Operation("GET", U, people.get_named_user, auth(Action.READ_USER, USER)),
    Operation("DELETE", U, people.delete_user, auth(Action.DELETE_USER, USER)),
    Operation("GET", U + "/credentials", people.list_user_credentials, auth(Action.LIST_CREDENTIALS, USER)),
    Operation("POST", U + "/credentials", people.create_credentials, auth(Action.CREATE_CREDENTIALS, USER)),
    Operation("GET", U + "/credentials/{key}", people.get_credentials, auth(Action.READ_CREDENTIALS, USER)),
    Operation(
        "DELETE", U + "/credentials/{key}", people.delete_credentials, auth(Action.DELETE_CREDENTIALS, USER)
    ),
    Operation("GET", U + "/groups", people.list_user_groups, auth(Action.READ_USER, USER)),
    Operation("GET", U + "/policies", policies.list_user_policies, auth(Action.READ_USER, USER)),
    Operation(
        "PUT", U + "/policies/{policy}", policies.attach_policy_to_user, auth(Action.ATTACH_POLICY, USER)
    ),
    Operation(
        "DELETE", U + "/policies/{policy}", policies.detach_policy_from_user, auth(Action.DETACH_POLICY, USER)
    ),
    Operation("GET", "/auth/groups", people.list_groups, everywhere(Action.LIST_GROUPS)),
    Operation(
        "POST",
        "/auth/groups",
        people.create_group,
        auth(Action.CREATE_GROUP, "group/{.id}"),
        bodies.GROUP_CREATION,
    ),
    Operation("GET", G, people.get_group, auth(Action.READ_GROUP, GROUP)),
    Operation("DELETE", G, people.delete_group, auth(Action.DELETE_GROUP, GROUP)),
    Operation("GET", G + "/members", people.list_group_members, auth(Action.READ_GROUP, GROUP)),
    Operation(
        "PUT", G + "/members/{user}", people.add_group_membership, auth(Action.ADD_GROUP_MEMBER, GROUP)
    ),
    Operation(
        "DELETE",
        G + "/members/{user}",
        people.delete_group_membership,
        auth(Action.REMOVE_GROUP_MEMBER, GROUP),
    ),
    Operation("GET", G + "/policies", policies.list_group_policies, auth(Action.READ_GROUP, GROUP)),
    Operation(
        "PUT", G + "/policies/{policy}", policies.attach_policy_to_group, auth(Action.ATTACH_POLICY, GROUP)
    ),
    Operation(
        "DELETE",
        G + "/policies/{policy}",
        policies.detach_policy_from_group,
        auth(Action.DETACH_POLICY, GROUP),
    ),
    Operation("GET", "/auth/policies", policies.list_policies, everywhere(Action.LIST_POLICIES)),
    Operation(
        "POST",
        "/auth/policies",
        policies.create_policy,
        auth(Action.CREATE_POLICY, "policy/{.id}"),
        bodies.POLICY,
    ),
    Operation("GET", "/auth/policies/{policy}", policies.get_policy, auth(Action.READ_POLICY, POLICY)),
    Operation(
        "PUT",
        "/auth/policies/{policy}",
        policies.update_policy,
        auth(Action.UPDATE_POLICY, POLICY),
        bodies.POLICY,
    ),
    Operation(
        "DELETE", "/auth/policies/{policy}", policies.delete_policy, auth(Action.DELETE_POLICY, POLICY)
    ),
    # the server itself
    Operation("GET", "/healthcheck", general.health, None),
    Operation("GET", "/setup_lakefs", general.get_setup_state, None),
    Operation("POST", "/setup_lakefs", general.setup, None, bodies.SETUP),
    Operation("POST", "/auth/login", general.login, None, bodies.LOGIN),
    Operation("GET", "/user", general.get_user, SIGNED_IN),
    Operation("GET", "/config", general.get_config, SIGNED_IN),
    Operation("GET", "/config/storage", general.get_storage_config, everywhere(Action.READ_CONFIG)),
    Operation("POST", "/statistics", general.post_statistics, SIGNED_IN, bodies.STATISTICS),
    Operation("GET", "/config/version", general.get_version, SIGNED_IN),
    Operation("GET", "/config/garbage-collection", general.get_garbage_collection_config, SIGNED_IN),
)

# Calls of a real server that are not built here: answered, with credentials, by 501.
UNBUILT: tuple[tuple[str, str], ...] = (
    ("PUT", B + "/staging/pmpu/{upload}/parts/{part}/copy"),
    ("POST", R + "/refs/{branch}/symlink"),
    ("GET", R + "/actions/runs"),
    ("GET", R + "/actions/runs/{run}"),
    ("GET", R + "/actions/runs/{run}/hooks"),
    ("GET", R + "/actions/runs/{run}/hooks/{hook_run}/output"),
    ("POST", "/setup_comm_prefs"),
    ("GET", "/usage-report/summary"),
    ("POST", "/sts/login"),
    ("POST", "/auth/external/principal/login"),
    ("GET", "/auth/capabilities"),
    ("GET", "/auth/external/principals"),
    ("GET", U + "/external/principals/ls"),
    ("POST", U + "/external/principals"),
    ("DELETE", U + "/external/principals"),
    ("GET", G + "/acl"),
    ("POST", G + "/acl"),
)
