"""Fault injection: every kind of failed response, and concurrent work in the middle of a call."""

from collections.abc import Callable
from pathlib import Path

import lakefs
import pytest
import urllib3

from dredge.errors import UnavailableError
from lakefs_embedded.kv import open_store
from lakefs_embedded.server import DropConnection, IncomingRequest, InjectedResponse
from tests.support.faulty import Operation, WatchedStore
from tests.support.lakefs_server import Lake, lakefs_server


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


def test_a_rule_may_work_on_the_lake_before_the_call_goes_on(lake: Lake) -> None:
    """A commit between a client's decision to list and the listing."""
    main = lake.repository("shop").branch("main")
    main.object("a").upload(b"x")

    def commit(seen: IncomingRequest) -> None:
        lake.server.catalog.commits.commit("shop", "main", committer="other", message="meanwhile")

    with lake.inject("diff_branch", commit):
        assert list(main.uncommitted()) == []


def test_a_store_that_throttles_is_503(tmp_path: Path) -> None:
    def throttle(operation: Operation) -> None:
        if operation.partition == b"graveler":
            raise UnavailableError("Throughput exceeded. Slow down and retry")

    with lakefs_server(tmp_path, kv=WatchedStore(open_store("memory://"), throttle)) as lake:
        answer = lake.http("GET", "/repositories/shop")
        assert answer.status == 503
        assert answer.json() == {"message": "Throughput exceeded. Slow down and retry"}


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
