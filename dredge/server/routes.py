"""Every call of the API: method, path, handler, body. The order decides where patterns overlap.

What lakeFS has and this server has not yet answers 501 in lakeFS's words; what lakeFS has not answers 404.
"""

from __future__ import annotations

from dredge.server import bodies
from dredge.server.endpoint import Operation
from dredge.server.handlers import branches, commits, garbage, general, objects, reading, repositories

BASE_PATH = "/api/v1"

R = "/repositories/{repository}"
B = R + "/branches/{branch}"
REF = R + "/refs/{ref}"

OPERATIONS: tuple[Operation, ...] = (
    # objects first: they are asked for most
    Operation("GET", REF + "/objects/stat", reading.stat_object),
    Operation("GET", REF + "/objects/ls", reading.list_objects),
    Operation("HEAD", REF + "/objects", reading.head_object),
    Operation("GET", REF + "/objects", reading.get_object),
    Operation("GET", REF + "/objects/underlyingProperties", reading.get_underlying_properties),
    Operation("POST", B + "/objects", objects.upload_object),
    Operation("PUT", B + "/objects", objects.stage_object, bodies.STAGE),
    Operation("DELETE", B + "/objects", objects.delete_object),
    Operation("POST", B + "/objects/delete", objects.delete_objects, bodies.PATHS),
    Operation("POST", B + "/objects/copy", objects.copy_object, bodies.COPY),
    Operation(
        "PUT", B + "/objects/stat/user_metadata", objects.update_object_user_metadata, bodies.USER_METADATA
    ),
    Operation("GET", B + "/staging/backing", objects.get_physical_address),
    Operation("PUT", B + "/staging/backing", objects.link_physical_address, bodies.LINK),
    # branches, tags, commits
    Operation("GET", R + "/branches", branches.list_branches),
    Operation("POST", R + "/branches", branches.create_branch, bodies.BRANCH),
    Operation("GET", B, branches.get_branch),
    Operation("DELETE", B, branches.delete_branch),
    Operation("PUT", B, branches.reset_branch, bodies.RESET),
    Operation("PUT", B + "/hard_reset", branches.hard_reset_branch),
    Operation("GET", B + "/diff", branches.diff_branch),
    Operation("POST", B + "/commits", commits.commit, bodies.COMMIT),
    Operation("POST", B + "/revert", commits.revert, bodies.REVERT),
    Operation("POST", B + "/cherry-pick", commits.cherry_pick, bodies.CHERRY_PICK),
    Operation("GET", R + "/commits/{commit_id}", commits.get_commit),
    Operation("POST", R + "/commits", commits.create_commit_record, bodies.COMMIT_RECORD),
    Operation("GET", REF + "/commits", commits.log_commits),
    Operation("GET", R + "/refs/{left}/diff/{right}", commits.diff_refs),
    Operation("POST", R + "/refs/{source}/merge/{branch}", commits.merge, bodies.MERGE),
    Operation("GET", R + "/refs/{source}/merge/{branch}", commits.find_merge_base),
    Operation("GET", R + "/tags", branches.list_tags),
    Operation("POST", R + "/tags", branches.create_tag, bodies.TAG),
    Operation("GET", R + "/tags/{tag}", branches.get_tag),
    Operation("DELETE", R + "/tags/{tag}", branches.delete_tag),
    # garbage collection
    Operation("POST", R + "/gc/prepare_commits", garbage.prepare_commits),
    Operation("POST", R + "/gc/prepare_commits/async", garbage.prepare_commits_async),
    Operation("GET", R + "/gc/prepare_commits/status", garbage.prepare_commits_status),
    Operation("POST", R + "/gc/prepare_uncommited", garbage.prepare_uncommitted, bodies.PREPARE_UNCOMMITTED),
    Operation("GET", R + "/settings/gc_rules", garbage.get_gc_rules),
    Operation("PUT", R + "/settings/gc_rules", garbage.set_gc_rules, bodies.GC_RULES),
    Operation("DELETE", R + "/settings/gc_rules", garbage.delete_gc_rules),
    Operation("GET", R + "/gc/rules", garbage.get_gc_rules),
    Operation("POST", R + "/gc/rules", garbage.set_gc_rules, bodies.GC_RULES),
    Operation("DELETE", R + "/gc/rules", garbage.delete_gc_rules),
    Operation("GET", R + "/gc/rules/set_allowed", garbage.check_gc_rules_set_allowed),
    Operation("GET", R + "/metadata/meta_range/{id}", garbage.get_meta_range),
    Operation("GET", R + "/metadata/range/{id}", garbage.get_range),
    Operation("GET", R + "/metadata/object/meta_range/{id}", garbage.get_metadata_object),
    Operation("GET", R + "/metadata/object/range/{id}", garbage.get_metadata_object),
    # repositories
    Operation("GET", "/repositories", repositories.list_repositories),
    Operation("POST", "/repositories", repositories.create_repository, bodies.REPOSITORY),
    Operation("GET", R, repositories.get_repository),
    Operation("DELETE", R, repositories.delete_repository),
    Operation("GET", R + "/metadata", repositories.get_repository_metadata),
    Operation("GET", R + "/settings/branch_protection", repositories.get_branch_protection),
    Operation(
        "PUT", R + "/settings/branch_protection", repositories.set_branch_protection, bodies.BRANCH_PROTECTION
    ),
    # the server itself
    Operation("GET", "/healthcheck", general.health, public=True),
    Operation("GET", "/setup_lakefs", general.get_setup_state, public=True),
    Operation("POST", "/setup_lakefs", general.setup, bodies.SETUP, public=True),
    Operation("POST", "/auth/login", general.login, bodies.LOGIN, public=True),
    Operation("GET", "/user", general.get_user),
    Operation("GET", "/config", general.get_config),
    Operation("GET", "/config/storage", general.get_storage_config),
    Operation("GET", "/config/version", general.get_version),
    Operation("GET", "/config/garbage-collection", general.get_garbage_collection_config),
)

