"""A repository that a real server wrote, its captured answers served back: exactly the truth's garbage goes.

Nothing here was made by Dredge: not the tables, not the pages of uncommitted addresses, not the list of
active commits, not the answers. Only what nobody captured (what a branch shows, a log by name) is told from
the fixture's truth.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.tasks import LocalRunner
from dredge.storage import StorageOptions
from tests.support.captured import FOLDER, NAMESPACE, REPOSITORY, truth
from tests.support.http import Asked, Script, scripted_server
from tests.support.objectstore import moto_server

BASE = f"/api/v1/repositories/{REPOSITORY}"
PREFIX = "basic/basic-fixture/"


def body(name: str) -> tuple[int, Any]:
    found = json.loads((FOLDER / "api" / f"{name}.json").read_text())
    return found["status"], found["body"]


class CapturedServer:
    def __init__(self) -> None:
        self.truth = truth()
        self.metadata: dict[str, str] = {}
        self.commits = {
            item["id"]: item for item in json.loads((FOLDER / "api/commits.json").read_text())["commits"]
        }
        self.pages = {}
        for path in sorted((FOLDER / "api").glob("prepare_uncommitted_[0-9][0-9].json")):
            page = json.loads(path.read_text())
            self.pages[page["request"]["body"].get("continuation_token")] = (page["status"], page["body"])
        self.shown = {
            read["ref"]: {item["path"]: item for item in read["objects"]}
            for read in self.truth["reads"]
            if read["kind"] == "branch"
        }

    def answer(self, asked: Asked) -> tuple[int, Any]:
        where = asked.path.removeprefix(BASE)
        if asked.path == "/api/v1/repositories":
            return self.own_repository()
        if asked.method == "POST":
            return self.post(where, asked.body)
        captured = {
            "": "repository",
            "/branches": "branches_show_hidden",
            "/tags": "tags",
            "/settings/gc_rules": "gc_rules",
            "/gc/prepare_commits/status": "prepare_commits_status_done",
            "/refs/main/commits": "log_main",
            "/refs/target/commits": "log_target",
        }
        if where == "/metadata":
            return 200, self.metadata  # not captured: the repository had none
        if where in captured:
            return body(captured[where])
        kind, _, rest = where.removeprefix("/").partition("/")
        if kind == "commits":
            return (
                (200, self.commits[rest]) if rest in self.commits else (404, {"message": "commit not found"})
            )
        ref, _, call = rest.partition("/")
        if call == "objects/stat":
            return self.stat(ref, asked.query["path"])
        if call == "objects/ls":
            return self.listing(ref, asked.query["after"], int(asked.query["amount"]))
        if call == "diff":
            return 200, {"results": [], "pagination": {"has_more": False, "next_offset": ""}}
        return 404, {"message": "not found"}

    def own_repository(self) -> tuple[int, Any]:
        """The captured list also has other repositories of that server, whose namespaces do not matter
        here."""
        return body("repositories")

    def post(self, where: str, sent: Any) -> tuple[int, Any]:
        if where == "/gc/prepare_uncommited":
            return self.pages[(sent or {}).get("continuation_token")]
        if where == "/gc/prepare_commits/async":
            return body("prepare_commits_async")
        if where == "/metadata":
            self.metadata |= sent["metadata"]
            return 204, None
        return 404, {"message": "invalid API endpoint"}

    def stat(self, ref: str, path: str) -> tuple[int, Any]:
        if path not in self.shown[ref]:
            return 404, {"message": "not found"}
        return 200, self.stats(self.shown[ref][path])

    def listing(self, ref: str, after: str, amount: int) -> tuple[int, Any]:
        paths = [path for path in sorted(self.shown[ref]) if path > after][:amount]
        return 200, {"results": [self.stats(self.shown[ref][path]) for path in paths], "pagination": {}}

    def stats(self, item: dict[str, Any]) -> dict[str, Any]:
        return {
            "path": item["path"],
            "path_type": "object",
            "physical_address": f"{NAMESPACE}/{item['key']}",
            "checksum": "",
            "size_bytes": item["size"],
        }


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[StorageOptions, Any]]:
    with moto_server() as options:
        for name, value in options.to_env().items():
            monkeypatch.setenv(name, value)
        # Servers in one process share what they hold.
        from moto.core.base_backend import BackendDict

        BackendDict.reset()
        client = boto3.client(
            "s3",
            endpoint_url=options.endpoint_url,
            region_name=options.region,
            aws_access_key_id=options.access_key_id,
            aws_secret_access_key=options.secret_access_key,
        )
        client.create_bucket(Bucket="lake")
        namespace = FOLDER / "namespace"
        for path in sorted(found for found in namespace.rglob("*") if found.is_file()):
            key = PREFIX + path.relative_to(namespace).as_posix()
            client.put_object(Bucket="lake", Key=key, Body=path.read_bytes())
        yield options, client


@pytest.fixture
def server() -> Iterator[Script]:
    with scripted_server() as script:
        script.answer = CapturedServer().answer
        yield script


def all_keys(client: Any) -> set[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix=PREFIX)
    return {item["Key"].removeprefix(PREFIX) for page in pages for item in page.get("Contents", [])}


def keys(client: Any) -> set[str]:
    return {key for key in all_keys(client) if not key.startswith("_lakefs/")}


@pytest.mark.parametrize("keep_tags", [True, pytest.param(False, marks=pytest.mark.long)])
def test_exactly_the_truths_garbage_of_a_real_servers_repository_goes(
    store: tuple[StorageOptions, Any], server: Script, keep_tags: bool
) -> None:
    _, client = store
    found = truth()
    everything = all_keys(client)
    before = keys(client)
    assert before == {item["key"] for item in found["objects"]}
    garbage = {
        item["key"]
        for item in found["objects"]
        if item["verdict"] == "delete" or (not keep_tags and item.get("policy") == "tags")
    }
    time.sleep(1.1)  # the store tells whole seconds; all files were just put there, also those of old commits
    lakefs = LakeFSClient(server.endpoint, "key", "secret")
    config = GCConfig(
        repository=REPOSITORY,
        dry_run=False,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
        keep_tags=keep_tags,
        keep_unnamed_days=0,
    )
    plan = plan_run(config, None, lakefs)
    context = Run.open(plan.run_uri, None, lakefs)
    report = run_steps(context, LocalRunner())
    assert before - keys(client) == garbage
    assert everything - all_keys(client) == garbage  # lakeFS's own files are all there
    assert report.counts["deleted_objects"] == len(garbage) == (22 if keep_tags else 23)
    # The one that vendors lose: the same bytes uploaded again over a committed object.
    live = context.folder.read_json("guard.json")["identical_live"]
    assert [item["path"] for item in live] == ["base/twin.txt"]
    for read in found["reads"]:
        if read["kind"] != "branch":
            continue
        for item in read["objects"]:
            data = client.get_object(Bucket="lake", Key=PREFIX + item["key"])["Body"].read()
            assert hashlib.sha256(data).hexdigest() == item["sha256"]
