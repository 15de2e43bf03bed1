"""Cleaning real dumps on every kind of store: exactly the trash goes, and all of it can be put back."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dredge.errors import ConfigError
from dredge.kv.opening import open_row_cleaner
from dredge.kv.rows import Row
from dredge.trash.findings import TrashConfig, TrashLimits, TrashMargins, TrashRestoreConfig
from dredge.trash.restore import restore
from dredge.trash.state import TrashState
from dredge.trash.steps import clean, scan
from lakefs_embedded.kv import open_store
from tests.support.dynamodb import table_url
from tests.support.kv_world import TRUTH, Store, dump, memory_store

MARGINS = TrashMargins()


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture
def opened(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Store]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def url_of(kind: str) -> str:
        if kind == "postgres":
            return str(request.getfixturevalue("postgres").new_database())
        if kind == "dynamodb":
            return table_url(request.getfixturevalue("dynamodb"))
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

    return open_new


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


# What a user may ask of the trash cleaner has bounds on both sides.


STATE = "memory://trash/config"


def test_what_is_not_asked_for_is_the_safe_thing() -> None:
    config = TrashConfig(state_uri=STATE)
    assert config.dry_run
    assert config.grace_hours == 24
    assert config.margins == TrashMargins()
    assert config.limits == TrashLimits()
    assert (config.kinds, config.read_rate) == ((), None)
    assert TrashRestoreConfig(state_uri=STATE, run="r").dry_run


def test_a_restore_names_partitions_as_reports_write_them() -> None:
    config = TrashRestoreConfig(state_uri=STATE, run="r", partition=r"p\xff")
    assert config.partitions == [b"p\xff"]
    assert TrashRestoreConfig(state_uri=STATE, run="r").partitions is None
    with pytest.raises(ConfigError):
        TrashRestoreConfig(state_uri="no uri", run="")


DAY = timedelta(hours=24)
INSTANT = timedelta(microseconds=1)
SAFE = ("grace", "id_age", "expiry", "ownership_expiry")
TIMES = (*SAFE, "multipart_report", "unnamed", "instance_margin")


@pytest.mark.parametrize("name", TIMES)
def test_a_negative_margin_is_refused_even_where_short_ones_are_asked_for(name: str) -> None:
    with pytest.raises(ConfigError):
        TrashMargins(**{name: -INSTANT}, unsafe_short_grace=True)
    assert getattr(TrashMargins(**{name: timedelta(0)}, unsafe_short_grace=True), name) == timedelta(0)


@pytest.mark.parametrize("name", SAFE)
def test_a_margin_below_a_day_is_refused_without_the_option_that_calls_it_unsafe(name: str) -> None:
    asked: dict[str, Any] = {name: DAY - INSTANT}
    with pytest.raises(ConfigError):
        TrashMargins(**asked)
    assert getattr(TrashMargins(**asked, unsafe_short_grace=True), name) == DAY - INSTANT
    assert getattr(TrashMargins(**{name: DAY}), name) == DAY
