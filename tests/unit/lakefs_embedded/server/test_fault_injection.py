"""Fault injection: every kind of failed response, and concurrent work in the middle of a call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lakefs
import pytest
import urllib3
from lakefs.exceptions import ServerException

from dredge.errors import UnavailableError
from dredge.kv import open_store
from lakefs_embedded.server import DropConnection, IncomingRequest, InjectedResponse
from tests.support.lakefs_server import Lake, WatchedStore, lakefs_server

GC = "/repositories/shop/gc"


def test_a_rule_sees_every_request_with_its_operation_and_names(lake: Lake) -> None:
    seen: list[IncomingRequest] = []
    with lake.server.faults.injecting(seen.append):  # type: ignore[arg-type]
        lake.repository("shop").branch("main").object("a b").upload(b"x")
    lake.http("GET", "/repositories")
    upload = next(each for each in seen if each.operation == "upload_object")
    assert (upload.method, upload.path) == ("POST", {"repository": "shop", "branch": "main"})
    assert upload.query == "path=a+b"
    assert [each.number for each in seen] == list(range(1, len(seen) + 1))


def test_a_rule_can_answer_in_the_servers_place(lake: Lake) -> None:
    faults = iter(
        [
            InjectedResponse(503, "slow down", {"Retry-After": "1"}),
            InjectedResponse(500, body=b"<html>"),
            None,
        ]
    )
    with lake.server.faults.injecting(lambda request: next(faults)):
        first, second, third = (lake.http("GET", "/repositories") for _ in range(3))
    assert (first.status, first.json(), first.headers["Retry-After"]) == (503, {"message": "slow down"}, "1")
    assert (second.status, second.data) == (500, b"<html>")
    assert third.status == 200


def test_a_request_with_an_injected_response_had_no_effect(lake: Lake) -> None:
    main = lake.repository("shop").branch("main")
    with (
        lake.inject("upload_object", lambda request: InjectedResponse(429)),
        pytest.raises(Exception, match="429"),
    ):
        main.object("a").upload(b"x")
    assert list(main.objects()) == []


def test_a_dropped_connection_has_not_a_byte(lake: Lake) -> None:
    with (
        lake.inject("list_repositories", lambda request: DropConnection()),
        pytest.raises(urllib3.exceptions.ProtocolError),
    ):
        lake.http("GET", "/repositories")
    assert lake.http("GET", "/repositories").status == 200


def test_an_answer_can_be_lost_after_the_work_was_done(lake: Lake) -> None:
    main = lake.repository("shop").branch("main")
    main.object("a").upload(b"x")
    head = main.head.id
    with (
        lake.inject("commit", lambda request: DropConnection(served=True)),
        pytest.raises(urllib3.exceptions.ProtocolError),
    ):
        lake.http("POST", "/repositories/shop/branches/main/commits", json_body={"message": "m"})
    assert main.get_commit().parents == [head]


def test_a_rule_ends_with_its_block(lake: Lake) -> None:
    with (
        lake.server.faults.injecting(lambda request: InjectedResponse(500)),
        lake.server.faults.injecting(lambda request: InjectedResponse(501)),
    ):
        assert lake.http("GET", "/repositories").status == 500
    assert not lake.server.faults
    assert lake.http("GET", "/repositories").status == 200


def test_a_slow_request_holds_up_nobody_else(lake: Lake) -> None:
    go_on = threading.Event()
    with (
        lake.inject("list_repositories", lambda request: go_on.wait(20) and None),
        ThreadPoolExecutor(1) as pool,
    ):
        slow = pool.submit(lake.http, "GET", "/repositories")
        assert lake.http("GET", "/healthcheck").status == 204
        assert not slow.done()
        go_on.set()
        assert slow.result().status == 200


def test_a_rule_may_work_on_the_lake_before_the_call_goes_on(lake: Lake) -> None:
    """A commit between a client's decision to list and the listing."""
    main = lake.repository("shop").branch("main")
    main.object("a").upload(b"x")

    def commit(seen: IncomingRequest) -> None:
        lake.server.catalog.commits.commit("shop", "main", committer="other", message="meanwhile")

    with lake.inject("diff_branch", commit):
        assert list(main.uncommitted()) == []


