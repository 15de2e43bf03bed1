"""The catalog on what a real server wrote answers as that server did."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.lakefs.files.records import Branch
from lakefs_embedded.catalog import Commit, ObjectStats, Page, Rules, Settings
from lakefs_embedded.committed import commit_id
from lakefs_embedded.errors import CommitNotFoundError, GravelerError, RepositoryNotFoundError
from lakefs_embedded.refs.records import Tag
from lakefs_embedded.staging.area import Staged
from tests.support.captured import FOLDER, NAMESPACE, REPOSITORY, api, captured_lake, kv_rows, truth
from tests.support.lakes import Lake


@pytest.fixture(scope="module")
def lake() -> Lake:
    return captured_lake()


def as_object(stats: ObjectStats) -> dict[str, Any]:
    assert stats.mtime is not None
    shown = {
        "checksum": stats.checksum,
        "content_type": stats.content_type,
        "mtime": int(stats.mtime.timestamp()),
        "path": stats.path,
        "path_type": stats.path_type,
        "physical_address": stats.physical_address,
        "size_bytes": stats.size_bytes,
    }
    return shown | ({"metadata": dict(stats.metadata)} if stats.metadata else {})


def as_commit(commit: Commit) -> dict[str, Any]:
    return {
        "committer": commit.committer,
        "creation_date": int(commit.creation_date.timestamp()),
        "generation": commit.generation,
        "id": commit.id,
        "message": commit.message,
        "meta_range_id": commit.metarange_id,
        "metadata": dict(commit.metadata),
        "parents": list(commit.parents),
        "version": commit.version,
    }


def as_pagination(page: Page[Any]) -> dict[str, Any]:
    return {
        "has_more": page.has_more,
        "max_per_page": 1000,
        "next_offset": page.next_offset,
        "results": len(page.results),
    }


@pytest.mark.parametrize(
    ("answer", "ref"),
    [("objects_main", "main"), ("objects_work", "work"), ("objects_main_committed", "main@")],
)
def test_listings_equal_the_servers(lake: Lake, answer: str, ref: str) -> None:
    captured = api(answer)
    page = lake.catalog.reading.list_entries(REPOSITORY, ref, amount=1000)
    assert [as_object(stats) for stats in page.results] == captured["results"]
    assert as_pagination(page) == captured["pagination"]


@pytest.mark.parametrize(("answer", "ref"), [("log_main", "main"), ("log_target", "target")])
def test_logs_equal_the_servers(lake: Lake, answer: str, ref: str) -> None:
    captured = api(answer)
    page = lake.catalog.commits.log(REPOSITORY, ref, amount=1000)
    assert [as_commit(commit) for commit in page.results] == captured["results"]
    assert as_pagination(page) == captured["pagination"]


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        ("branches_default", {"amount": 1000}),
        ("branches_show_hidden", {"amount": 1000, "show_hidden": True}),
        ("branches_page_1", {"amount": 10}),
        ("branches_page_2", {"amount": 10, "after": "z00-idle"}),
    ],
)
def test_branch_listings_equal_the_servers(lake: Lake, answer: str, query: dict[str, Any]) -> None:
    captured = api(answer)
    page = lake.catalog.branches.list_branches(REPOSITORY, **query)
    found = [{"commit_id": branch.commit_id, "id": branch.name} for branch in page.results]
    assert found == captured["results"]
    assert as_pagination(page) == captured["pagination"]


def test_every_commit_equals_the_servers_and_its_id_is_its_hash(lake: Lake) -> None:
    for captured in api("commits")["commits"]:
        commit = lake.catalog.commits.get_commit(REPOSITORY, captured["id"])
        assert as_commit(commit) == captured
        assert commit.id == commit_id(
            commit.committer,
            commit.message,
            commit.metarange_id,
            commit.creation_date,
            commit.metadata,
            commit.parents,
        )


def test_trap_6_the_branch_reads_the_newer_address_of_identical_content(lake: Lake) -> None:
    captured = api("stat_twin")
    stats = lake.catalog.reading.stat(REPOSITORY, "main", captured["path"])
    assert as_object(stats) | {"metadata": {}} == captured
    committed = lake.catalog.reading.stat(REPOSITORY, "main@", captured["path"])
    assert committed.physical_address != stats.physical_address


def test_every_path_of_every_branch_and_active_commit_reads_back(lake: Lake) -> None:
    for read in truth()["reads"]:
        for expected in read["objects"]:
            content = lake.catalog.reading.get_object(REPOSITORY, read["ref"], expected["path"])
            assert content.stats.physical_address == f"{NAMESPACE}/{expected['key']}"
            assert hashlib.sha256(content.read(0, None)).hexdigest() == expected["sha256"]
        paths = [stats.path for stats in lake.listing(read["ref"])]
        assert paths == sorted(expected["path"] for expected in read["objects"])


def test_errors_have_the_servers_words(lake: Lake) -> None:
    calls = {
        "error_unknown_branch": lambda: lake.catalog.branches.get_branch(REPOSITORY, "no-such-branch"),
        "error_unknown_commit": lambda: lake.catalog.commits.get_commit(REPOSITORY, "0" * 64),
        "error_unknown_repository": lambda: lake.catalog.repositories.get_repository("no-such-repository"),
        "error_prepare_uncommitted_bad_token": lambda: lake.catalog.garbage.prepare_uncommitted(
            REPOSITORY, "%%%"
        ),
        "error_status_unknown_task": lambda: lake.catalog.garbage.prepare_commits_status(
            REPOSITORY, "GCPCaaaa"
        ),
    }
    for name, call in calls.items():
        with pytest.raises(GravelerError) as caught:
            call()
        assert str(caught.value) == api(name)["message"], name
    with pytest.raises(RepositoryNotFoundError):
        lake.catalog.repositories.get_repository("no-such-repository")
    with pytest.raises(CommitNotFoundError):
        lake.catalog.commits.get_commit(REPOSITORY, "0" * 64)


def test_rules_equal_the_servers(lake: Lake) -> None:
    assert lake.catalog.garbage.get_gc_rules(REPOSITORY) == Rules(30)
    captured = api("gc_rules_with_branches")
    rules = Rules.decode((FOLDER / "rules" / "default21_main28_dev7.bin").read_bytes())
    assert rules.default_days == captured["default_retention_days"]
    assert rules.branch_days == {rule["branch_id"]: rule["retention_days"] for rule in captured["branches"]}


def csv_rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode())))


def test_active_commits_equal_the_servers_csv() -> None:
    lake = captured_lake()
    prepared = lake.catalog.garbage.prepare_commits(REPOSITORY)
    key = prepared.commits_location.removeprefix(NAMESPACE + "/")
    ours = csv_rows(lake.objects.get(key))
    captured = FOLDER.glob("namespace/_lakefs/retention/gc/commits/*/commits.csv")
    servers = [csv_rows(path.read_bytes()) for path in captured]
    assert ours[0] == servers[0][0]
    assert sorted(ours) == sorted(servers[0]) == sorted(servers[1])
    assert {row[0] for row in ours[1:]} == {commit["id"] for commit in truth()["commits"] if commit["active"]}


def prepared_rows(lake: Lake) -> Iterator[dict[str, Any]]:
    token = None
    while True:
        page = lake.catalog.garbage.prepare_uncommitted(REPOSITORY, token)
        token = page.continuation_token
        if token is None:
            break
    reader = lake.objects
    folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
    for batch in reader.list(folder):
        for key in batch.column("key").to_pylist():
            yield from pq.read_table(pa.BufferReader(reader.get(key))).to_pylist()


@pytest.mark.parametrize("settings", [Settings(background=False), None])
def test_prepared_uncommitted_addresses_equal_the_servers(settings: Settings | None) -> None:
    settings = settings or Settings(background=False, prepare_file_bytes_max=4, prepare_flush_rows=1)
    captured = [
        row
        for path in sorted((FOLDER / "namespace").glob("_lakefs/retention/gc/uncommitted/*/uncommitted/*"))
        for row in pq.read_table(path).to_pylist()
    ]
    ours = list(prepared_rows(captured_lake(settings)))
    assert sorted(ours, key=str) == sorted(captured, key=str)


def test_records_are_written_as_the_server_wrote_them() -> None:
    """Else a compare-and-set on a record of a real server would never find what it expects."""
    seen = set()
    for partition, key, value in kv_rows():
        kind = "staged" if b":" in partition else key.partition(b"/")[0].decode()
        if kind == "staged":
            written = Staged.decode(key, value).encode()
        elif kind == "branches":
            written = Branch.decode(value).encode()
        elif kind == "tags":
            written = Tag.decode(value).encode()
        else:
            continue
        assert written == value, key
        seen.add(kind)
    assert seen == {"staged", "branches", "tags"}
