"""`dredge gc own` and `lift-block` over HTTP: output, exit codes, and what is kept with the state."""

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lakefs
import pytest

from dredge.gc.run import open_state
from dredge.gc.witness.owner import BLOCK, KEY, OWN, Block, Owner, claim, read_block, read_ids
from dredge.lakefs import Environment, LakeFSClient
from dredge.lakefs.client import ACCESS_KEY, SECRET_KEY
from dredge.runs.consents import read_consents
from dredge.runs.payload import to_json
from dredge.storage import ObjectWriter
from lakefs_embedded.auth.model import Statement
from tests.support.commands import COLLECT_NOW, gc, server
from tests.support.lakefs_server import Lake


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    with server(folder) as found:
        yield found


@pytest.fixture
def state(lake: Lake) -> ObjectWriter:
    lake.repository()  # creates it
    return open_state(LakeFSClient.from_env().repository("lake").namespace)


def other_owner(state: ObjectWriter) -> None:
    claim(state, Owner(environment=Environment("http://other:8000"), since=datetime(2026, 1, 2, tzinfo=UTC)))


def block(state: ObjectWriter) -> None:
    found = Block(
        kind="mark_id",
        message="another server.",
        run_id="r1",
        repository="lake",
        server="http://x",
        at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    state.put(BLOCK, json.dumps(to_json(found)).encode())


def test_own_makes_this_server_the_owner_and_keeps_why(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    other_owner(state)
    code, out, _ = gc(capsys, "own", "lake", "--reason", "it moved", "--by", "ada", "--json")
    told = json.loads(out)
    client = LakeFSClient.from_env()
    assert code == 0
    assert told["owner"]["environment"]["url"] == client.environment().url
    assert told["before"]["environment"]["url"] == "http://other:8000"
    assert told["has_id"]
    (consent,) = read_consents(state, OWN)
    assert (consent.who, consent.why) == ("ada", "it moved")
    last = read_ids(state).last
    assert last is not None
    assert (client.metadata("lake") or {})[KEY] == last.value


def test_own_needs_a_reason_and_one_statement_at_a_time(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gc(capsys, "own", "lake")[0] == 2
    assert gc(capsys, "own", "lake", "--reason", " ")[0] == 2
    assert gc(capsys, "own", "lake", "--alias", "--without-id", "--reason", "x")[0] == 2
    assert gc(capsys, "own", "lake", "--alias", "--reason", "no owner yet")[0] == 2
    assert gc(capsys, "own", "nothing", "--reason", "x")[0] == 6
    assert read_consents(state) == []


def test_a_block_is_lifted_by_the_owner_with_a_reason(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gc(capsys, "lift-block", "lake", "--reason", "x")[0] == 2
    block(state)
    assert gc(capsys, "lift-block", "lake")[0] == 2
    assert gc(capsys, "lift-block", "lake", "--reason", "")[0] == 2
    assert gc(capsys, "run", "lake", "--apply", "--quiet")[0] == 3
    code, out, _ = gc(capsys, "lift-block", "lake", "--reason", "found the cause", "--json")
    assert code == 0
    assert json.loads(out)["block"]["run_id"] == "r1"
    assert read_block(state) is None
    assert gc(capsys, "run", "lake", "--apply", "--quiet")[0] == 0


def test_a_block_is_not_lifted_from_another_server(
    state: ObjectWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    other_owner(state)
    block(state)
    assert gc(capsys, "lift-block", "lake", "--reason", "x")[0] == 3
    assert read_block(state) is not None


def documented_policy() -> list[dict[str, Any]]:
    page = (Path(__file__).parents[3] / "docs/install.md").read_text(encoding="utf-8")
    text = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert text is not None
    statements: list[dict[str, Any]] = json.loads(text[1].replace("my-repo", "lake"))["statement"]
    return statements


def work_as_user(lake: Lake, environment: pytest.MonkeyPatch, without: str = "") -> None:
    directory = lake.server.accounts.directory
    directory.users.create("dredge")
    directory.credentials.add("dredge", "DREDGEKEY", "dredge-secret")
    statements = [
        Statement(
            item["effect"], tuple(action for action in item["action"] if action != without), item["resource"]
        )
        for item in documented_policy()
    ]
    directory.policies.create("Dredge", tuple(statements))
    directory.policies.attach_to_user("Dredge", "dredge")
    environment.setenv(ACCESS_KEY, "DREDGEKEY")
    environment.setenv(SECRET_KEY, "dredge-secret")


def garbage(lake: Lake) -> str:
    branch = lakefs.Repository("lake", lake.client).branch("main")
    branch.object("kept").upload(b"kept")
    branch.commit("kept")
    lake.writer().put("data/orphan", b"orphan")
    time.sleep(1.1)  # the folder tells whole seconds
    return "data/orphan"


APPLY = ("run", "lake", "--apply", "--mode", "clean", *COLLECT_NOW)


def there(lake: Lake) -> set[str]:
    return {item.key for item in lake.writer().list_level("data/").objects}


def test_the_documented_policy_is_enough_to_delete(
    lake: Lake, state: ObjectWriter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = garbage(lake)
    work_as_user(lake, monkeypatch)
    assert gc(capsys, *APPLY)[0] == 0
    assert orphan not in there(lake)
    assert read_ids(state).last is not None


def test_without_the_right_to_update_the_repository_nothing_is_deleted_until_a_person_consents(
    lake: Lake, state: ObjectWriter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = garbage(lake)
    work_as_user(lake, monkeypatch, without="fs:UpdateRepository")
    code, _, said = gc(capsys, *APPLY)
    assert code == 3
    assert "fs:UpdateRepository" in said
    assert orphan in there(lake)
    assert gc(capsys, "own", "lake", "--without-id", "--reason", "no right yet")[0] == 0
    assert gc(capsys, *APPLY)[0] == 0
    assert orphan not in there(lake)
