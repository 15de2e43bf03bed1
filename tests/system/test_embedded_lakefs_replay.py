"""The embedded server against the answers of a real one.

`fixtures/lakefs/repo-small` is a repository that a real lakeFS wrote, with its key-value records and API
answers. The embedded server is given the same records and objects, its clock is set to the time of capture,
and the captured requests are sent to it again. Bodies must be equal; where they hold fresh ids or URLs, the
same keys and types.
"""

import csv
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.lakefs_server import Clock, Lake, lakefs_server, load_kv, load_namespace
from tests.support.objectstore import TestBucket, moto_s3

pytestmark = pytest.mark.system

FIXTURE = Path(__file__).parent.parent / "fixtures" / "lakefs" / "repo-small"
CAPTURED = datetime(2026, 11, 21, 12, 14, 16, tzinfo=UTC)
NAMESPACE = "basic/basic-fixture"

# Equal byte for byte, apart from the order of keys.
EXACT = [
    "branches_default",
    "branches_page_1",
    "branches_page_2",
    "branches_show_hidden",
    "config_garbage_collection",
    "error_prepare_commits_no_rules",
    "error_prepare_commits_read_only",
    "error_prepare_commits_unknown_repository",
    "error_prepare_uncommitted_bad_token",
    "error_prepare_uncommitted_read_only",
    "error_rules_none",
    "error_status_unknown_task",
    "error_unauthorized",
    "error_unknown_branch",
    "error_unknown_commit",
    "error_unknown_endpoint",
    "error_unknown_repository",
    "gc_rules",
    "gc_rules_without_branches",
    "log_main",
    "log_target",
    "meta_range",
    "objects_main",
    "objects_main_committed",
    "objects_work",
    "repository",
    "stat_twin",
    "tags",
]
# Equal in keys, types and status; ids, times and signatures are fresh.
SHAPES = [
    "config",
    "physical_address",
    "prepare_commits_async",
    "prepare_commits_async_no_rules",
    "prepare_uncommitted_nothing_staged",
    "repositories",
]


