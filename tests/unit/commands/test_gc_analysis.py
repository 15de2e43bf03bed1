"""`dredge gc why`, `cost` and `plan` over HTTP: text, JSON and exit codes."""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dredge.gc.mark_uncommitted.kv_store import URL
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.commands import COLLECT_NOW, call_gc, gc, server
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server

KV_URL = "KV_OF_THE_LAKE"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    kv_url = f"sqlite:///{folder}/kv.db"
    with pytest.MonkeyPatch.context() as environment, server(folder, kv_url=kv_url) as found:
        environment.setenv(KV_URL, kv_url)
        branch = found.repository().branch("main")
        branch.object("logs/kept").upload(b"kept")
        branch.commit("kept")
        found.writer().put("data/orphan", b"orphan")
        branch.object("staged").upload(b"staged")
        time.sleep(1.1)  # the folder tells whole seconds
        call_gc("run", "lake", "--mode", "clean", *COLLECT_NOW)
        yield found


def test_why_tells_what_keeps_an_object_and_what_nothing_keeps(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = gc(capsys, "why", "lakefs://lake/main/logs/kept")
    assert (code, "head of main" in said) == (0, True)
    code, said, _ = gc(capsys, "why", f"{lake.namespace('lake')}/data/orphan", "--json")
    found = json.loads(said)
    assert (code, found["verdict"], found["judged"]["reason"]) == (1, "garbage", "unreferenced")
    code, _, errors = gc(capsys, "why", "lakefs://lake/main/nothing")
    assert (code, "404" in errors) == (6, True)
    assert gc(capsys, "why", "data/orphan")[0] == 2


def test_why_reads_the_staging_token_from_the_key_value_store(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, os.environ[KV_URL])
    code, said, _ = gc(capsys, "why", "lakefs://lake/main/staged", "--json")
    found = json.loads(said)
    assert (code, found["not_read"]) == (0, [])
    (staged,) = found["staged"]
    assert (staged["branch"], staged["path"], bool(staged["token"])) == ("main", "staged", True)


def test_cost_counts_each_kind_with_its_price(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = gc(capsys, "cost", "lake", "--storage-class", "STANDARD")
    assert (code, "A MONTH" in said, "in the head of a branch" in said) == (0, True, True)
    code, said, _ = gc(capsys, "cost", "lake", "--price-per-gb-month", "0.5", "--json")
    found = json.loads(said)
    kinds = {row["kind"]: row["size_bytes"] for row in found["kinds"]}
    assert (code, kinds["heads"], kinds["staged"], kinds["garbage"]) == (0, 4, 6, 6)
    assert gc(capsys, "cost", "lake", "--storage-class", "GOLD")[0] == 2
    assert gc(capsys, "cost", "other")[0] == 6


def test_plan_says_what_days_and_files_of_rules_would_free(
    lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"default_retention_days": 9, "branches": []}')
    words = ("plan", "lake", "--retention-days", "7,30", "--rules", str(rules))
    code, said, _ = gc(capsys, *words)
    assert (code, "30 days" in said, "rules of" in said) == (0, True, True)
    code, said, _ = gc(capsys, "plan", "lake", "--json")
    found = json.loads(said)
    assert [item["proposal"]["days"] for item in found["proposals"]] == [7, 14, 30, 60, 90]
    assert [item["freed"]["objects"] for item in found["proposals"]] == [1] * 5
    assert found["unnamed_metaranges"] == []
    assert gc(capsys, "plan", "lake", "--branch", "main")[0] == 2
    assert gc(capsys, "plan", "lake", "--retention-days", "x")[0] == 2


def test_plan_names_the_metaranges_that_count_although_no_commit_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with lakefs_server(tmp_path) as lake:
        monkeypatch.setenv(ENDPOINT, lake.server.endpoint)
        monkeypatch.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        monkeypatch.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        repository = lake.repository()
        repository.branch("main").object("kept").upload(b"kept")
        repository.branch("main").commit("kept")
        short = repository.branch("short").create("main")
        short.object("short").upload(b"of a branch that no run saw")
        unnamed = short.commit("short").get_commit().meta_range_id
        short.delete()
        lake.writer().put("data/orphan", b"orphan")
        time.sleep(1.1)  # the folder tells whole seconds
        assert (
            gc(capsys, "run", "lake", "--mode", "clean", "--unsafe-min-age-seconds", "1", "--quiet")[0] == 0
        )
        code, said, _ = gc(capsys, "plan", "lake", "--json")
        found = json.loads(said)
        assert (code, found["unnamed_metaranges"]) == (0, [unnamed])
        assert {item["freed"]["objects"] for item in found["proposals"]} == {1}
        assert "Metaranges that count as active" in gc(capsys, "plan", "lake")[1]


def test_metadata_tells_which_files_no_commit_names_and_what_it_cannot_know(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said, _ = gc(capsys, "metadata", "lake")
    assert code == 0
    assert "DREDGE_KV_URL" in said
    monkeypatch.setenv("DREDGE_KV_URL", os.environ[KV_URL])
    tomorrow = datetime.now(UTC) + timedelta(hours=26)
    monkeypatch.setattr("dredge.runs.clock.utc_now", lambda: tomorrow)
    code, said, _ = gc(capsys, "metadata", "lake", "--json")
    found = json.loads(said)
    assert (code, found["complete"], found["kinds"]["kept"]["objects"]) == (0, True, 2)
    assert gc(capsys, "metadata", "none")[0] == 6
    assert gc(capsys, "metadata", "lake", "--min-age-hours", "0")[0] == 2
