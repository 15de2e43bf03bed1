"""Every call of the API with every status code that it promises, through the generated SDK.

A case is a call as in the API's specification, a status code, and a function that provokes it. A route without a case
fails.

Source of the table: lakeFS api/swagger.yml and a running server.
"""

from collections.abc import Iterator

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration

from lakefs_embedded.server import ServerSettings, ThreadedServer
from lakefs_embedded.server.routes import OPERATIONS
from tests.support.api_cases import (
    NOWHERE,
    Api,
    Case,
    after,
    body,
    conflict,
    create,
    failed_import,
    on,
    reset,
    upload,
)
from tests.support.lakefs_server import Lake, lakefs_server

R = "/repositories/{repository}"
B = R + "/branches/{branch}"
REF = R + "/refs/{ref}"

# Parts of the API with tests of their own.
ELSEWHERE = (
    "/auth/",
    "/usage-report",
    "/symlink",
    "/staging/pmpu",
    "/pulls",
    "/actions/",
)


CASES: list[Case] = [
    # the server
    ("GET /healthcheck", 204, lambda api: api.status(api.sdk.health_check_api.health_check)),
    ("GET /setup_lakefs", 200, lambda api: api.status(api.sdk.internal_api.get_setup_state)),
    ("POST /setup_lakefs", 409, lambda api: api.status(api.sdk.internal_api.setup, sdk.Setup(username="x"))),
    ("POST /auth/login", 200, lambda api: api.status(
        api.sdk.auth_api.login, body("LoginInformation", access_key_id=api.lake.server.access_key_id,
                                     secret_access_key=api.lake.server.secret_access_key))),
    ("POST /auth/login", 401, lambda api: api.status(
        api.sdk.auth_api.login, body("LoginInformation", access_key_id="x", secret_access_key="y"))),
    ("GET /user", 200, lambda api: api.status(api.sdk.auth_api.get_current_user)),
    ("GET /config", 200, lambda api: api.status(api.sdk.config_api.get_config)),
    ("GET /config/storage", 200, lambda api: api.status(api.sdk.internal_api.get_storage_config)),
    ("GET /config/version", 200, lambda api: api.status(api.sdk.internal_api.get_lake_fs_version)),
    ("GET /config/garbage-collection", 200,
     lambda api: api.status(api.sdk.internal_api.get_garbage_collection_config)),
    ("POST /statistics", 204, lambda api: api.status(api.sdk.internal_api.post_stats_events, sdk.StatsEventsList(
        events=[sdk.StatsEvent(**{"class": "c", "name": "n", "count": 1})]))),
    ("POST /statistics", 400, lambda api: api.status(api.sdk.internal_api.post_stats_events, sdk.StatsEventsList(
        events=[sdk.StatsEvent(**{"class": "c", "name": "", "count": 1})]))),
    # repositories
    ("GET /repositories", 200, lambda api: api.status(api.sdk.repositories_api.list_repositories)),
    ("POST /repositories", 201, create()),
    ("POST /repositories", 400, create(where="s3://elsewhere/x")),
    ("POST /repositories", 400, lambda api: api.lake.http(
        "POST", "/repositories", json_body={"name": "No Name", "storage_namespace": api.namespace("x")}).status),
    ("POST /repositories", 409, lambda api: create(name=api.repo)(api)),
    (f"GET {R}", 200, on(lambda c: c.repositories_api.get_repository)),
    (f"GET {R}", 410, after(Api.locked, on(lambda c: c.repositories_api.get_repository))),
    (f"DELETE {R}", 204, on(lambda c: c.repositories_api.delete_repository)),
    (f"DELETE {R}", 403, lambda api: api.status(api.sdk.repositories_api.delete_repository, api.read_only())),
    (f"GET {R}/metadata", 200, on(lambda c: c.repositories_api.get_repository_metadata)),
    (f"POST {R}/metadata", 204, on(lambda c: c.internal_api.set_repository_metadata,
                                   body("RepositoryMetadataSet", metadata={"k": "v"}))),
    (f"DELETE {R}/metadata", 204, on(lambda c: c.internal_api.delete_repository_metadata,
                                     body("RepositoryMetadataKeys", keys=["k"]))),
    # branches
    (f"GET {R}/branches", 200, on(lambda c: c.branches_api.list_branches)),
    (f"POST {R}/branches", 201, on(lambda c: c.branches_api.create_branch,
                                   sdk.BranchCreation(name="new", source="main"))),
    (f"POST {R}/branches", 404, on(lambda c: c.branches_api.create_branch,
                                   sdk.BranchCreation(name="new", source=NOWHERE))),
    (f"POST {R}/branches", 409, on(lambda c: c.branches_api.create_branch,
                                   sdk.BranchCreation(name="side", source="main"))),
    (f"GET {B}", 200, on(lambda c: c.branches_api.get_branch, "main")),
    (f"GET {B}", 404, on(lambda c: c.branches_api.get_branch, NOWHERE)),
    (f"DELETE {B}", 204, on(lambda c: c.branches_api.delete_branch, "side")),
    (f"DELETE {B}", 403, on(lambda c: c.branches_api.delete_branch, "main")),
    (f"DELETE {B}", 404, on(lambda c: c.branches_api.delete_branch, NOWHERE)),
    (f"PUT {B}", 204, on(lambda c: c.branches_api.reset_branch, "main", reset("reset"))),
    (f"PUT {B}", 204, after(lambda api: api.upload("n"),
                            on(lambda c: c.branches_api.reset_branch, "main", reset("object", "n")))),
    (f"PUT {B}", 400, lambda api: api.lake.http(
        "PUT", f"/repositories/{api.repo}/branches/main", json_body={"type": "all"}).status),
    (f"PUT {B}", 404, on(lambda c: c.branches_api.reset_branch, NOWHERE, reset("reset"))),
    (f"PUT {B}/hard_reset", 204, on(lambda c: c.experimental_api.hard_reset_branch, "side", "main")),
    (f"PUT {B}/hard_reset", 404, on(lambda c: c.experimental_api.hard_reset_branch, "side", NOWHERE)),
    # commits
    (f"POST {B}/commits", 201, after(lambda api: api.upload("n"), on(
        lambda c: c.commits_api.commit, "main", sdk.CommitCreation(message="m")))),
    (f"POST {B}/commits", 400, on(lambda c: c.commits_api.commit, "main", sdk.CommitCreation(message="m"))),
    (f"POST {B}/commits", 403, after(Api.protect, on(
        lambda c: c.commits_api.commit, "main", sdk.CommitCreation(message="m", allow_empty=True)))),
    (f"POST {B}/commits", 404, on(lambda c: c.commits_api.commit, NOWHERE, sdk.CommitCreation(message="m"))),
    (f"POST {B}/revert", 204, on(lambda c: c.branches_api.revert_branch, "main",
                                 sdk.RevertCreation(ref="main", parent_number=0))),
    (f"POST {B}/revert", 400, after(lambda api: api.upload("n"), on(
        lambda c: c.branches_api.revert_branch, "main", sdk.RevertCreation(ref="main", parent_number=0)))),
    (f"POST {B}/revert", 409, after(conflict, on(
        lambda c: c.branches_api.revert_branch, "main", sdk.RevertCreation(ref="side", parent_number=0)))),
    (f"POST {B}/cherry-pick", 201, on(lambda c: c.branches_api.cherry_pick, "main",
                                      sdk.CherryPickCreation(ref="side"))),
    (f"POST {B}/cherry-pick", 400, on(lambda c: c.branches_api.cherry_pick, "main",
                                      sdk.CherryPickCreation(ref="side", parent_number=2))),
    (f"POST {B}/cherry-pick", 409, after(conflict, on(
        lambda c: c.branches_api.cherry_pick, "main", sdk.CherryPickCreation(ref="side")))),
    (f"GET {B}/diff", 200, on(lambda c: c.branches_api.diff_branch, "main")),
    (f"GET {B}/diff", 404, on(lambda c: c.branches_api.diff_branch, NOWHERE)),
    (f"GET {R}/refs/{{left}}/diff/{{right}}", 200, on(lambda c: c.refs_api.diff_refs, "main", "side")),
    (f"GET {R}/refs/{{left}}/diff/{{right}}", 404, on(lambda c: c.refs_api.diff_refs, "main", NOWHERE)),
    (f"POST {R}/refs/{{source}}/merge/{{branch}}", 200,
     on(lambda c: c.refs_api.merge_into_branch, "side", "main")),
    (f"POST {R}/refs/{{source}}/merge/{{branch}}", 400,
     on(lambda c: c.refs_api.merge_into_branch, "main", "main")),
    (f"POST {R}/refs/{{source}}/merge/{{branch}}", 400, after(
        lambda api: api.upload("n"), on(lambda c: c.refs_api.merge_into_branch, "side", "main"))),
    (f"POST {R}/refs/{{source}}/merge/{{branch}}", 404,
     on(lambda c: c.refs_api.merge_into_branch, NOWHERE, "main")),
    (f"POST {R}/refs/{{source}}/merge/{{branch}}", 409,
     after(conflict, on(lambda c: c.refs_api.merge_into_branch, "side", "main"))),
    (f"GET {R}/refs/{{source}}/merge/{{branch}}", 200,
     on(lambda c: c.refs_api.find_merge_base, "side", "main")),
    (f"GET {R}/refs/{{source}}/merge/{{branch}}", 404,
     on(lambda c: c.refs_api.find_merge_base, NOWHERE, "main")),
    (f"GET {REF}/commits", 200, on(lambda c: c.refs_api.log_commits, "side")),
    (f"GET {REF}/commits", 404, on(lambda c: c.refs_api.log_commits, NOWHERE)),
    (f"GET {R}/commits/{{commit_id}}", 200, on(lambda c: c.commits_api.get_commit, "main")),
    (f"GET {R}/commits/{{commit_id}}", 404, on(lambda c: c.commits_api.get_commit, "0" * 64)),
    (f"POST {R}/commits", 204, Api.copied_record),
    (f"POST {R}/commits", 400, lambda api: api.status(
        api.sdk.internal_api.create_commit_record, api.repo, api.record(message="another"))),
    (f"POST {R}/commits", 409, lambda api: api.status(
        api.sdk.internal_api.create_commit_record, api.repo, api.record())),
    # tags
    (f"GET {R}/tags", 200, on(lambda c: c.tags_api.list_tags)),
    (f"POST {R}/tags", 201, on(lambda c: c.tags_api.create_tag, sdk.TagCreation(id="v2", ref="main"))),
    (f"POST {R}/tags", 404, on(lambda c: c.tags_api.create_tag, sdk.TagCreation(id="v2", ref=NOWHERE))),
    (f"POST {R}/tags", 409, on(lambda c: c.tags_api.create_tag, sdk.TagCreation(id="v1", ref="main"))),
    (f"GET {R}/tags/{{tag}}", 200, on(lambda c: c.tags_api.get_tag, "v1")),
    (f"GET {R}/tags/{{tag}}", 404, on(lambda c: c.tags_api.get_tag, NOWHERE)),
    (f"DELETE {R}/tags/{{tag}}", 204, on(lambda c: c.tags_api.delete_tag, "v1")),
    (f"DELETE {R}/tags/{{tag}}", 404, on(lambda c: c.tags_api.delete_tag, NOWHERE)),
    # objects
    (f"GET {REF}/objects/ls", 200, on(lambda c: c.objects_api.list_objects, "main")),
    (f"GET {REF}/objects/ls", 404, on(lambda c: c.objects_api.list_objects, NOWHERE)),
    (f"GET {REF}/objects/stat", 200, on(lambda c: c.objects_api.stat_object, "main", "a")),
    (f"GET {REF}/objects/stat", 404, on(lambda c: c.objects_api.stat_object, "main", NOWHERE)),
    (f"GET {REF}/objects", 200, on(lambda c: c.objects_api.get_object, "main", "a")),
    (f"GET {REF}/objects", 206, on(lambda c: c.objects_api.get_object, "main", "a", range="bytes=0-0")),
    (f"GET {REF}/objects", 304, lambda api: api.status(
        api.sdk.objects_api.get_object, api.repo, "main", "a",
        if_none_match=f'"{api.sdk.objects_api.stat_object(api.repo, "main", "a").checksum}"')),
    (f"GET {REF}/objects", 404, on(lambda c: c.objects_api.get_object, "main", NOWHERE)),
    (f"GET {REF}/objects", 410, after(lambda api: api.lose("a"),
                                      on(lambda c: c.objects_api.get_object, "main", "a"))),
    (f"GET {REF}/objects", 416, on(lambda c: c.objects_api.get_object, "main", "a", range="bytes=9-")),
    (f"HEAD {REF}/objects", 200, on(lambda c: c.objects_api.head_object, "main", "a")),
    (f"HEAD {REF}/objects", 206, on(lambda c: c.objects_api.head_object, "main", "a", range="bytes=0-0")),
    (f"HEAD {REF}/objects", 404, on(lambda c: c.objects_api.head_object, "main", NOWHERE)),
    (f"HEAD {REF}/objects", 416, on(lambda c: c.objects_api.head_object, "main", "a", range="bytes=9-")),
    (f"GET {REF}/objects/underlyingProperties", 200,
     on(lambda c: c.objects_api.get_underlying_properties, "main", "a")),
    (f"GET {REF}/objects/underlyingProperties", 404,
     on(lambda c: c.objects_api.get_underlying_properties, "main", NOWHERE)),
    (f"POST {B}/objects", 201, upload()),
    (f"POST {B}/objects", 403, after(Api.protect, upload())),
    (f"POST {B}/objects", 404, upload(branch=NOWHERE)),
    (f"POST {B}/objects", 412, upload(path="a", if_none_match="*")),
    (f"GET {B}/objects/stage_allowed", 204,
     on(lambda c: c.internal_api.upload_object_preflight, "main", "a")),
    (f"PUT {B}/objects", 201, on(lambda c: c.internal_api.stage_object, "main", "n", sdk.ObjectStageCreation(
        physical_address="local://elsewhere/x", checksum="c", size_bytes=1))),
    (f"PUT {B}/objects", 404, on(lambda c: c.internal_api.stage_object, NOWHERE, "n", sdk.ObjectStageCreation(
        physical_address="local://elsewhere/x", checksum="c", size_bytes=1))),
    (f"DELETE {B}/objects", 204, on(lambda c: c.objects_api.delete_object, "main", "a")),
    (f"DELETE {B}/objects", 204, on(lambda c: c.objects_api.delete_object, "main", NOWHERE)),
    (f"DELETE {B}/objects", 403, after(Api.protect, on(lambda c: c.objects_api.delete_object, "main", "a"))),
    (f"DELETE {B}/objects", 404, on(lambda c: c.objects_api.delete_object, NOWHERE, "a")),
    (f"POST {B}/objects/delete", 200, on(lambda c: c.objects_api.delete_objects, "main",
                                         sdk.PathList(paths=["a"]))),
    (f"POST {B}/objects/delete", 400, on(lambda c: c.objects_api.delete_objects, "main",
                                         sdk.PathList(paths=["a"] * 1001))),
    (f"POST {B}/objects/copy", 201, on(lambda c: c.objects_api.copy_object, "main", "copy",
                                       sdk.ObjectCopyCreation(src_path="a"))),
    (f"POST {B}/objects/copy", 404, on(lambda c: c.objects_api.copy_object, "main", "copy",
                                       sdk.ObjectCopyCreation(src_path=NOWHERE))),
    (f"POST {B}/objects/copy", 501, on(lambda c: c.objects_api.copy_object, "main", "copy",
                                       sdk.ObjectCopyCreation(src_path="a", shallow=True))),
    (f"PUT {B}/objects/stat/user_metadata", 204, on(
        lambda c: c.experimental_api.update_object_user_metadata, "main", "a",
        sdk.UpdateObjectUserMetadata(set={"k": "v"}))),
    (f"PUT {B}/objects/stat/user_metadata", 404, on(
        lambda c: c.experimental_api.update_object_user_metadata, "main", NOWHERE,
        sdk.UpdateObjectUserMetadata(set={"k": "v"}))),
    (f"GET {B}/staging/backing", 200, on(lambda c: c.staging_api.get_physical_address, "main", "n")),
    (f"PUT {B}/staging/backing", 200, lambda api: api.link("n", api.backing("n"))),
    (f"PUT {B}/staging/backing", 400, lambda api: api.link("n", api.backing("another"))),
    # imports
    (f"POST {B}/import", 202, lambda api: api.status(
        api.sdk.import_api.import_start, api.repo, "main", api.import_of(api.namespace("warehouse") + "/one"))),
    (f"POST {B}/import", 400, lambda api: api.status(
        api.sdk.import_api.import_start, api.repo, "main", api.import_of(api.namespace(api.repo) + "/data/x"))),
    (f"POST {B}/import", 403, after(Api.protect, lambda api: api.status(
        api.sdk.import_api.import_start, api.repo, "main", api.import_of(api.namespace("warehouse") + "/one")))),
    (f"POST {B}/import", 404, lambda api: api.status(
        api.sdk.import_api.import_start, api.repo, NOWHERE, api.import_of(api.namespace("warehouse") + "/one"))),
    (f"GET {B}/import", 200, lambda api: api.status(
        api.sdk.import_api.import_status, api.repo, "main", api.start_import().id)),
    (f"GET {B}/import", 404, on(lambda c: c.import_api.import_status, "main", NOWHERE)),
    (f"DELETE {B}/import", 204, lambda api: api.status(
        api.sdk.import_api.import_cancel, api.repo, "main", failed_import(api))),
    (f"DELETE {B}/import", 404, on(lambda c: c.import_api.import_cancel, "main", NOWHERE)),
    (f"DELETE {B}/import", 409, lambda api: api.status(
        api.sdk.import_api.import_cancel, api.repo, "main", api.ended_import())),
    # settings
    (f"GET {R}/settings/gc_rules", 200, after(
        lambda api: api.sdk.repositories_api.set_gc_rules(api.repo, api.rules()),
        on(lambda c: c.repositories_api.get_gc_rules))),
    (f"GET {R}/settings/gc_rules", 404, on(lambda c: c.repositories_api.get_gc_rules)),
    (f"PUT {R}/settings/gc_rules", 204,
     lambda api: api.status(api.sdk.repositories_api.set_gc_rules, api.repo, api.rules())),
    (f"DELETE {R}/settings/gc_rules", 204, on(lambda c: c.repositories_api.delete_gc_rules)),
    (f"GET {R}/settings/branch_protection", 200,
     on(lambda c: c.repositories_api.get_branch_protection_rules)),
    (f"PUT {R}/settings/branch_protection", 204, on(
        lambda c: c.repositories_api.set_branch_protection_rules, [sdk.BranchProtectionRule(pattern="m*")])),
    (f"PUT {R}/settings/branch_protection", 412, on(
        lambda c: c.repositories_api.set_branch_protection_rules, [sdk.BranchProtectionRule(pattern="m*")],
        if_match="another")),
    # garbage collection
    (f"POST {R}/gc/prepare_commits", 400, after(
        lambda api: api.sdk.repositories_api.set_gc_rules(api.repo, api.rules()),
        on(lambda c: c.internal_api.prepare_garbage_collection_commits))),
    (f"POST {R}/gc/prepare_commits", 404, on(lambda c: c.internal_api.prepare_garbage_collection_commits)),
    (f"POST {R}/gc/prepare_commits/async", 202,
     on(lambda c: c.internal_api.prepare_garbage_collection_commits_async)),
    (f"GET {R}/gc/prepare_commits/status", 200, lambda api: api.status(
        api.sdk.internal_api.prepare_garbage_collection_commits_status, api.repo,
        api.sdk.internal_api.prepare_garbage_collection_commits_async(api.repo).id)),
    (f"GET {R}/gc/prepare_commits/status", 404,
     on(lambda c: c.internal_api.prepare_garbage_collection_commits_status, NOWHERE)),
    (f"POST {R}/gc/prepare_uncommited", 201,
     on(lambda c: c.internal_api.prepare_garbage_collection_uncommitted)),
    (f"POST {R}/gc/prepare_uncommited", 400, on(
        lambda c: c.internal_api.prepare_garbage_collection_uncommitted,
        prepare_gc_uncommitted_request=body("PrepareGCUncommittedRequest", continuation_token="%%"))),
    (f"GET {R}/metadata/meta_range/{{id}}", 200, on(lambda c: c.metadata_api.get_meta_range, "any")),
    (f"GET {R}/metadata/range/{{id}}", 200, on(lambda c: c.metadata_api.get_range, "any")),
    (f"GET {R}/metadata/object/meta_range/{{id}}", 200, lambda api: api.status(
        api.sdk.internal_api.get_metadata_object, api.repo,
        api.sdk.commits_api.get_commit(api.repo, "main").meta_range_id, "meta_range")),
    (f"GET {R}/metadata/object/meta_range/{{id}}", 410,
     on(lambda c: c.internal_api.get_metadata_object, "0" * 64, "meta_range")),
    (f"GET {R}/metadata/object/range/{{id}}", 410,
     on(lambda c: c.internal_api.get_metadata_object, "0" * 64, "range")),
]  # fmt: skip