def captured(name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((FIXTURE / "api" / f"{name}.json").read_text())
    return answer


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with moto_s3() as made:
        made.client.create_bucket(Bucket="lake")
        bucket = TestBucket(made.options, "lake", made.client)
        assert load_namespace(FIXTURE / "namespace", bucket, NAMESPACE) > 60
        clock = Clock(CAPTURED)
        with lakefs_server(
            Path("/nowhere"), bucket=bucket, kv=load_kv(FIXTURE / "kv.jsonl"), clock=clock
        ) as lake:
            for name, read_only in (("norules-fixture", False), ("readonly-fixture", True)):
                lake.server.catalog.repositories.create_repository(
                    name, f"s3://lake/other/{name}", read_only=read_only
                )
            yield replace(lake, base="s3://lake/basic")
        # Buckets outlive the server in this process, and this one's name is not its own: a second use starts anew.
        left = bucket.keys()
        for key in left:
            made.client.delete_object(Bucket="lake", Key=key)


def send(lake: Lake, request: dict[str, Any]) -> Any:
    path = request["path"].removeprefix("/api/v1")
    credentials = None if request.get("authorization") == "none" else ("", "")
    return lake.http(
        request["method"],
        path,
        query=request.get("query"),
        json_body=request.get("body"),
        credentials=credentials,
    )


@pytest.mark.parametrize("name", EXACT)
def test_the_answer_equals_the_real_servers(lake: Lake, name: str) -> None:
    expected = captured(name)
    answer = send(lake, expected["request"])
    assert answer.status == expected["status"]
    assert answer.json() == expected["body"]
    for header, value in expected["headers"].items():
        assert answer.headers.get(header) == value


def same_shape(ours: Any, real: Any) -> bool:
    if isinstance(real, dict):
        return (
            isinstance(ours, dict)
            and sorted(ours) == sorted(real)
            and all(same_shape(ours[key], real[key]) for key in real)
        )
    if isinstance(real, list):
        return isinstance(ours, list) and all(same_shape(each, real[0]) for each in ours if real)
    return type(ours) is type(real)


@pytest.mark.parametrize("name", SHAPES)
def test_the_answer_has_the_real_servers_shape(lake: Lake, name: str) -> None:
    expected = captured(name)
    answer = send(lake, expected["request"])
    assert answer.status == expected["status"]
    assert same_shape(answer.json(), expected["body"])
    assert answer.headers["Content-Type"] == expected["headers"]["Content-Type"]


def test_a_body_that_misses_a_field_is_refused_in_the_real_servers_words(lake: Lake) -> None:
    expected = captured("error_validation")
    answer = send(lake, expected["request"])
    assert answer.status == expected["status"]
    # The real server goes on with the schema and the value.
    assert expected["body"]["message"].startswith(answer.json()["message"])


def test_every_commit_equals_the_real_servers(lake: Lake) -> None:
    for commit in captured("commits")["commits"]:
        answer = lake.http("GET", f"/repositories/basic-fixture/commits/{commit['id']}")
        assert answer.json() == commit


def test_rules_with_branches_are_read_from_a_real_servers_file(lake: Lake) -> None:
    expected = captured("gc_rules_with_branches")
    file = next((FIXTURE / "rules").glob("*.bin"))
    writer = replace(lake, base="s3://lake/other").writer("norules-fixture")
    writer.put("_lakefs/retention/gc/rules/config.json", file.read_bytes())
    try:
        ours = send(lake, expected["request"]).json()
    finally:
        writer.put("_lakefs/retention/gc/rules/config.json", b"")
    key = "branch_id"
    assert ours["default_retention_days"] == expected["body"]["default_retention_days"]
    assert sorted(ours["branches"], key=lambda each: each[key]) == sorted(
        expected["body"]["branches"], key=lambda each: each[key]
    )


def csv_of(content: bytes) -> list[tuple[str, ...]]:
    return sorted(tuple(row) for row in csv.reader(content.decode().splitlines()))


def test_the_active_commits_equal_the_real_servers(lake: Lake) -> None:
    expected = captured("prepare_commits")
    answer = send(lake, expected["request"])
    assert answer.status == 400  # nothing is pre-signed here: the real answer of such a server
    error, ours = [json.loads(line) for line in answer.data.splitlines()]
    assert error == {"message": "operation not supported"}
    assert sorted(ours) == sorted(expected["body"])
    prefix = f"s3://lake/{NAMESPACE}/"
    run = expected["body"]["gc_commits_location"].removeprefix(prefix)
    real_csv = (FIXTURE / "namespace" / run).read_bytes()
    our_csv = lake.writer("basic-fixture").get(ours["gc_commits_location"].removeprefix(prefix))
    assert csv_of(our_csv) == csv_of(real_csv)


def test_a_finished_task_has_the_real_servers_shape(lake: Lake) -> None:
    expected = captured("prepare_commits_status_done")
    task = send(lake, captured("prepare_commits_async")["request"]).json()["id"]
    request = expected["request"] | {"query": {"id": task}}
    ours: dict[str, Any] = {"completed": False}
    while not ours["completed"]:
        ours = send(lake, request).json()
    real = dict(expected["body"])
    del real["result"]["gc_commits_presigned_url"]
    assert same_shape(ours, real)


def test_a_task_without_rules_has_the_real_servers_shape(lake: Lake) -> None:
    expected = captured("prepare_commits_status_no_rules")
    task = send(lake, captured("prepare_commits_async_no_rules")["request"]).json()["id"]
    ours: dict[str, Any] = {"completed": False}
    while not ours["completed"]:
        ours = send(lake, expected["request"] | {"query": {"id": task}}).json()
    assert same_shape(ours, expected["body"])
    assert ours["error"] == expected["body"]["error"]


def test_the_uncommitted_addresses_equal_the_real_servers(lake: Lake) -> None:
    def rows(files: list[bytes]) -> list[tuple[str, int]]:
        tables = [pq.read_table(pa.BufferReader(each)) for each in files]
        return sorted(
            (row["physical_address"], row["creation_date"]) for table in tables for row in table.to_pylist()
        )

    real_run = json.loads((FIXTURE / "truth.json").read_text())["uncommitted_run_id"]
    folder = FIXTURE / "namespace" / "_lakefs/retention/gc/uncommitted" / real_run / "uncommitted"
    answer = send(lake, captured("prepare_uncommitted_01")["request"])
    assert answer.status == 201
    assert "continuation_token" not in answer.json()
    location = answer.json()["gc_uncommitted_location"].removeprefix(f"s3://lake/{NAMESPACE}/")
    writer = lake.writer("basic-fixture")
    keys = [key for batch in writer.list(location) for key in batch.column("key").to_pylist()]
    assert rows([writer.get(key) for key in keys]) == rows([path.read_bytes() for path in folder.iterdir()])


def test_every_read_gives_the_object_that_the_truth_names(lake: Lake) -> None:
    truth = json.loads((FIXTURE / "truth.json").read_text())
    reads = {(read["ref"], each["path"]): each for read in truth["reads"] for each in read["objects"]}
    for (ref, path), expected in reads.items():
        answer = lake.http("GET", f"/repositories/basic-fixture/refs/{ref}/objects", query={"path": path})
        assert (answer.status, hashlib.sha256(answer.data).hexdigest()) == (200, expected["sha256"]), (
            ref,
            path,
        )
    assert len(reads) > 100
