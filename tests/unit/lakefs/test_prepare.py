"""What active commits are prepared by: asynchronous tasks, old servers, and answers that are no result."""

import json
from typing import Any

import pytest

from dredge.errors import ConfigError, DredgeError, FormatError, RefusedError, UnavailableError
from dredge.lakefs import LakeFSClient, PreparedCommits
from tests.support.captured import captured_answer
from tests.support.http import Asked, Script

UNKNOWN_CALL = (404, {"message": "invalid API endpoint"})
OLD_SERVER = (500, {"message": "invalid API endpoint"})
NO_RULES = {"message": "get gc rules: not found"}
RESULT = {
    "run_id": "r",
    "gc_commits_location": "s3://b/lake/commits.csv",
    "gc_addresses_location": "s3://b/lake/a/",
}


def sequence(server: Script, *answers: tuple[str, tuple[int, Any] | None]) -> None:
    steps = iter(answers)

    def answer(asked: Asked) -> tuple[int, Any] | None:
        ending, given = next(steps)
        assert asked.path.endswith(ending), asked.path
        return given

    server.answer = answer


STARTED = (202, {"id": "GCPCtask"})
WAITING = (200, {"task_id": "GCPCtask", "completed": False, "update_time": "2026-01-01T00:00:00Z"})
DONE = (
    200,
    {"task_id": "GCPCtask", "completed": True, "update_time": "2026-01-01T00:00:00Z", "result": RESULT},
)

PREPARED = PreparedCommits("r", "s3://b/lake/commits.csv")


def test_active_commits_are_asked_for_asynchronously(server: Script, client: LakeFSClient) -> None:
    sequence(server, ("/async", STARTED), ("/status", WAITING), ("/status", DONE))
    assert client.prepare_commits("lake", 60) == PREPARED


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_without_the_asynchronous_call_is_asked_the_old_way(
    server: Script, client: LakeFSClient, status: int
) -> None:
    sequence(
        server, ("/async", (status, {"message": "invalid API endpoint"})), ("/prepare_commits", (201, RESULT))
    )
    assert client.prepare_commits("lake", 60) == PREPARED


def test_vendor_two_documents_in_a_400_are_a_result(server: Script, client: LakeFSClient) -> None:
    body = b'{"message":"operation not supported"}\n' + json.dumps(RESULT).encode() + b"\n"
    sequence(server, ("/async", OLD_SERVER), ("/prepare_commits", (400, body)))
    assert client.prepare_commits("lake", 60) == PREPARED


def test_a_400_without_a_result_is_an_error(server: Script, client: LakeFSClient) -> None:
    sequence(server, ("/async", OLD_SERVER), ("/prepare_commits", (400, {"message": "bad"})))
    with pytest.raises(ConfigError, match="bad"):
        client.prepare_commits("lake", 60)


def test_trap_02_no_rules_come_as_a_404_or_as_a_completed_tasks_error(
    server: Script, client: LakeFSClient
) -> None:
    sequence(server, ("/async", UNKNOWN_CALL), ("/prepare_commits", (404, NO_RULES)))
    assert client.prepare_commits("lake", 60) is None
    failed = captured_answer("prepare_commits_status_no_rules")
    sequence(server, ("/async", STARTED), ("/status", failed))
    assert client.prepare_commits("lake", 60) is None


@pytest.mark.parametrize("message", ["repository not found", "commit not found", "not found"])
def test_trap_02_another_404_is_never_read_as_nothing_committed(
    server: Script, client: LakeFSClient, message: str
) -> None:
    sequence(server, ("/async", UNKNOWN_CALL), ("/prepare_commits", (404, {"message": message})))
    with pytest.raises(RefusedError, match="active commits are unknown"):
        client.prepare_commits("lake", 60)


@pytest.mark.parametrize(
    ("status", "family"),
    [
        ((404, {"message": "not found"}), RefusedError),
        ((200, {"completed": True, "error": {"message": "commit not found"}}), RefusedError),
        ((200, {"completed": True}), FormatError),
        ((200, {"completed": True, "result": {"run_id": "r"}}), FormatError),
    ],
)
def test_trap_31_a_task_that_ends_without_a_result_is_no_result(
    server: Script, client: LakeFSClient, status: tuple[int, Any], family: type[DredgeError]
) -> None:
    sequence(server, ("/async", STARTED), ("/status", status))
    with pytest.raises(family, match="Nothing was deleted"):
        client.prepare_commits("lake", 60)


def test_trap_31_a_task_that_never_ends_has_a_deadline(server: Script, client: LakeFSClient) -> None:
    sequence(server, ("/async", STARTED), ("/status", WAITING))
    with pytest.raises(UnavailableError, match="not finished after 0 s"):
        client.prepare_commits("lake", 0)


@pytest.mark.parametrize("where", ["/async", "/prepare_commits"])
@pytest.mark.parametrize(
    ("foreign", "family"),
    [
        ((404, b"default backend - 404"), UnavailableError),
        ((404, {"message": ""}), UnavailableError),
        ((502, b"<html>bad gateway</html>"), RefusedError),
        ((500, b""), RefusedError),
        ((201, b"<html>welcome</html>"), RefusedError),
        ((202, {"status": "ok"}), RefusedError),
    ],
)
def test_somebody_elses_answer_to_prepare_commits_is_neither_a_result_nor_a_reason_to_ask_again(
    server: Script, client: LakeFSClient, where: str, foreign: tuple[int, Any], family: type[DredgeError]
) -> None:
    if where == "/async":
        sequence(server, ("/async", foreign))
    elif foreign[0] == 202:
        return
    else:
        sequence(server, ("/async", UNKNOWN_CALL), ("/prepare_commits", foreign))
    with pytest.raises(family, match="not from lakeFS"):
        client.prepare_commits("lake", 60)
    assert len(server.asked) == (1 if where == "/async" else 2)


def test_somebody_elses_answer_to_a_poll_is_asked_again(server: Script, client: LakeFSClient) -> None:
    sequence(server, ("/async", STARTED), ("/status", (404, b"default backend - 404")), ("/status", DONE))
    assert client.prepare_commits("lake", 60) == PREPARED
    server.answer = lambda asked: STARTED if asked.method == "POST" else (404, b"default backend - 404")
    server.asked.clear()
    with pytest.raises(RefusedError, match="not repeated"):
        client.prepare_commits("lake", 60)
    assert sum(asked.method == "POST" for asked in server.asked) == 1


@pytest.mark.parametrize("where", ["/async", "/prepare_commits"])
def test_trap_41_a_dropped_connection_is_never_followed_by_another_try(
    server: Script, client: LakeFSClient, where: str
) -> None:
    answers: list[tuple[str, tuple[int, Any] | None]] = [("/async", OLD_SERVER), ("/prepare_commits", None)]
    sequence(server, *(answers if where == "/prepare_commits" else [("/async", None)]))
    with pytest.raises(RefusedError, match="not repeated"):
        client.prepare_commits("lake", 60)
    assert [asked.path.endswith(where) for asked in server.asked].count(True) == 1


def test_trap_41_a_server_that_dies_while_it_computes_is_not_asked_again(
    server: Script, client: LakeFSClient
) -> None:
    def answer(asked: Asked) -> tuple[int, Any] | None:
        return STARTED if asked.path.endswith("/async") else None

    server.answer = answer
    with pytest.raises(RefusedError, match="not repeated"):
        client.prepare_commits("lake", 60)
    assert sum(asked.method == "POST" for asked in server.asked) == 1
