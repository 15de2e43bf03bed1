"""Requests of hooks: answers, failures, redirections, and no secret in any text."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log
from dredge.graveler.actions.outgoing import BODY_BYTES_MAX, exchange, send
from tests.support.http import Script, scripted_server


@pytest.fixture(scope="module")
def shared() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.fixture
def server(shared: Script) -> Script:
    shared.asked.clear()
    shared.headers = {}
    return shared


def test_an_answer_is_logged_whole(server: Script) -> None:
    server.answer = lambda _: (201, b"made")
    server.headers = {"x-a": "1"}
    log = Log()
    answer = send("POST", f"{server.endpoint}/p", {"X-B": "2"}, b"{}", 5, log)
    assert (answer.status, answer.body, server.asked[0].headers["x-b"]) == (201, b"made", "2")
    duration, _, response = log.text().partition("\n\nResponse:\n")
    assert duration.startswith("\nRequest duration: ")
    assert response.startswith("HTTP/1.1 201 Created\r\n")
    assert "X-A: 1\r\n" in response
    assert response.endswith("\r\n\r\nmade")


def test_no_answer_is_an_error_without_the_query(server: Script) -> None:
    server.answer = lambda _: None
    with pytest.raises(HookError) as dropped:
        exchange("POST", f"{server.endpoint}/p?token=s3cret", {}, b"{}", 5)
    with pytest.raises(HookError) as refused:
        exchange("POST", "http://127.0.0.1:1/p?token=s3cret", {}, None, 5)
    for each in (dropped, refused):
        assert str(each.value).startswith('Post "http://127.0.0.1:')
        assert "s3cret" not in str(each.value)
        assert each.value.__cause__ is None
    assert "connection refused" in str(refused.value)
    with pytest.raises(HookError, match="unsupported protocol scheme"):
        exchange("GET", "file:///etc/passwd", {}, None, 5)


def test_a_late_answer_is_no_answer(server: Script) -> None:

    waiting = threading.Event()

    def late(_: object) -> tuple[int, bytes]:
        waiting.wait(5)
        return 200, b""

    server.answer = late
    try:
        with pytest.raises(HookError, match="deadline exceeded"):
            exchange("GET", server.endpoint, {}, None, 0.05)
    finally:
        waiting.set()


def test_a_redirection_is_followed_and_secrets_do_not_follow_to_another_host(server: Script) -> None:
    with scripted_server() as other:
        other.answer = lambda _: (200, b"there")
        server.answer = lambda _: (307, b"")
        server.headers = {"Location": other.endpoint.replace("127.0.0.1", "localhost") + "/q"}
        answer = exchange("POST", f"{server.endpoint}/p", {"X-Token": "s3cret"}, b"{}", 5)
        assert (answer.status, answer.body) == (200, b"there")
        assert server.asked[0].headers["x-token"] == "s3cret"
        assert "x-token" not in other.asked[0].headers


def test_of_a_huge_answer_only_the_beginning_is_kept(server: Script) -> None:
    server.answer = lambda _: (200, b"x" * (BODY_BYTES_MAX + 100_000))
    assert len(exchange("GET", server.endpoint, {}, None, 5).body) == BODY_BYTES_MAX