@pytest.fixture(scope="module")
def api_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("api")
    with lakefs_server(folder, local_import=True) as lake:
        warehouse = folder / "objects" / "warehouse"
        warehouse.mkdir()
        (warehouse / "one").write_bytes(b"one")
        yield lake


@pytest.fixture
def api(api_lake: Lake, request: pytest.FixtureRequest) -> Api:
    name = f"case-{request.node.callspec.indices['case']}"
    made = Api(api_lake, name)
    api_lake.repository(name)
    made.put("a")
    api_lake.sdk.branches_api.create_branch(name, sdk.BranchCreation(name="side", source="main"))
    made.put("b", branch="side")
    api_lake.sdk.tags_api.create_tag(name, sdk.TagCreation(id="v1", ref="main"))
    return made


@pytest.mark.parametrize("case", CASES, ids=[f"{call} {code} {i}" for i, (call, code, _) in enumerate(CASES)])
def test_a_call_answers_with_the_code_that_it_promises(api: Api, case: Case) -> None:
    _, code, run = case
    assert run(api) == code


def test_setup_is_done_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("setup")
    settings = ServerSettings(listen="127.0.0.1:0", local_base=str(folder))
    with ThreadedServer(settings, keep_unset=True) as server:
        client = LakeFSClient(Configuration(host=server.endpoint))
        made = client.internal_api.setup_with_http_info(sdk.Setup(username="jane"))
        assert made.status_code == 200


def test_every_route_of_the_server_has_a_case() -> None:
    served = {f"{each.method} {each.path}" for each in OPERATIONS}
    tried = {call for call, _, _ in CASES}
    assert tried <= served
    assert [call for call in served - tried if not any(part in call for part in ELSEWHERE)] == []
