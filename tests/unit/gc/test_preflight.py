"""The preflight of a lakeFS repository: a good set-up, and each broken one with the line that says so."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lakefs
import pytest
from lakefs_sdk.models import GarbageCollectionRules

from dredge.cli import main
from dredge.gc.config import GCConfig
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.preflight import check
from dredge.gc.run import open_state
from dredge.gc.witness.owner import BLOCK, KEY, PLANNED, Block, Owner, Site, claim, write_id
from dredge.lakefs import Environment, LakeFSClient
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from dredge.runs.payload import to_json
from dredge.runs.preflight import Check, Line, Preflight, ok, perform
from dredge.runs.versions import POINTER
from dredge.storage import ObjectWriter
from lakefs_embedded.auth.model import Statement
from tests.support.lakefs_server import KEY_PAIR, Clock, Lake, lakefs_server

type Break = Callable[[Lake], dict[str, Any]]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with lakefs_server(tmp_path, kv_url=f"sqlite:///{tmp_path}/kv.db") as found:
        prepared(found)
        yield found


def prepared(lake: Lake) -> None:
    repository = lake.repository()
    branch = repository.branch("main")
    branch.object("a").upload(b"a")
    branch.commit("a")
    rules = GarbageCollectionRules(default_retention_days=30, branches=[])
    lake.sdk.repositories_api.set_gc_rules("lake", rules)
    client(lake).set_metadata("lake", {PLANNED: "run"})


def client(
    lake: Lake, key: str = KEY_PAIR.access_key_id, secret: str = KEY_PAIR.secret_access_key
) -> LakeFSClient:
    return LakeFSClient(lake.server.endpoint, key, secret)


def state_of(lake: Lake) -> ObjectWriter:
    return open_state(client(lake).repository("lake").namespace)


def checked(lake: Lake, **given: Any) -> Preflight:
    given = {"client": client(lake), **given}
    found = check(given.pop("config", GCConfig(repository="lake", undo="quarantine")), **given)
    assert found.seconds < 20
    return found


def levels(found: Preflight) -> dict[str, str]:
    order = ("ok", "warning", "error")
    said: dict[str, str] = {}
    for line in found.lines:
        said[line.check] = max(said.get(line.check, "ok"), line.level, key=order.index)
    return said


def keys(lake: Lake) -> dict[str, bytes]:
    writer = lake.writer()
    return {key: writer.get(key) for batch in writer.list() for key in batch["key"].to_pylist()}


def test_a_good_set_up_has_no_complaint_and_is_left_as_it_was(lake: Lake, tmp_path: Path) -> None:
    before, metadata = keys(lake), client(lake).metadata("lake")
    found = checked(lake, kv=KVAccess(f"sqlite:///{tmp_path}/kv.db"))
    assert [line for line in found.lines if line.level != "ok"] == []
    assert found.level == "ok"
    expected = {
        "server",
        "repository",
        "right_branches",
        "right_metadata",
        "rules",
        "namespaces",
        "server_clock",
    }
    expected |= {
        "store_data_delete",
        "store_state_write",
        "store_state_conditions",
        "owner",
        "block",
        "alarms",
    }
    assert expected | {"past", "state", "kv", "undo", "object_lock", "estimate", "store_elsewhere"} <= set(
        levels(found)
    )
    assert keys(lake) == before
    assert client(lake).metadata("lake") == metadata


def no_answer(lake: Lake) -> dict[str, Any]:
    return {"client": LakeFSClient("http://127.0.0.1:9", "a", "b")}


def wrong_key(lake: Lake) -> dict[str, Any]:
    return {"client": client(lake, secret="wrong")}


def no_repository(lake: Lake) -> dict[str, Any]:
    return {"config": GCConfig(repository="sea")}


def read_only(lake: Lake) -> dict[str, Any]:
    body = {"name": "still", "storage_namespace": lake.namespace("still"), "read_only": True}
    assert lake.http("POST", "/repositories", json_body=body).status == 201
    return {"config": GCConfig(repository="still", undo="quarantine")}


def without(action: str) -> Break:

    def broken(lake: Lake) -> dict[str, Any]:
        directory = lake.server.accounts.directory
        directory.users.create("dredge")
        directory.credentials.add("dredge", "DREDGEKEY", "dredge-secret")
        actions = ("fs:*", "retention:*", "auth:*")
        statements = (Statement("allow", actions, "*"), Statement("deny", (action,), "*"))
        directory.policies.create("Dredge", statements)
        directory.policies.attach_to_user("Dredge", "dredge")
        return {"client": client(lake, "DREDGEKEY", "dredge-secret")}

    return broken


def overlapping(lake: Lake) -> dict[str, Any]:
    lakefs.Repository("inner", lake.client).create(
        storage_namespace=f"{lake.namespace('lake')}/_lakefs/inner"
    )
    return {}


def owned_by_another(lake: Lake) -> dict[str, Any]:
    claim(
        state_of(lake),
        Owner(environment=Environment("http://other:8000"), since=datetime(2026, 1, 2, tzinfo=UTC)),
    )
    return {}


def blocked(lake: Lake) -> dict[str, Any]:
    found = Block(
        kind="mark_id",
        message="another server.",
        run_id="r1",
        repository="lake",
        server="http://x",
        at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    state_of(lake).put(BLOCK, json.dumps(to_json(found)).encode())
    return {}


def alarmed(lake: Lake) -> dict[str, Any]:
    state_of(lake).put("alarms/r1-001.json", b"an alarm that cannot be read counts as open")
    return {}


def older_database(lake: Lake) -> dict[str, Any]:
    write_id(Site(state_of(lake), client(lake), "lake", "r1"))
    client(lake).set_metadata("lake", {KEY: "an older id"})
    return {}


def data_is_a_file(lake: Lake) -> dict[str, Any]:
    folder = Path(lake.namespace("lake").removeprefix("local://")) / "data"
    shutil.rmtree(folder)
    folder.write_bytes(b"no folder")
    return {}


def wrong_machine_clock(lake: Lake) -> dict[str, Any]:
    return {"clock": lambda: datetime.now(UTC) - timedelta(hours=1)}


def copied_database(lake: Lake) -> dict[str, Any]:
    folder = Path(lake.base.removeprefix("local://")).parent
    for path in folder.glob("kv.db*"):
        shutil.copy(path, folder / path.name.replace("kv.db", "copy.db"))
    for _ in range(3):  # the server goes on, and the copy does not
        client(lake).usage()
    return {"kv": KVAccess(f"sqlite:///{folder}/copy.db")}


@pytest.mark.parametrize(
    ("broken", "check_name", "kind"),
    [
        (no_answer, "server", "unavailable"),
        (wrong_key, "server", None),
        (no_repository, "server", "not_found"),
        (read_only, "repository", "refused"),
        (without("fs:ListBranches"), "right_branches", None),
        (without("fs:UpdateRepository"), "right_metadata", "refused"),
        (overlapping, "namespaces", "refused"),
        (owned_by_another, "owner", "witness"),
        (blocked, "block", "blocked"),
        (alarmed, "alarms", "format"),
        (older_database, "past", "witness"),
        (data_is_a_file, "store_data_write", None),
        (wrong_machine_clock, "store_state", "refused"),
        (copied_database, "kv", "refused"),
    ],
)
def test_a_broken_set_up_is_told_with_the_one_thing_to_do(
    lake: Lake, broken: Break, check_name: str, kind: str | None
) -> None:
    found = checked(lake, **broken(lake))
    assert found.level == "error"
    bad = [line for line in found.lines if line.level == "error" and line.check == check_name]
    assert bad, [line for line in found.lines if line.level != "ok"]
    assert all(line.todo for line in bad)
    assert kind is None or bad[0].kind == kind


def test_a_server_whose_clock_is_off_is_told(tmp_path: Path) -> None:
    with lakefs_server(tmp_path, clock=Clock(hours=1)) as lake:
        prepared(lake)
        assert levels(checked(lake))["server_clock"] == "error"


@pytest.mark.parametrize(
    ("version", "warnings"),
    [("0.111.0", 2), ("v1.7.1", 2), ("1.71.0", 1), ("1.72.0", 0), ("2.0", 0), ("dev", 0)],
)
def test_an_older_server_is_told_by_what_it_lacks(lake: Lake, version: str, warnings: int) -> None:
    class OfVersion(LakeFSClient):
        def version(self) -> str:
            return version

    server = OfVersion(lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)
    lines = [line for line in checked(lake, client=server).lines if line.check == "server"]
    assert [line.level for line in lines] == ["ok"] + ["warning"] * warnings
    assert all(line.todo for line in lines[1:])


def test_a_lost_state_no_rules_and_no_undo_are_warnings(lake: Lake) -> None:
    lake.sdk.repositories_api.delete_gc_rules("lake")
    state_of(lake).put(POINTER, b"{")
    found = checked(lake, config=GCConfig(repository="lake"))
    assert found.level == "warning"
    warned = {name for name, level in levels(found).items() if level == "warning"}
    assert {"rules", "state", "undo"} <= warned
    assert all(line.todo for line in found.lines if line.level == "warning")


def test_the_command_ends_with_3_where_a_run_would_fail(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, lake.server.endpoint)
    monkeypatch.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
    monkeypatch.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
    assert command(capsys)[0] == 0
    blocked(lake)
    code, report = command(capsys)
    assert (code, report["level"]) == (3, "error")
    assert [line["check"] for line in report["lines"] if line["level"] == "error"] == ["block"]


def command(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main(["gc", "check", "lake", "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(ended.value.code or 0), report


def test_a_check_that_hangs_costs_no_more_than_its_own_line() -> None:
    never = threading.Event()

    def hang() -> list[Line]:
        never.wait(5)
        return []

    fast = Check("fast", lambda: [ok("fast", "it is")])
    found = perform("lake", iter([[Check("slow", hang), fast]]), seconds_max=0.2)
    assert [(line.check, line.level) for line in found.lines] == [("slow", "error"), ("fast", "ok")]
    never.set()