@pytest.mark.parametrize(("defects", "files"), [((), 1), (("rows_lost_on_branch_delete",), 0)])
def test_trap_4_a_branch_deleted_in_the_middle_of_a_scan(
    tmp_path: Path, defects: tuple[str, ...], files: int
) -> None:
    """The rows of other branches stay; with the defect switched on they are lost without a sign."""
    armed: list[Lake] = []

    def delete_meanwhile(operation: str, partition: bytes, key: bytes) -> None:
        if operation == "scan" and partition.startswith(b"shop-aa:") and armed:
            armed.pop().server.catalog.branches.delete_branch("shop", "mm")

    store = WatchedStore(open_store("memory://"), delete_meanwhile)
    with lakefs_server(tmp_path, kv=store, defects=defects) as lake:
        repository = lake.repository("shop")
        for name in ("aa", "mm", "zz"):
            repository.branch(name).create("main")
        repository.branch("aa").object("staged").upload(b"x")
        armed.append(lake)
        page = lake.http("POST", f"{GC}/prepare_uncommited", json_body={})
        assert (page.status, armed) == (201, [])
        written = sum(
            batch.num_rows for batch in lake.writer("shop").list("_lakefs/retention/gc/uncommitted/")
        )
        assert (written, bool(page.json()["gc_uncommitted_location"])) == (files, bool(files))


def test_a_store_that_throttles_is_503(tmp_path: Path) -> None:
    def throttle(operation: str, partition: bytes, key: bytes) -> None:
        if partition == b"graveler":
            raise UnavailableError("Throughput exceeded. Slow down and retry")

    with lakefs_server(tmp_path, kv=WatchedStore(open_store("memory://"), throttle)) as lake:
        answer = lake.http("GET", "/repositories/shop")
        assert answer.status == 503
        assert answer.json() == {"message": "Throughput exceeded. Slow down and retry"}


def test_hundreds_of_requests_at_once_are_all_served(lake: Lake) -> None:
    repository = lake.repository("shop")
    main = repository.branch("main")
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda n: main.object(f"o/{n:03}").upload(f"{n}".encode()), range(100)))
    assert len(list(main.objects(amount=1000))) == 100
    main.commit("all")
    with ThreadPoolExecutor(32) as pool:
        contents = list(pool.map(lambda n: main.object(f"o/{n:03}").reader().read(), range(100)))
    assert contents == [f"{n}".encode() for n in range(100)]


def test_commits_and_uploads_at_once_lose_nothing(lake: Lake) -> None:
    main = lake.repository("shop").branch("main")

    def upload(number: int) -> None:
        for attempt in range(20):
            try:
                main.object(f"o/{number:03}").upload(b"x")
            except ServerException as failure:
                if failure.status_code != 429:  # an honest answer while others commit
                    raise
                time.sleep(0.01 * attempt)
            else:
                return
        raise AssertionError("twenty tries")

    with ThreadPoolExecutor(9) as pool:
        uploads = [pool.submit(upload, number) for number in range(120)]
        while not all(each.done() for each in uploads):
            with suppress(ServerException):
                main.commit("some", allow_empty=True)
        for each in uploads:
            each.result()
    main.commit("rest", allow_empty=True)
    committed = lake.sdk.objects_api.list_objects("shop", "main@", amount=1000)
    assert len(committed.results) == 120


def test_two_servers_on_one_store_see_each_others_work(
    lakefs_servers: Callable[..., Lake], tmp_path: Path
) -> None:
    shared = {"kv_url": f"sqlite://{tmp_path}/kv.db", "local_base": str(tmp_path)}
    one, other = lakefs_servers(**shared), lakefs_servers(**shared)
    namespace = f"local://{tmp_path}/shop"
    main = lakefs.Repository("shop", one.client).create(namespace).branch("main")
    main.object("a").upload(b"x")
    elsewhere = lakefs.Repository("shop", other.client).branch("main")
    assert elsewhere.object("a").reader().read() == b"x"
    elsewhere.commit("from the other one")
    assert list(main.uncommitted()) == []
