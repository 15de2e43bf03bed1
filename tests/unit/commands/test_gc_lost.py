"""`dredge gc lost` and `dredge gc forget-lost` over HTTP, after the database of a server was restored."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server.endpoint import InjectedResponse
from tests.support.commands import COLLECT_NOW, call_gc, gc, server
from tests.support.lakefs_server import Lake
from tests.support.lost_database import copied, put_back


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    store: Store = open_store("memory://")
    with server(tmp_path, kv=store) as before:
        branch = before.repository().branch("main")
        branch.object("a").upload(b"old")
        branch.commit("old")
        backup = copied(store)
        branch.object("seen").upload(b"of a commit that a run saw")
        branch.commit("seen")
        time.sleep(1.1)  # the folder tells whole seconds
        call_gc("run", "lake", "--mode", "clean", *COLLECT_NOW, "--unsafe-min-age-seconds=0")
        branch.object("unseen").upload(b"of a commit that no run saw")
        branch.commit("unseen")
    put_back(store, backup)
    with server(tmp_path, kv=store) as after:
        yield after


def test_lost_commits_are_listed_and_read_again(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = gc(capsys, "lost", "lake", "--json")
    assert code == 0
    found = {item["kind"]: item for item in json.loads(shown)}
    assert set(found) == {"known", "unnamed"}
    assert found["known"]["branches"] == ["main"]
    code, shown, _ = gc(capsys, "lost", "lake")
    assert (code, len(shown.splitlines())) == (0, 3)
    code, shown, _ = gc(
        capsys, "lost", "lake", *(item["name"] for item in found.values()), "--apply", "--json"
    )
    assert code == 0
    made = {item["name"]: item for item in map(json.loads, shown.splitlines())}
    assert made[found["known"]["name"]]["commit_id"] == found["known"]["name"]
    for kind, path in (("known", "seen"), ("unnamed", "unseen")):
        branch = made[found[kind]["name"]]["branch"]
        assert lake.client.sdk_client.objects_api.get_object("lake", branch, path).startswith(b"of a commit")
    assert gc(capsys, "lost", "lake", "--json")[:2] == (0, "[]\n")
    # Once more by the same names: they are lost no more, and nothing is made.
    code, _, _ = gc(capsys, "lost", "lake", found["known"]["name"], "--apply")
    assert code == 2


def test_what_is_to_be_made_known_is_named(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--apply",), ("1d8e",), ("1d8e", "--apply")):
        assert gc(capsys, "lost", "lake", *words)[0] == 2
    assert [branch.id for branch in lake.sdk.branches_api.list_branches("lake").results] == ["main"]


def test_lost_commits_are_given_up_with_a_reason(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert gc(capsys, "forget-lost", "lake", "--reason", " ")[0] == 2
    assert gc(capsys, "forget-lost", "lake", "--reason", "Monday's state is wanted")[0] == 3, "another URL"
    assert gc(capsys, "own", "lake", "--reason", "the server has moved")[0] == 0
    code, shown, _ = gc(capsys, "forget-lost", "lake", "--reason", "Monday's state is wanted", "--json")
    assert (code, len(json.loads(shown)["lost"])) == (0, 2)
    assert gc(capsys, "lost", "lake", "--json")[:2] == (0, "[]\n")


def test_a_server_without_the_call_for_records_gets_commits_of_the_contents(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(gc(capsys, "lost", "lake", "--json")[1])
    names = [item["name"] for item in found]
    refusal = InjectedResponse(404, "invalid API endpoint")
    with lake.inject("create_commit_record", lambda _: refusal):
        code, shown, _ = gc(capsys, "lost", "lake", *names, "--apply", "--json")
    assert code == 0
    assert {item["how"] for item in map(json.loads, shown.splitlines())} == {"metarange"}
    assert gc(capsys, "lost", "lake", "--json")[:2] == (0, "[]\n")