# Calls of a real server that are not built here: answered, with credentials, by 501.
UNBUILT: tuple[tuple[str, str], ...] = (
    ("POST", B + "/staging/pmpu"),
    ("PUT", B + "/staging/pmpu/{upload}"),
    ("DELETE", B + "/staging/pmpu/{upload}"),
    ("PUT", B + "/staging/pmpu/{upload}/parts/{part}"),
    ("PUT", B + "/staging/pmpu/{upload}/parts/{part}/copy"),
    ("GET", B + "/import"),
    ("POST", B + "/import"),
    ("DELETE", B + "/import"),
    ("PUT", R + "/refs/dump"),
    ("PUT", R + "/refs/restore"),
    ("GET", R + "/dump"),
    ("POST", R + "/dump"),
    ("GET", R + "/restore"),
    ("POST", R + "/restore"),
    ("POST", R + "/refs/{branch}/symlink"),
    ("POST", R + "/metadata"),
    ("DELETE", R + "/metadata"),
    ("GET", R + "/branch_protection"),
    ("POST", R + "/branch_protection"),
    ("DELETE", R + "/branch_protection"),
    ("GET", R + "/branch_protection/set_allowed"),
    ("GET", B + "/objects/stage_allowed"),
    ("GET", R + "/pulls"),
    ("POST", R + "/pulls"),
    ("GET", R + "/pulls/{pull}"),
    ("PATCH", R + "/pulls/{pull}"),
    ("PUT", R + "/pulls/{pull}/merge"),
    ("GET", R + "/actions/runs"),
    ("GET", R + "/actions/runs/{run}"),
    ("GET", R + "/actions/runs/{run}/hooks"),
    ("GET", R + "/actions/runs/{run}/hooks/{hook_run}/output"),
    ("POST", "/setup_comm_prefs"),
    ("POST", "/statistics"),
    ("GET", "/usage-report/summary"),
    ("POST", "/sts/login"),
    ("POST", "/auth/external/principal/login"),
    ("GET", "/auth/{rest:path}"),
    ("POST", "/auth/{rest:path}"),
    ("PUT", "/auth/{rest:path}"),
    ("DELETE", "/auth/{rest:path}"),
)
