"""Whole clean runs against the embedded server over HTTP, on a local folder, with every defect it can
show."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import lakefs
import pytest

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.planning import plan_run
from dredge.gc.run import Run
from dredge.gc.steps import run_steps
from dredge.lakefs import LakeFSClient
from dredge.runs.payload import StepSummary, from_json
from dredge.runs.run import release_lease
from dredge.runs.tasks import LocalRunner
from lakefs_embedded.server.endpoint import InjectedResponse
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.objectstore import moto_s3


def client_of(lake: Lake) -> LakeFSClient:
    return LakeFSClient(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)


@contextmanager
def planned(lake: Lake, **settings: object) -> Iterator[Run]:
    client = client_of(lake)
    usual = {
        "repository": "lake",
        "mode": "clean",
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
    }
    wanted = {**usual, **settings}
    plan = plan_run(from_json(GCConfig, wanted), None, client)
    context = Run.open(plan.run_uri, None, client)
    try:
        yield context
    finally:
        release_lease(context)


def collect(lake: Lake, **settings: object) -> StepSummary:
    with planned(lake, **settings) as context:
        return run_steps(context, LocalRunner())


def upload(repository: lakefs.Repository, path: str, data: bytes, branch: str = "main") -> str:
    made = repository.branch(branch).object(path).upload(data)
    return made.stat().physical_address.rpartition("/lake/")[2]


def keys(lake: Lake) -> set[str]:
    return {key for batch in lake.writer().list("data/") for key in batch["key"].to_pylist()}


def assert_readable(repository: lakefs.Repository, branch: str) -> None:
    for found in repository.branch(branch).objects():
        with repository.branch(branch).object(found.path).reader(mode="rb") as reader:
            reader.read()


@pytest.mark.parametrize(
    ("defects", "rules"),
    [
        ((), True),
        ((), False),
        (("empty_last_page", "prepare_commits_500_async"), True),
        (("double_body_prepare_commits", "prepare_commits_500_async"), True),
        (("active_walk_early_stop",), True),
        (("active_walk_early_stop", "empty_last_page"), False),
        pytest.param(("double_body_prepare_commits",), False, marks=pytest.mark.long),
        pytest.param(("prepare_commits_500_async",), False, marks=pytest.mark.long),
    ],
    ids=lambda value: (
        "+".join(value) or "none" if isinstance(value, tuple) else "rules" if value else "no-rules"
    ),
)
def test_a_run_over_http_deletes_the_garbage_and_nothing_else(
    tmp_path: Path, defects: tuple[str, ...], rules: bool
) -> None:
    with lakefs_server(tmp_path, defects=defects) as lake:
        repository = lake.repository()
        if rules:
            lake.sdk.repositories_api.set_gc_rules("lake", {"default_retention_days": 7, "branches": []})
        living = {upload(repository, f"path {number}/ü%20", b"%d" % number) for number in range(8)}
        repository.branch("main").commit("first")
        living.add(upload(repository, "path 0/ü%20", b"0"))  # the same bytes once more
        living.add(upload(repository, "staged", b"staged"))
        gone = {upload(repository, "over", b"over")}
        living.add(upload(repository, "over", b"over and out"))
        repository.branch("hidden").create("main", hidden=True)
        living.add(upload(repository, "hidden", b"hidden", "hidden"))
        repository.branch("dropped").create("main")
        gone.add(upload(repository, "dropped", b"dropped", "dropped"))
        repository.branch("dropped").delete()
        lake.writer().put("data/odd/a b#c", b"orphan")
        gone.add("data/odd/a b#c")
        collect(lake)
        assert keys(lake) == living
        assert gone.isdisjoint(keys(lake))
        for branch in ("main", "hidden"):
            assert_readable(repository, branch)


def test_a_server_words_full_addresses_as_it_parsed_them_and_every_key_that_they_may_mean_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is staged below the namespace as it is spelled gets a relative address, which is shown as it is."""
    with moto_s3() as bucket, lakefs_server(tmp_path, bucket=bucket) as lake:
        for name, value in bucket.options.to_env().items():
            monkeypatch.setenv(name, value)
        repository = lake.repository()
        shown = {
            "data/odd/pct%20x": "data/odd/pct x",
            "data/odd/q?x=1": "data/odd/q",
            "data/odd/dir/": "data/odd/dir/",
        }
        elsewhere = lake.namespace("lake").replace("s3://", "s3://user@")
        for key in shown:
            entry = {"physical_address": f"{elsewhere}/{key}", "checksum": "c", "size_bytes": 6}
            path = "/repositories/lake/branches/main/objects"
            assert lake.http("PUT", path, query={"path": key}, json_body=entry).status == 201
        lake.stage("lake", "main", "relative", "data/odd/rel%20x", size_bytes=6)
        shown["data/odd/rel%20x"] = "data/odd/rel%20x"
        repository.branch("main").commit("odd")
        answers = {
            item.physical_address.rpartition("/lake/")[2] for item in repository.branch("main").objects()
        }
        assert answers == {*shown.values()}
        kept = {*shown} | {*shown.values()} | {"data/odd/dir", "data/odd/rel x"}
        for key in (*kept, "data/slice/orphan"):
            lake.writer().put(key, b"alive!" if key in shown else b"garbage")
        time.sleep(1.1)  # the store tells whole seconds
        collect(lake)
        assert keys(lake) == kept


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        ("prepare_commits_404", "the active commits are unknown|404"),
        ("page_missing", "staged addresses are missing"),
    ],
)
def test_a_defect_that_hides_live_objects_stops_the_run(tmp_path: Path, defect: str, message: str) -> None:
    with lakefs_server(tmp_path, defects=(defect,)) as lake:
        repository = lake.repository()
        lake.sdk.repositories_api.set_gc_rules("lake", {"default_retention_days": 7, "branches": []})
        upload(repository, "a", b"1")
        repository.branch("main").commit("first")
        upload(repository, "b", b"2")
        lake.writer().put("data/orphan", b"orphan")
        before = keys(lake)
        with pytest.raises(RefusedError, match=message):
            collect(lake)
        assert keys(lake) == before


