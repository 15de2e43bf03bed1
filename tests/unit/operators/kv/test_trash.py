"""Tasks of the trash cleaner, on a real store."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_dredge.operators.kv.trash import (
    LakeFSKVCleanTrashOperator,
    LakeFSKVRestoreTrashOperator,
    LakeFSKVScanTrashOperator,
)
from airflow_dredge.operators.reporting import REPORT
from dredge.errors import ConfigError, LeaseHeldError, RefusedError
from dredge.kv.opening import open_row_cleaner
from dredge.kv.rows import Row
from dredge.storage import open_writer
from dredge.trash.state import TrashState
from tests.support.airflow import connections
from tests.support.lakefs_operators import Pushed
from tests.support.trash import age_waits, trashed_store


@pytest.mark.parametrize(
    "settings",
    [
        {"grace_hours": "23"},
        {"max_rows": "-1"},
        {"kinds": "commits"},
        {"dry_run": "None"},
        {"state_uri": ""},
        {"max_row": 1},
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_touched(settings: Any) -> None:
    config = {"state_uri": "file:///x", **settings}
    operator = LakeFSKVCleanTrashOperator(task_id="clean", config=config, kv_conn_id="is never asked for")
    with pytest.raises(ConfigError):
        operator.execute({})  # type: ignore[typeddict-item]


def test_a_restore_is_a_dry_run_of_every_partition_unless_told() -> None:
    config = {"state_uri": "file:///x", "run": "r", "partition": "None"}
    checked = LakeFSKVRestoreTrashOperator(task_id="restore", config=config).checked
    assert (checked.dry_run, checked.partitions) == (True, None)
    named = LakeFSKVRestoreTrashOperator(task_id="restore", config={**config, "partition": r"a\xff"}).checked
    assert named.partitions == [b"a\xff"]


OUTLET = "dredge_kv_trash"
BOTH = {"import-expired": 1, "staging-orphan": 2}
"""Rows of trash in the store, by kind."""


class Cleaner:
    def __init__(self, folder: Path) -> None:
        self.folder, self.url, self.uri = folder, f"sqlite://{folder}/kv.db", f"file://{folder}/state"
        self.orphan, self.expired = trashed_store(folder)
        self.pushed, self.event = Pushed(), SimpleNamespace(extra=None)
        self.context: Any = {
            "run_id": "manual__1",
            "ti": self.pushed,
            "outlet_events": {OUTLET: self.event},
        }

    def rows(self) -> set[Row]:
        store = open_row_cleaner(self.url)
        with store.view() as view:
            return {Row(p, entry.key, entry.value) for p in view.partitions() for entry in view.scan(p)}

    def scan(self, **config: Any) -> dict[str, Any]:
        operator = LakeFSKVScanTrashOperator(
            task_id="scan", config={"state_uri": self.uri, **config}, outlets=[OUTLET]
        )
        return operator.execute(self.context)

    def looked(self, **config: Any) -> dict[str, Any]:
        self.scan()
        age_waits(self.folder / "state")
        return self.scan(**config)

    def cleaning(self, config: Any, **settings: Any) -> LakeFSKVCleanTrashOperator:
        config = {"state_uri": self.uri, "dry_run": False, **config}
        return LakeFSKVCleanTrashOperator(task_id="clean", config=config, outlets=[OUTLET], **settings)

    def clean(self, planned: str | None = None, digest: str | None = None, **config: Any) -> dict[str, Any]:
        return self.cleaning(config, planned=planned, planned_digest=digest).execute(self.context)

    def restore(self, run: str, **config: Any) -> dict[str, Any]:
        config = {"state_uri": self.uri, "run": run, **config}
        return LakeFSKVRestoreTrashOperator(task_id="restore", config=config).execute(self.context)


@pytest.fixture
def cleaner(tmp_path: Path) -> Iterator[Cleaner]:
    store = {"conn_type": "sqlite", "host": f"{tmp_path}/kv.db"}
    with connections(lakefs_kv_default=store, aws_default=None):
        yield Cleaner(tmp_path)


def test_what_two_looks_a_grace_apart_have_seen_goes_and_nothing_else(cleaner: Cleaner) -> None:
    before = cleaner.rows()
    looked = cleaner.looked()
    done = cleaner.clean(looked["run_id"], looked["digest"])
    assert (done["status"], done["rows_removed"], done["fates"]) == ("done", 3, {"deleted": 2})
    assert before - cleaner.rows() == {row for row in before if row in cleaner.orphan | cleaner.expired}
    assert cleaner.rows() <= before


def test_a_limit_holds_it(cleaner: Cleaner) -> None:
    looked, before = cleaner.looked(), cleaner.rows()
    with pytest.raises(RefusedError):
        cleaner.clean(looked["run_id"], max_rows=2)
    assert cleaner.rows() == before


@pytest.mark.parametrize("kind", BOTH)
def test_only_the_kinds_that_were_asked_for_are_looked_for_and_go(cleaner: Cleaner, kind: str) -> None:
    before = cleaner.rows()
    assert cleaner.looked(kinds=[kind])["trash_rows"] == BOTH[kind]
    assert cleaner.looked(kinds=[])["trash_rows"] == 3
    assert cleaner.clean(kinds=[kind])["rows_removed"] == BOTH[kind]
    rows = cleaner.orphan if kind == "staging-orphan" else cleaner.expired
    assert before - cleaner.rows() == rows


def test_nothing_goes_beyond_the_plan_of_the_scan(cleaner: Cleaner) -> None:
    before = cleaner.rows()
    planned = cleaner.looked(kinds=["import-expired"])
    assert cleaner.clean(planned["run_id"], "")["rows_removed"] == 1
    assert before - cleaner.rows() == cleaner.expired


def test_a_plan_that_the_scan_did_not_report_is_not_executed(cleaner: Cleaner) -> None:
    looked, before = cleaner.looked(), cleaner.rows()
    with pytest.raises(RefusedError):
        cleaner.clean(looked["run_id"], "0" * 64)
    with pytest.raises(ConfigError):
        cleaner.clean("")
    assert cleaner.rows() == before


@pytest.mark.parametrize("task", ["scan", "clean"])
def test_a_retry_fences_its_lost_try_off_and_another_run_waits(cleaner: Cleaner, task: str) -> None:
    cleaner.looked()
    operator: Any = cleaner.cleaning({})
    if task == "scan":
        operator = LakeFSKVScanTrashOperator(task_id="scan", config={"state_uri": cleaner.uri})
    state = TrashState(open_writer(cleaner.uri))
    with state.held(operator.holder(cleaner.context)) as lost:
        operator.execute(cleaner.context)
        with pytest.raises(LeaseHeldError):
            lost.check_right()
    with state.held("somebody else"), pytest.raises(LeaseHeldError):
        operator.execute(cleaner.context)


def test_who_waits_for_a_run_gets_its_figures_and_its_page(cleaner: Cleaner) -> None:
    looked = cleaner.looked()
    assert cleaner.pushed["save_report", REPORT] == looked[REPORT] == cleaner.event.extra[REPORT]
    operator = cleaner.cleaning({})
    done = operator.execute(cleaner.context)
    page = f"{cleaner.uri}/runs/{done['run_id']}/report.html"
    assert cleaner.pushed["save_report", REPORT] == done[REPORT] == page
    assert (cleaner.event.extra["rows_removed"], cleaner.event.extra["trash_rows"]) == (3, 3)
    assert Path(page.removeprefix("file://")).exists()
    assert operator.lineage is not None
    assert (operator.lineage.uri, operator.lineage.outcome) == (cleaner.url, "done")
    assert operator.lineage.figures["rows_removed"] == 3
    assert {type(value) for value in operator.lineage.figures.values()} == {int}


def test_what_went_comes_back_when_it_is_asked_for_and_only_that(cleaner: Cleaner) -> None:
    before = cleaner.rows()
    cleaner.looked()
    run, after = cleaner.clean()["run_id"], cleaner.rows()
    assert cleaner.restore(run)["rows"] == 3
    assert cleaner.rows() == after
    (partition,) = {row.partition.decode() for row in cleaner.orphan}
    assert cleaner.restore(run, partition=partition, dry_run=False)["rows_written"] == 2
    assert cleaner.rows() == after | cleaner.orphan
    assert cleaner.restore(run, dry_run=False)["rows_written"] == 1
    assert cleaner.rows() == before
