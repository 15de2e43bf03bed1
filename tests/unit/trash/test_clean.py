"""Cleaning real dumps on every kind of store: exactly the trash goes, and all of it can be put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dredge.kv import open_store
from dredge.kv.opening import open_row_cleaner
from dredge.kv.rows import Row
from dredge.trash.findings import TrashLimits
from dredge.trash.restore import restore
from dredge.trash.settings import TrashMargins
from dredge.trash.state import TrashState
from dredge.trash.steps import clean, scan
from tests.support.dynamodb import dynamodb_server, table_url
from tests.support.kv_world import TRUTH, Store, dump, memory_store
from tests.support.postgres import postgres_server

MARGINS = TrashMargins()


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Store]]:
    """Opens a new store of the asked kind."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with ExitStack() as servers:

        def url_of(kind: str) -> str:
            if kind == "postgres":
                return servers.enter_context(postgres_server(fsync=False)).new_database()
            if kind == "dynamodb":
                return table_url(servers.enter_context(dynamodb_server()))
            return f"sqlite://{tmp_path}/kv.db"

        def open_new(kind: str) -> Store:
            if kind == "memory":
                return memory_store()
            url = url_of(kind)
            open_store(url).close()
            if kind == "postgres":
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("TRUNCATE kv")
            return Store(open_row_cleaner(url))

        yield open_new


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        *(("memory", story) for story in sorted(TRUTH["dumps"])),
        ("postgres", "c2_killed_during_drop"),
        ("sqlite", "c2_killed_during_drop"),
        ("dynamodb", "g1_dynamodb"),
    ],
)
def test_a_store_is_left_without_exactly_the_trash(
    opened: Callable[[str], Store], kind: str, story: str, state: TrashState
) -> None:
    clean_and_check(opened(kind), story, state)


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