@pytest.mark.usefixtures("no_pauses")
def test_an_ingress_that_answers_404_for_every_object_clears_nothing(tmp_path: Path) -> None:
    """While lakeFS is redeployed; read as "not served", the object that the branch reads would be deleted."""
    with lakefs_server(tmp_path) as lake:
        repository = lake.repository()
        living = {upload(repository, f"a{number:02d}", b"%d" % number) for number in range(30)}
        repository.branch("main").commit("first")
        living.add(upload(repository, "a20", b"20"))  # in no answer about uncommitted objects
        gone = InjectedResponse(404, body=b"default backend - 404", headers={"Content-Type": "text/plain"})
        with lake.inject("stat_object", lambda _: gone), suppress(UnavailableError):
            collect(lake)
        assert keys(lake) == living
        assert_readable(repository, "main")


def test_tasks_in_other_processes_give_the_same_result(tmp_path: Path) -> None:
    with lakefs_server(tmp_path) as lake:
        repository = lake.repository()
        living = {upload(repository, f"path/{number}", b"%d" % number) for number in range(10)}
        repository.branch("main").commit("first")
        for number in range(10):
            lake.writer().put(f"data/slice{number % 3}/orphan{number}", b"orphan %d" % number)
        tuning = {"candidate_rows": 3, "part_rows": 3}
        with planned(lake, tuning=tuning) as context, LocalRunner(processes=2) as runner:
            report = run_steps(context, runner)
        assert report.counts["deleted_objects"] == 10
        assert keys(lake) == living


def test_a_run_on_s3_deletes_the_garbage_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moto_s3() as bucket, lakefs_server(tmp_path, bucket=bucket) as lake:
        for name, value in bucket.options.to_env().items():
            monkeypatch.setenv(name, value)
        repository = lake.repository()
        lake.sdk.repositories_api.set_gc_rules("lake", {"default_retention_days": 7, "branches": []})
        living = {upload(repository, f"path {number}/ü%20", b"%d" % number) for number in range(5)}
        repository.branch("main").commit("first")
        living.add(upload(repository, "path 0/ü%20", b"0"))  # the same bytes once more
        living.add(upload(repository, "staged", b"staged"))
        orphans = {"data/odd/a b#c", "data/odd//x", "data/odd/tail/", "data/odd/ctrl\x01x", "data/odd/%2F"}
        for key in orphans:
            lake.writer().put(key, b"orphan")
        lake.writer().put("data/twin", b"1")  # as some committed object, but served by nobody
        time.sleep(1.1)  # the store tells whole seconds
        report = collect(lake)
        assert keys(lake) == living
        assert report.counts["deleted_objects"] == len(orphans) + 1
        assert_readable(repository, "main")
