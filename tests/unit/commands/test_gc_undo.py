"""`dredge gc restore`, `purge` and `pins` over HTTP: output and exit codes."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import COLLECT_NOW, call_gc, gc, server
from tests.support.lakefs_server import Lake

ORPHANS = {f"data/orphan{number}": b"orphan %d" % number for number in range(3)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    with server(folder) as found:
        branch = found.repository().branch("main")
        branch.object("logs/kept").upload(b"kept")
        branch.commit("kept")
        for key, data in ORPHANS.items():
            found.writer().put(key, data)
        time.sleep(1.1)  # the folder tells whole seconds
        call_gc("run", "lake", "--undo=quarantine", "--apply", "--mode=clean", *COLLECT_NOW)
        yield found


def orphans(lake: Lake) -> dict[str, bytes]:
    level = lake.writer().list_level("data/")
    return {item.key: lake.writer().get(item.key) for item in level.objects if item.key in ORPHANS}


def deleted_by(lake: Lake, capsys: pytest.CaptureFixture[str]) -> str:
    _, said, _ = gc(capsys, "runs", lake.namespace("lake"), "--json")
    return str(json.loads(said)["runs"][0]["folder"])


def test_restore_brings_back_what_was_chosen_and_pins_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert orphans(lake) == {}
    uri = deleted_by(lake, capsys)
    assert gc(capsys, "restore", uri)[0] == 2
    assert gc(capsys, "restore", uri.rpartition("/")[2], "--all")[0] == 2
    code, said, _ = gc(capsys, "restore", uri, "--address", "data/orphan1", "--because", "needed")
    assert (code, "1  were restored" in said) == (0, True)
    assert orphans(lake) == {"data/orphan1": ORPHANS["data/orphan1"]}
    code, said, _ = gc(capsys, "restore", uri, "--all", "--keep-days", "2", "--json")
    found = json.loads(said)
    assert (code, found["restored_objects"], found["there_objects"]) == (0, 2, 1)
    assert orphans(lake) == ORPHANS
    code, said, _ = gc(capsys, "pins", "lake")
    assert (code, said.count("until"), "needed" in said) == (0, 2, True)
    pin = json.loads(gc(capsys, "pins", "lake", "--json")[1])["pins"][0]["pin_id"]
    assert pin not in gc(capsys, "pins", "lake", "--end", pin)[1]
    assert gc(capsys, "pins", "lake", "--end", "nothing")[0] == 2


def test_purge_says_what_would_go_and_lets_nothing_young_go(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = deleted_by(lake, capsys)
    code, said, _ = gc(capsys, "purge", "lake", "--older-than-days", "1", "--run", uri, "--apply", "--json")
    found = json.loads(said)
    assert (code, found["status"], found["purged_objects"]) == (0, "success", 0)
    assert found["young_objects"] + found["pinned_objects"] == len(ORPHANS)
    code, said, _ = gc(capsys, "purge", "lake")
    assert (code, "nothing is left to do" in said) == (0, False), "they are too young, and it says until when"
    assert gc(capsys, "purge", "lake", "--older-than-days", "0")[0] == 2


# `dredge gc all` collects every repository of a server in this process, and deletes only when it is told
# to.


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lake]:
    with server(tmp_path) as found:
        for name in ("lake", "pond"):
            found.repository(name).branch("main").object("kept").upload(b"kept")
            found.writer(name).put("data/orphan", b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        yield found


def keys(lakes: Lake, name: str) -> list[str]:
    return [key for batch in lakes.writer(name).list("data/") for key in batch["key"].to_pylist()]


def test_all_are_shown_and_then_swept_and_each_on_its_own_page(
    lakes: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = gc(capsys, "all", *COLLECT_NOW)
    assert code == 0
    assert "2 of 2 repositories were checked" in said
    assert "data/orphan" in keys(lakes, "lake")
    code, said, _ = gc(capsys, "all", *COLLECT_NOW, "--apply", "--json", "--at-once", "2")
    summary = json.loads(said)
    assert code == 0
    assert summary["counts"]["deleted_objects"] == 2
    assert len(keys(lakes, "lake")) == len(keys(lakes, "pond")) == 1
    page = Path(summary["report_uri"].partition("://")[2])
    assert "pond" in page.read_text()
