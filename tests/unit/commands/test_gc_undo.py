"""`dredge gc restore`, `purge` and `pins` over HTTP: output and exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from dredge.cli import main
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

ORPHANS = {f"data/orphan{number}": b"orphan %d" % number for number in range(3)}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake whose orphans a run with a quarantine has deleted."""
    folder = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as environment, lakefs_server(folder) as found:
        environment.setenv(ENDPOINT, found.server.endpoint)
        environment.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        environment.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        branch = found.repository().branch("main")
        branch.object("logs/kept").upload(b"kept")
        branch.commit("kept")
        for key, data in ORPHANS.items():
            found.writer().put(key, data)
        time.sleep(1.1)  # the folder tells whole seconds
        words = [
            "--undo",
            "quarantine",
            "--apply",
            "--mode",
            "clean",
            "--unsafe-min-age-seconds",
            "1",
            "--unsafe-grace-seconds",
            "0",
            "--max-delete-percent",
            "100",
            "--quiet",
        ]
        with pytest.raises(SystemExit):
            main(["gc", "run", "lake", *words])
        yield found


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Give exit code, output and errors of `dredge gc`."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["gc", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def orphans(lake: Lake) -> dict[str, bytes]:
    level = lake.writer().list_level("data/")
    return {item.key: lake.writer().get(item.key) for item in level.objects if item.key in ORPHANS}


def deleted_by(lake: Lake, capsys: pytest.CaptureFixture[str]) -> str:
    """URI of the run."""
    _, said, _ = run(capsys, "runs", lake.namespace("lake"), "--json")
    return str(json.loads(said)["runs"][0]["folder"])


def test_restore_brings_back_what_was_chosen_and_pins_it(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert orphans(lake) == {}
    uri = deleted_by(lake, capsys)
    assert run(capsys, "restore", uri)[0] == 2
    assert run(capsys, "restore", uri.rpartition("/")[2], "--all")[0] == 2
    code, said, _ = run(capsys, "restore", uri, "--address", "data/orphan1", "--because", "needed")
    assert (code, "1  were restored" in said) == (0, True)
    assert orphans(lake) == {"data/orphan1": ORPHANS["data/orphan1"]}
    code, said, _ = run(capsys, "restore", uri, "--all", "--keep-days", "2", "--json")
    found = json.loads(said)
    assert (code, found["restored_objects"], found["there_objects"]) == (0, 2, 1)
    assert orphans(lake) == ORPHANS
    code, said, _ = run(capsys, "pins", "lake")
    assert (code, said.count("until"), "needed" in said) == (0, 2, True)
    pin = json.loads(run(capsys, "pins", "lake", "--json")[1])["pins"][0]["pin_id"]
    assert pin not in run(capsys, "pins", "lake", "--end", pin)[1]
    assert run(capsys, "pins", "lake", "--end", "nothing")[0] == 2


def test_purge_says_what_would_go_and_lets_nothing_young_go(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = deleted_by(lake, capsys)
    code, said, _ = run(capsys, "purge", "lake", "--older-than-days", "1", "--run", uri, "--apply", "--json")
    found = json.loads(said)
    assert (code, found["status"], found["purged_objects"]) == (0, "success", 0)
    assert found["young_objects"] + found["pinned_objects"] == len(ORPHANS)
    code, said, _ = run(capsys, "purge", "lake")
    assert (code, "nothing is left to do" in said) == (0, False), "they are too young, and it says until when"
    assert run(capsys, "purge", "lake", "--older-than-days", "0")[0] == 2
