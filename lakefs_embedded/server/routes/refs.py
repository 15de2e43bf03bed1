"""Routes of branches, tags and commits, of imports, and of refs dumps."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import commits, refs
from lakefs_embedded.server.operations import BRANCH as BRANCH_RESOURCE
from lakefs_embedded.server.operations import REPOSITORY as REPOSITORY_RESOURCE
from lakefs_embedded.server.operations import TAG as TAG_RESOURCE
from lakefs_embedded.server.operations import Operation, fs
from lakefs_embedded.server.routes.paths import BRANCH, REF, REPOSITORY

_READ_BRANCH = fs(Action.READ_BRANCH, BRANCH_RESOURCE)
_LIST_BRANCHES = fs(Action.LIST_BRANCHES, REPOSITORY_RESOURCE)
_CREATE_BRANCH = fs(Action.CREATE_BRANCH, REPOSITORY_RESOURCE + "/branch/{.name}")
_DELETE_BRANCH = fs(Action.DELETE_BRANCH, BRANCH_RESOURCE)
_REVERT_BRANCH = fs(Action.REVERT_BRANCH, BRANCH_RESOURCE)
_COMMIT = fs(Action.CREATE_COMMIT, BRANCH_RESOURCE)
_READ_COMMIT = fs(Action.READ_COMMIT, REPOSITORY_RESOURCE)
_LIST_COMMITS = fs(Action.LIST_COMMITS, REPOSITORY_RESOURCE)
_LOG = fs(Action.READ_BRANCH, REPOSITORY_RESOURCE + "/branch/{ref}")
_LIST_OBJECTS = fs(Action.LIST_OBJECTS, REPOSITORY_RESOURCE)
_CREATE_RECORD = fs(Action.CREATE_COMMIT, REPOSITORY_RESOURCE)
_IMPORT = fs(Action.WRITE_OBJECT, BRANCH_RESOURCE) + _COMMIT  # the handler checks each source and destination
_CANCEL_IMPORT = fs(Action.IMPORT_CANCEL, BRANCH_RESOURCE)
_READ_TAG = fs(Action.READ_TAG, TAG_RESOURCE)
_LIST_TAGS = fs(Action.LIST_TAGS, REPOSITORY_RESOURCE)
_CREATE_TAG = fs(Action.CREATE_TAG, REPOSITORY_RESOURCE + "/tag/{.id}")
_DELETE_TAG = fs(Action.DELETE_TAG, TAG_RESOURCE)
_READ_DUMP = _LIST_TAGS + _LIST_BRANCHES + _LIST_COMMITS
_DUMP = _READ_DUMP + fs(Action.UPDATE_REPOSITORY, REPOSITORY_RESOURCE)  # a dump writes files: readers may not
_RESTORE = (
    fs(Action.CREATE_TAG, REPOSITORY_RESOURCE)
    + fs(Action.CREATE_BRANCH, REPOSITORY_RESOURCE)
    + fs(Action.CREATE_COMMIT, REPOSITORY_RESOURCE)
)

_BRANCHES = REPOSITORY + "/branches"
_COMMITS = REPOSITORY + "/commits"
_TAGS = REPOSITORY + "/tags"
_MERGE = REPOSITORY + "/refs/{source}/merge/{branch}"
_IMPORTS = BRANCH + "/import"

REFS: tuple[Operation, ...] = (
    # branches
    Operation("GET", _BRANCHES, refs.list_branches, _LIST_BRANCHES),
    Operation("POST", _BRANCHES, refs.create_branch, _CREATE_BRANCH, schemas.BRANCH),
    Operation("GET", BRANCH, refs.get_branch, _READ_BRANCH),
    Operation("DELETE", BRANCH, refs.delete_branch, _DELETE_BRANCH),
    Operation("PUT", BRANCH, refs.reset_branch, _REVERT_BRANCH, schemas.RESET),
    Operation("PUT", BRANCH + "/hard_reset", refs.hard_reset_branch, _REVERT_BRANCH),
    Operation("GET", BRANCH + "/diff", refs.diff_branch, _LIST_OBJECTS),
    # commits
    Operation("POST", BRANCH + "/commits", commits.commit, _COMMIT, schemas.COMMIT),
    Operation("POST", BRANCH + "/revert", commits.revert, _REVERT_BRANCH, schemas.REVERT),
    Operation(
        "POST", BRANCH + "/cherry-pick", commits.cherry_pick, _COMMIT + _READ_COMMIT, schemas.CHERRY_PICK
    ),
    Operation("GET", _COMMITS + "/{commit_id}", commits.get_commit, _READ_COMMIT),
    Operation("POST", _COMMITS, commits.create_commit_record, _CREATE_RECORD, schemas.COMMIT_RECORD),
    Operation("GET", REF + "/commits", commits.log_commits, _LOG),
    Operation("GET", REPOSITORY + "/refs/{left}/diff/{right}", commits.diff_refs, _LIST_OBJECTS),
    Operation("POST", _MERGE, commits.merge, _COMMIT, schemas.MERGE),
    Operation("GET", _MERGE, commits.find_merge_base, _LIST_COMMITS),
    # imports
    Operation("POST", _IMPORTS, commits.import_start, _IMPORT, schemas.IMPORT),
    Operation("GET", _IMPORTS, commits.import_status, _READ_BRANCH),
    Operation("DELETE", _IMPORTS, commits.import_cancel, _CANCEL_IMPORT),
    # tags
    Operation("GET", _TAGS, refs.list_tags, _LIST_TAGS),
    Operation("POST", _TAGS, refs.create_tag, _CREATE_TAG, schemas.TAG),
    Operation("GET", _TAGS + "/{tag}", refs.get_tag, _READ_TAG),
    Operation("DELETE", _TAGS + "/{tag}", refs.delete_tag, _DELETE_TAG),
    # refs dumps
    Operation("PUT", REPOSITORY + "/refs/dump", refs.dump_refs, _DUMP),
    Operation("PUT", REPOSITORY + "/refs/restore", refs.restore_refs, _RESTORE, schemas.REFS_RESTORE),
    Operation("POST", REPOSITORY + "/dump", refs.dump_submit, _DUMP),
    Operation("GET", REPOSITORY + "/dump", refs.dump_status, _READ_DUMP),
    Operation("POST", REPOSITORY + "/restore", refs.restore_submit, _RESTORE, schemas.REFS_RESTORE),
    Operation("GET", REPOSITORY + "/restore", refs.restore_status, _RESTORE),
)
