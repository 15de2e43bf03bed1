"""The lakeFS client: pages, unusual responses, and errors by what the caller should do."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from dredge.errors import (
    ConfigError,
    ConflictError,
    DredgeError,
    FormatError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from dredge.lakefs import Environment, LakeFSClient, Ref, Rules
from dredge.lakefs.client import OLDEST_SERVER, normalized_url
from dredge.lakefs.transport import QUESTIONS, TRIES
from tests.support.captured import FOLDER, captured_answer
from tests.support.http import Asked, Script

UNKNOWN_CALL = (404, {"message": "invalid API endpoint"})
OLD_SERVER = (500, {"message": "invalid API endpoint"})


def page(*results: Any, after: str = "") -> dict[str, Any]:
    return {
        "results": list(results),
        "pagination": {
            "has_more": bool(after),
            "next_offset": after,
            "results": len(results),
            "max_per_page": 1000,
        },
    }


def test_every_request_carries_the_key_pair_and_goes_below_the_api(
    server: Script, client: LakeFSClient
) -> None:
    server.answer = lambda _: (200, page())
    client.repositories()
    asked = server.asked[0]
    assert asked.path == "/api/v1/repositories"
    assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"key:secret"


def named_proxy(monkeypatch: pytest.MonkeyPatch, endpoint: str, passed_by: str) -> None:
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("http_proxy", endpoint.replace("://", "://user:p%40ss@"))
    monkeypatch.setenv("no_proxy", passed_by)


def test_requests_go_through_the_proxy_of_the_environment(
    server: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_proxy(monkeypatch, server.endpoint, "other.invalid,10.0.0.0/8")
    server.answer = lambda _: (200, page())
    LakeFSClient("http://lakefs.invalid:8000", "key", "secret").repositories()
    (asked,) = server.asked
    assert (asked.headers["host"], asked.path) == ("lakefs.invalid:8000", "/api/v1/repositories")
    assert base64.b64decode(asked.headers["proxy-authorization"].removeprefix("Basic ")) == b"user:p@ss"


@pytest.mark.parametrize("host", ["lakefs.invalid", "127.0.0.1", "localhost"])
def test_no_proxy_and_this_machine_are_asked_directly(
    server: Script, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    named_proxy(monkeypatch, server.endpoint, ".invalid")
    with pytest.raises(UnavailableError) as raised:
        LakeFSClient(f"http://{host}:9", "key", "secret").repositories()
    assert server.asked == []
    assert "p@ss" not in str(raised.value)


def test_the_secret_shows_nowhere(client: LakeFSClient) -> None:
    assert "secret" not in repr(client)
    assert LakeFSClient.from_env(client.to_env()).to_env() == client.to_env()


def test_trap_22_branches_of_all_pages_are_listed_with_the_hidden_ones(
    server: Script, client: LakeFSClient
) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        assert asked.query["show_hidden"] == "true"
        if not asked.query["after"]:
            return 200, page({"id": "a", "commit_id": "1"}, after="a")
        assert asked.query["after"] == "a"
        return 200, page({"id": "b", "commit_id": "2"})

    server.answer = answer
    assert client.branches("lake") == [Ref("a", "1"), Ref("b", "2")]


def test_a_page_chain_that_does_not_move_on_is_refused(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (
        200,
        {**page({"id": "a", "commit_id": "1"}), "pagination": {"has_more": True, "next_offset": ""}},
    )
    with pytest.raises(FormatError, match="gives no offset"):
        client.branches("lake")


@pytest.mark.parametrize("says", [None, 0, "", {}])
@pytest.mark.parametrize("call", [lambda c: c.branches("repo"), lambda c: c.objects_page("repo", "main")])
def test_a_page_ends_a_list_only_by_saying_so(
    server: Script, client: LakeFSClient, says: object, call: Callable[[LakeFSClient], object]
) -> None:
    server.answer = lambda _: (200, {**page(), "pagination": {"has_more": says}})
    with pytest.raises(FormatError, match="does not say whether more results follow"):
        call(client)


def test_real_answers_are_understood(server: Script, client: LakeFSClient) -> None:
    answers = {
        "/api/v1/repositories": captured_answer("repositories"),
        "/api/v1/repositories/basic-fixture": captured_answer("repository"),
        "/api/v1/repositories/basic-fixture/branches": captured_answer("branches_show_hidden"),
        "/api/v1/repositories/basic-fixture/tags": captured_answer("tags"),
        "/api/v1/repositories/basic-fixture/refs/main/commits": captured_answer("log_main"),
        "/api/v1/repositories/basic-fixture/refs/main/objects/stat": captured_answer("stat_twin"),
        "/api/v1/repositories/basic-fixture/refs/work/objects/ls": captured_answer("objects_work"),
        "/api/v1/repositories/basic-fixture/settings/gc_rules": captured_answer("gc_rules_with_branches"),
        "/api/v1/config": captured_answer("config"),
    }
    server.answer = lambda asked: answers[asked.path]
    assert client.repository("basic-fixture").namespace == "s3://lake/basic/basic-fixture"
    assert client.repository("basic-fixture") in client.repositories()
    assert len(client.branches("basic-fixture")) == 47
    assert [tag.id for tag in client.tags("basic-fixture")] == ["v-old"]
    log = list(client.log("basic-fixture", "main"))
    assert [len(commit.parents) for commit in log] == [1, 1, 1, 0]
    assert log[-1].metarange_id == ""
    assert client.stat("basic-fixture", "main", "base/twin.txt").size_bytes == 11
    assert len(client.objects("basic-fixture", "work")) == 13
    assert client.rules("basic-fixture") == Rules(21, {"main": 28, "dev": 7})
    assert client.version() == "dev"


def test_names_and_paths_are_sent_exactly(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: captured_answer("stat_twin")
    odd = "a b/ü%20?#&=+"
    client.stat("lake", "main", odd)
    assert server.asked[0].query["path"] == odd


@pytest.mark.parametrize(
    ("name", "expected"), [("gc_rules_without_branches", Rules(30, {})), ("error_rules_none", None)]
)
def test_rules_without_branches_come_as_null_and_none_come_as_404(
    server: Script, client: LakeFSClient, name: str, expected: Rules | None
) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        return captured_answer(name) if asked.path.endswith("gc_rules") else captured_answer("repository")

    server.answer = answer
    assert client.rules("basic-fixture") == expected


def test_rules_of_a_missing_repository_are_not_no_rules(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (404, {"message": "repository not found"})
    with pytest.raises(NotFoundError, match="repository not found"):
        client.rules("lake")


@pytest.mark.parametrize("answer", [UNKNOWN_CALL, OLD_SERVER])
def test_a_server_without_the_call_for_rules_is_not_one_without_rules(
    server: Script, client: LakeFSClient, answer: tuple[int, Any]
) -> None:
    server.answer = lambda _: answer
    with pytest.raises(ConfigError):
        client.rules("lake")
    with pytest.raises(ConfigError, match=OLDEST_SERVER):
        client.version()
    assert len(server.asked) == 2


def test_trap_42_a_denied_commit_is_asked_for_by_a_shorter_prefix(
    server: Script, client: LakeFSClient
) -> None:
    full = "a" * 64
    body = {"id": full, "parents": [], "creation_date": 1, "meta_range_id": "m", "version": 1}

    def answer(asked: Asked) -> tuple[int, Any]:
        return (200, body) if asked.path.endswith("/" + "a" * 63) else (404, {"message": "commit not found"})

    server.answer = answer
    assert client.commit("lake", full).metarange_id == "m"


@pytest.mark.parametrize("given", ["a" * 64, "a" * 63])
@pytest.mark.parametrize(
    ("answered", "is_it"),
    [
        ("a" * 64, True),
        (None, True),
        *((other, False) for other in ("b" * 64, "a" * 63 + "b", "a" * 65, "a" * 62, "A" * 64)),
    ],
)
def test_a_commit_is_the_one_that_was_asked_for(
    server: Script, client: LakeFSClient, given: str, answered: str | None, is_it: bool
) -> None:
    body = {"id": answered or given, "parents": [], "creation_date": 1, "meta_range_id": "m", "version": 1}

    def answer(asked: Asked) -> tuple[int, Any]:
        return (200, body) if asked.path.endswith(f"/{given}") else (404, {"message": "commit not found"})

    server.answer = answer
    if is_it:
        assert client.commit("lake", "a" * 64).id == "a" * 64
        return
    with pytest.raises(
        FormatError, match=rf"commit a+ of lake: lakeFS returned another commit, {answered}\. Nothing"
    ):
        client.commit("lake", "a" * 64)


def test_trap_42_a_commit_that_is_really_missing_is_not_found(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (404, {"message": "commit not found"})
    with pytest.raises(NotFoundError):
        client.commit("lake", "a" * 64)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (400, ConfigError),
        (401, ConfigError),
        (403, RefusedError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, RefusedError),
        (412, ConflictError),
        (420, ConfigError),
        (429, UnavailableError),
        (500, UnavailableError),
        (501, RefusedError),
        (503, UnavailableError),
    ],
)
def test_errors_come_by_what_to_do_about_them(
    server: Script, client: LakeFSClient, status: int, family: type[DredgeError]
) -> None:
    server.answer = lambda _: (status, {"message": "the words: not found"})
    refusals = QUESTIONS.refusals
    with pytest.raises(family, match="the words"):
        client.repository("lake")
    assert (QUESTIONS.refusals > refusals) == (status in (429, 503))


def test_an_answer_that_is_no_json_is_not_lakefs(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (200, b"<html>welcome</html>")
    with pytest.raises(UnavailableError, match="lakeFS server"):
        client.repository("lake")


def test_pages_of_uncommitted_addresses_carry_location_and_token(
    server: Script, client: LakeFSClient
) -> None:
    server.answer = lambda _: captured_answer("prepare_uncommitted_01")
    found = client.prepare_uncommitted("basic-fixture", None)
    assert found.location.endswith("/uncommitted/")
    assert found.token
    assert server.asked[0].body == {}
    server.answer = lambda _: (201, {"run_id": "r", "gc_uncommitted_location": ""})
    found = client.prepare_uncommitted("basic-fixture", "token")
    assert (found.location, found.token) == ("", None)
    assert server.asked[1].body == {"continuation_token": "token"}


def test_a_page_of_uncommitted_addresses_without_a_run_is_refused(
    server: Script, client: LakeFSClient
) -> None:
    server.answer = lambda _: (201, {"run_id": ""})
    with pytest.raises(FormatError, match="has no run id"):
        client.prepare_uncommitted("lake", None)


CALLS: dict[str, Callable[[LakeFSClient], Any]] = {
    "repositories": lambda client: client.repositories(),
    "repository": lambda client: client.repository("lake"),
    "branches": lambda client: client.branches("lake"),
    "tags": lambda client: client.tags("lake"),
    "log": lambda client: list(client.log("lake", "main")),
    "commit": lambda client: client.commit("lake", "a" * 64),
    "rules": lambda client: client.rules("lake"),
    "prepare_uncommitted": lambda client: client.prepare_uncommitted("lake", None),
    "stat": lambda client: client.stat("lake", "main", "path"),
    "objects": lambda client: client.objects("lake", "main"),
    "changes": lambda client: client.changes("lake", "main"),
    "version": lambda client: client.version(),
}

# What stands in front of lakeFS says while lakeFS is away, or for ever when it is not there.
FOREIGN: dict[str, tuple[int, Any]] = {
    "ingress without a backend": (404, b"default backend - 404"),
    "empty 404": (404, b""),
    "gateway in JSON": (404, {"error": "Not Found", "status": 404}),
    "gateway with a message": (404, {"message": "no Route matched with those values"}),
    "cloud gateway": (404, {"message": "Not Found"}),
    "message that is no text": (404, {"message": None}),
    "a list": (404, ["not found"]),
    "firewall": (403, b"<html>blocked</html>"),
    "login page": (200, b"<html>welcome</html>"),
    "made by somebody": (201, b"created"),
    "login wanted": (401, b"<html>log in</html>"),
    "bad request in HTML": (400, b"<h1>400 Bad Request</h1>"),
    "conflict of somebody": (409, b""),
    "gone": (410, b"gone"),
    "bad gateway": (502, b"<html>bad gateway</html>"),
    "cut off": (200, b'{"results": ['),
    "JSON of another shape": (200, {"status": "ok"}),
    "nothing": (204, b""),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_lakefs_own_answer_is_no_answer(server: Script, client: LakeFSClient, call: str) -> None:
    for foreign, answer in FOREIGN.items():
        if (call, foreign) == ("version", "JSON of another shape"):
            continue  # a configuration without a version is one
        server.asked.clear()
        server.answer = lambda _, given=answer: given  # type: ignore[misc]
        with pytest.raises(UnavailableError, match="not from lakeFS"):
            CALLS[call](client)
        assert len(server.asked) == TRIES, foreign


def test_what_a_cache_kept_is_no_answer(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (200, page({"id": "main", "commit_id": "1"}))
    server.headers["Age"] = "30"
    with pytest.raises(UnavailableError, match="from a cache, 30 s old"):
        client.branches("lake")
    assert len(server.asked) == TRIES
    assert server.asked[0].headers["cache-control"] == "no-cache"
    server.headers["Age"] = "0"
    assert client.branches("lake") == [Ref("main", "1")]


def test_a_server_that_is_back_after_a_foreign_answer_is_heard(server: Script, client: LakeFSClient) -> None:
    answers = [*list(FOREIGN.values())[: TRIES - 1], captured_answer("repository")]
    server.answer = lambda _: answers[len(server.asked) - 1]
    assert client.repository("basic-fixture").name == "basic-fixture"


def test_real_errors_are_lakefs_own(server: Script, client: LakeFSClient) -> None:
    for path in sorted((FOLDER / "api").glob("error_*.json")):
        server.asked.clear()
        server.answer = lambda _, name=path.stem: captured_answer(name)  # type: ignore[misc]
        with pytest.raises(DredgeError) as caught:
            client.repository("basic-fixture")
        assert not isinstance(caught.value, UnavailableError), path.stem
        assert len(server.asked) == 1


@pytest.mark.parametrize("message", ["repository not found", "commit not found", "invalid API endpoint"])
@pytest.mark.parametrize("call", ["stat", "objects", "changes"])
def test_a_404_about_something_else_does_not_say_that_the_path_is_not_there(
    server: Script, client: LakeFSClient, call: str, message: str
) -> None:
    server.answer = lambda _: (404, {"message": message})
    with pytest.raises((RefusedError, ConfigError), match=message):
        CALLS[call](client)


def test_a_commit_of_a_missing_repository_is_no_missing_commit(server: Script, client: LakeFSClient) -> None:
    server.answer = lambda _: (404, {"message": "repository not found"})
    with pytest.raises(RefusedError, match="repository not found"):
        client.commit("lake", "a" * 64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("stat", "not found"),
        ("stat", "branch not found"),
        ("objects", "not found"),
        ("changes", "branch not found"),
    ],
)
def test_what_lakefs_says_is_not_there_is_not_there(
    server: Script, client: LakeFSClient, call: str, message: str
) -> None:
    server.answer = lambda _: (404, {"message": message})
    with pytest.raises(NotFoundError, match=message):
        CALLS[call](client)
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [{"message": "Not Implemented"}, b"<html>not implemented</html>", b""])
def test_what_a_server_never_does_is_not_to_be_tried_again(
    server: Script, client: LakeFSClient, body: Any
) -> None:
    server.answer = lambda _: (501, body)
    for call in [*CALLS.values(), lambda client: client.prepare_commits("lake", 60)]:
        server.asked.clear()
        with pytest.raises(RefusedError, match="not retried") as caught:
            call(client)
        assert "again later" not in str(caught.value)
        assert len(server.asked) == 1


@pytest.mark.parametrize("name", ["error_prepare_commits_read_only"])
def test_trap_32_a_read_only_repository_is_refused(server: Script, client: LakeFSClient, name: str) -> None:
    server.answer = lambda _: captured_answer(name)
    with pytest.raises(RefusedError):
        client.prepare_commits("lake", 60)
    with pytest.raises(RefusedError):
        client.prepare_uncommitted("lake", None)


NO_RIGHT = [
    (401, {"message": "insufficient permissions: not allowed to fs:UpdateRepository"}),
    (403, {"message": "forbidden"}),
    UNKNOWN_CALL,
    OLD_SERVER,
    (501, {"message": "Not Implemented"}),
]


def test_metadata_is_set_by_merging_keys_and_read_back(server: Script, client: LakeFSClient) -> None:
    kept: dict[str, str] = {"other": "1"}

    def answer(asked: Asked) -> tuple[int, Any]:
        if asked.method == "GET":
            return 200, kept
        kept.update(asked.body["metadata"])
        return 204, b""

    server.answer = answer
    assert client.set_metadata("lake", {"a": "1"})
    assert client.metadata("lake") == {"other": "1", "a": "1"}
    assert {asked.method for asked in server.asked} == {"POST", "GET"}


def test_setting_metadata_that_lost_a_race_is_tried_again(server: Script, client: LakeFSClient) -> None:
    answers = [(500, {"message": "predicate failed"}), (500, {"message": "predicate failed"}), (204, b"")]
    server.answer = lambda _: answers[min(len(server.asked), 3) - 1]
    assert client.set_metadata("lake", {"a": "1"})
    assert len(server.asked) == 3


@pytest.mark.parametrize("response", NO_RIGHT, ids=lambda found: str(found[0]))
def test_a_missing_right_to_metadata_and_a_missing_call_are_no_failure(
    server: Script, client: LakeFSClient, response: tuple[int, Any]
) -> None:
    server.answer = lambda _: response
    assert not client.set_metadata("lake", {"a": "1"})
    assert client.metadata("lake") is None


@pytest.mark.parametrize(
    "response", [(500, {"message": "predicate failed"}), (503, {"message": "x"}), (200, b"<html>")]
)
def test_metadata_that_fails_for_another_reason_is_an_error(
    server: Script, client: LakeFSClient, response: tuple[int, Any]
) -> None:
    server.answer = lambda _: response
    with pytest.raises(UnavailableError):
        client.set_metadata("lake", {"a": "1"})
    assert len(server.asked) == TRIES
    with pytest.raises(UnavailableError):
        client.metadata("lake")


def test_the_environment_has_the_url_in_one_spelling_and_the_installation_if_the_server_returns_it(
    server: Script, client: LakeFSClient
) -> None:
    server.answer = lambda _: (200, {"installation_id": "i", "reports": []})
    assert client.environment() == Environment(server.endpoint, "i")
    server.answer = lambda _: UNKNOWN_CALL
    assert client.environment() == Environment(server.endpoint, None)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://LakeFS.example.com/api/v1/", "https://lakefs.example.com"),
        ("https://lakefs.example.com:443", "https://lakefs.example.com"),
        ("http://lakefs.example.com.:80/", "http://lakefs.example.com"),
        ("http://user:secret@lakefs:8000", "http://lakefs:8000"),
        ("http://[::1]:8000/api/v1", "http://[::1]:8000"),
        ("https://host/lakefs/api/v1", "https://host/lakefs"),
    ],
)
def test_a_url_has_one_spelling(endpoint: str, url: str) -> None:
    assert normalized_url(endpoint) == url
