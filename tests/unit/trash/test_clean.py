"""Cleaning real dumps on every kind of store: exactly the trash goes, and all of it can be put back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dredge.kv import open_store
from dredge.kv.postgres_rows import PostgresRows
from dredge.kv.row_opening import open_row_cleaner
from dredge.kv.rows import Row
from dredge.storage import open_writer
from dredge.trash.finding import TrashFinding
from dredge.trash.margins import TrashLimits, TrashMargins
from dredge.trash.plan import TrashPlan
from dredge.trash.report import render
from dredge.trash.state import TrashState
from dredge.trash.steps import ScanReport, clean, restore, scan
from tests.support.dynamodb import dynamodb_server, table_url
from tests.support.kv_world import TRUTH, Store, dump, memory_store
from tests.support.postgres import postgres_server

MARGINS = TrashMargins()
type NewStore = Callable[[], Store]

SOME = ("a2_failed_creates", "c2_killed_during_drop", "d2_live_token_queued", "e3_lost_instance")


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres_server(fsync=False) as server:
        url = server.new_database()
        open_store(url).close()
        yield url


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with dynamodb_server() as running:
        yield running


def postgres_store(url: str) -> Store:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE kv")
    return Store(PostgresRows(url, read_only=False))


def opened(url: str) -> Store:
    open_store(url).close()
    return Store(open_row_cleaner(url))


@pytest.fixture
def state(tmp_path: Path) -> TrashState:
    return TrashState(open_writer(f"file://{tmp_path}/state"))


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_memory_is_left_without_exactly_the_trash(story: str, state: TrashState) -> None:
    clean_and_check(memory_store(), story, state)


@pytest.mark.parametrize("story", sorted(TRUTH["dumps"]))
def test_postgres_is_left_without_exactly_the_trash(story: str, state: TrashState, database: str) -> None:
    clean_and_check(postgres_store(database), story, state)


@pytest.mark.parametrize("story", SOME)
def test_sqlite_is_left_without_exactly_the_trash(story: str, state: TrashState, tmp_path: Path) -> None:
    clean_and_check(opened(f"sqlite://{tmp_path}/kv.db"), story, state)


@pytest.mark.parametrize("story", ["c2_killed_during_drop", "g1_dynamodb"])
def test_dynamodb_is_left_without_exactly_the_trash(
    story: str, state: TrashState, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    clean_and_check(opened(table_url(endpoint)), story, state)


def clean_and_check(store: Store, story: str, state: TrashState) -> None:
    truth = TRUTH["dumps"][story]
    before = set(dump(story))
    store.load(before)
    keep = {row for row in before if not is_trash(row, truth)}
    options: dict[str, Any] = {"clock": store.machine_clock, "margins": MARGINS}
    for look in truth["looks"][:-1]:
        store.now = moment(look)
        scan(store, state, **options)
    store.now = moment(truth["looks"][-1])

    trial = clean(store, state, limits=TrashLimits(), **options)
    assert trial.status == "dry_run"
    assert store.all_rows() == before, "a dry run removes nothing"

    done = clean(store, state, limits=TrashLimits(), dry_run=False, **options)
    assert done.status == "done"
    assert store.all_rows() == keep
    assert done.rows_removed == len(before) - len(keep)
    assert done.scan.plan.rows == done.rows_removed

    again = clean(store, state, limits=TrashLimits(), dry_run=False, **options)
    assert again.rows_removed == 0, "a second run finds nothing more at the same moment"

    assert restore(store, state, done.scan.plan.run_id)["rows"] == done.rows_removed
    assert store.all_rows() == keep, "a dry run puts nothing back"
    restored = restore(store, state, done.scan.plan.run_id, dry_run=False)
    assert store.all_rows() == before
    assert restored["rows_written"] == done.rows_removed
    assert restore(store, state, done.scan.plan.run_id, dry_run=False)["rows_written"] == 0
    store.close()


def is_trash(row: Row, truth: dict[str, Any]) -> bool:
    return any(
        finding["verdict"] == "trash"
        and finding["partition"].encode() == row.partition
        and ("key" not in finding or finding["key"].encode() == row.key)
        for finding in truth["findings"]
    )


def test_a_dry_run_leaves_a_report_of_everything_that_is_not_plainly_live(state: TrashState) -> None:
    store = memory_store()
    truth = TRUTH["dumps"]["c2_killed_during_drop"]
    store.load(dump("c2_killed_during_drop"))
    store.now = moment(truth["looks"][0])
    done = clean(store, state, clock=store.machine_clock, margins=MARGINS, limits=TrashLimits())
    folder = f"runs/{done.scan.plan.run_id}"
    report = json.loads(state.writer.get(f"{folder}/report.json"))
    assert report["status"] == "dry_run"
    assert {(f["partition"], f["key"]) for f in report["findings"]} == {
        (f["partition"], f.get("key")) for f in truth["findings"]
    }
    assert sum(line["partitions"] + line["keys"] for line in report["summary"]) == len(report["findings"])
    page = state.writer.get(f"{folder}/report.html").decode()
    for finding in report["findings"]:
        assert {"kind", "verdict", "why", "age_seconds", "rows", "size_bytes"} <= finding.keys()
        assert finding["partition"] in page


def test_the_page_of_a_report_shows_names_and_runs_none() -> None:
    finding = TrashFinding(b"<script>", b"<i>", "unknown", "report", "left & alone", 1, 2)
    plan = TrashPlan("run", "sqlite:///<b>", moment(0), (), 1)
    page = render(ScanReport(plan, (finding,), 0).to_report() | {"status": "scan"})
    assert "&lt;script&gt;" in page
    assert "left &amp; alone" in page
    assert not {"<script>", "<i>", "<b>"} & set(re.findall("<[^>]*>", page))
