"""A backfill of some days beside a schedule and runs by hand, with a real scheduler on PostgreSQL.

Airflow bounds active runs of a backfill by a number of its own, so all days are active at once; what keeps them
apart is the first task, which waits for the run before, and the lease. There is a day after the one that fails;
`./run test long` has more, some before it, and runs by hand that begin beside the scheduled one.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import lakefs
import pytest

from dredge.gc import steps
from dredge.gc.run import RUNS, open_state
from dredge.gc.state import RunState, StateStore
from dredge.lakefs import LakeFSClient
from dredge.runs.clock import BEGINNING, Coverage
from dredge.runs.payload import from_json
from dredge.runs.tasks import LocalRunner
from dredge.xid import new_descending_xid
from tests.support.depth import IS_LONG, depth
from tests.support.lakefs_server import KEY_PAIR, Lake, lakefs_server
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # each wait ends before, and says what happened

DAY = timedelta(days=1)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = depth(2, 7)
WINDOWS = [(TODAY - n * DAY, TODAY - (n - 1) * DAY) for n in range(DAYS + 1, 1, -1)]
SLICE_AFTER = timedelta(hours=7)
FAILING = depth(0, 2)
CONF: dict[str, Any] = {
    "unsafe_min_age_seconds": 1,
    "unsafe_grace_seconds": 0,
    "max_delete_percent": None,
    "slice_margin_hours": 26,
}
HAS_THE_LEASE = "select 1 from task_instance where task_id = 'acquire_lease' and state = 'success'"
WAIT = 400 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))


@dataclass
class Days:
    lake: Lake
    folder: Path
    live: set[str]
    garbage: dict[datetime, str]

    @property
    def client(self) -> LakeFSClient:
        return LakeFSClient(self.lake.server.endpoint, KEY_PAIR.access_key_id, KEY_PAIR.secret_access_key)

    def present(self) -> set[str]:
        return {
            str(path.relative_to(self.folder)) for path in (self.folder / "data").rglob("*") if path.is_file()
        }

    def state(self) -> RunState:
        namespace = self.lake.namespace("lake")
        state = (
            StateStore(open_state(namespace)).current("lake", self.client.repository("lake").namespace).state
        )
        assert state is not None
        return state

    def plans(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in (self.folder / RUNS).glob("*/plan.json")]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    root = tmp_path_factory.mktemp("lake")
    with lakefs_server(root) as lake:
        lake.repository("lake")
        days = Days(lake, root / "objects" / "lake", set(), {})
        for number, (begin, _) in enumerate(WINDOWS):
            at = begin + SLICE_AFTER
            slice_folder = f"data/{new_descending_xid(at)}"
            for name, size in (
                (f"{slice_folder}/live", 100 + number),
                (f"{slice_folder}/garbage", 200 + number),
            ):
                path = days.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * size)
                os.utime(path, (at.timestamp(), at.timestamp()))
            lake.stage("lake", "main", f"day-{number}", f"{slice_folder}/live", size_bytes=100 + number)
            days.live.add(f"{slice_folder}/live")
            days.garbage[begin] = f"{slice_folder}/garbage"
        lakefs.Repository("lake", lake.client).branch("main").commit("days")
        _collected_before(days)
        yield days


def _collected_before(days: Days) -> None:
    config = steps.GCConfig(
        repository="lake",
        dry_run=False,
        unsafe_min_age_seconds=1,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
        slice_margin_hours=26,
        max_delete_objects=0,
    )
    hidden = {name: (days.folder / name).read_bytes() for name in days.garbage.values()}
    times = {name: (days.folder / name).stat().st_mtime for name in hidden}
    for name in hidden:
        (days.folder / name).unlink()
    time.sleep(1.1)
    steps.collect(config, LocalRunner(), days.client)
    for name, data in hidden.items():
        (days.folder / name).write_bytes(data)
        os.utime(days.folder / name, (times[name], times[name]))
    store = StateStore(open_state(days.lake.namespace("lake")))
    before = store.current("lake", days.client.repository("lake").namespace)
    assert before.state is not None
    covered = Coverage(((BEGINNING, WINDOWS[0][0]),))
    store.advance(replace(before.state, covered=covered), before)


@pytest.fixture(scope="module")
def marker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("marker") / "fail"


@pytest.fixture(scope="module")
def airflow(
    days: Days, marker: Path, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveAirflow]:
    connection = {
        "conn_type": "lakefs",
        "host": days.lake.server.endpoint,
        "login": KEY_PAIR.access_key_id,
        "password": KEY_PAIR.secret_access_key,
    }
    environ = {"AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(connection), "DREDGE_TEST_FAIL": str(marker)}
    home = tmp_path_factory.mktemp("airflow") / "home"
    with live_airflow(home, postgres, environ) as running:
        yield running


def test_backfill_beside_a_schedule_and_runs_by_hand(days: Days, airflow: LiveAirflow, marker: Path) -> None:
    # The scheduled run of yesterday starts as soon as the DAG is unpaused, and the others come beside it. Came
    # the backfill first, the scheduled run would wait for the last window.
    marker.write_text(f"backfill__{WINDOWS[FAILING][1]:%Y-%m-%d}")
    airflow.wait("the DAGs", lambda: len(airflow.rows("select 1 from serialized_dag")) == 3, WAIT)
    for dag_id in ("gc_windows", "lakefs_gc"):
        airflow.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
    airflow.wait("the scheduled run", lambda: airflow.rows(HAS_THE_LEASE), WAIT)
    backfill = airflow.call(
        "POST",
        "/api/v2/backfills",
        {
            "dag_id": "gc_windows",
            "from_date": WINDOWS[0][0].isoformat(),
            "to_date": WINDOWS[-1][0].isoformat(),
            "max_active_runs": 10,
            "reprocess_behavior": "failed",
            "dag_run_conf": {},
        },
    )
    by_hand = {
        airflow.trigger(dag_id, date, CONF | {"repository": "lake", "dry_run": True})
        for dag_id, date in (("gc_windows", None), ("lakefs_gc", datetime.now(UTC)))
        if IS_LONG
    }

    windows = [
        run_id
        for (run_id,) in airflow.rows(
            "select run_id from dag_run where backfill_id = %s order by logical_date", backfill["id"]
        )
    ]
    assert len(windows) == DAYS

    def states() -> dict[str, str]:
        return dict(airflow.rows("select run_id, state from dag_run"))

    # All are active, one fails, and what comes after it waits for it.
    airflow.wait("the failed window", lambda: states()[windows[FAILING]] == "failed", WAIT)
    airflow.wait("the runs by hand", lambda: all(states()[run_id] == "success" for run_id in by_hand), WAIT)
    in_between = airflow.trigger("lakefs_gc", None, CONF | {"repository": "lake", "dry_run": True})
    airflow.wait("a run beside what is blocked", lambda: states()[in_between] == "success", WAIT)
    now = states()
    assert [now[run_id] for run_id in windows[:FAILING]] == ["success"] * FAILING
    assert [now[run_id] for run_id in windows[FAILING + 1 :]] == ["running"] * (DAYS - 1 - FAILING)
    started = airflow.rows(
        "select run_id from task_instance where run_id = any(%s) and start_date is not null",
        windows[FAILING + 1 :],
    )
    assert started == []

    # Cleared, it starts over with a plan of its own, and the rest follows. Its first plan's lease is lost: another
    # run worked in between.
    marker.unlink()
    airflow.call(
        "POST",
        "/api/v2/dags/gc_windows/clearTaskInstances",
        {"dag_run_id": windows[FAILING], "dry_run": False, "only_failed": False, "reset_dag_runs": True},
    )
    airflow.wait("the backfill", lambda: all(states()[run_id] == "success" for run_id in windows), WAIT)
    airflow.wait("all runs", lambda: set(states().values()) == {"success"}, WAIT)

    _assert_apart(days, airflow, windows[FAILING], 1 + DAYS + len(by_hand) + 1)
    _assert_complete(days)


def _assert_apart(days: Days, airflow: LiveAirflow, failed: str, runs: int) -> None:
    """No run's work overlaps or interleaves with another's; only the one that failed worked in two goes."""
    # The report gives the lease back before its task ends, so only its begin counts.
    work = airflow.rows(
        "select run_id, start_date, case when task_id = 'save_report' then start_date else end_date end from ("
        "  select run_id, task_id, start_date, end_date from task_instance"
        "  union all select run_id, task_id, start_date, end_date from task_instance_history) as tries"
        " where task_id not in ('check', 'acquire_lease', 'release_lease')"
        " and start_date is not null order by start_date"
    )
    overlaps = [(one, two) for one, two in pairwise(work) if one[0] != two[0] and two[1] < one[2]]
    assert overlaps == []
    goes = Counter(run_id for run_id, _ in groupby(work, key=lambda row: row[0]))
    # Where midnight passes meanwhile, there is a scheduled run of the new day as well.
    of_today = {run_id for run_id in goes if run_id < f"scheduled__{TODAY + DAY:%Y-%m-%d}"}
    assert len(of_today) == runs
    assert {run_id: count for run_id, count in goes.items() if count > 1} == {failed: 2}
    fencing = [plan["lease"]["fencing"] for plan in days.plans()]
    assert len(fencing) == len(goes) + 2  # the clean run before all, and two plans of the failed one,
    assert len(set(fencing)) == len(goes) + 1  # of which the first was handed the right of the second


def _assert_complete(days: Days) -> None:
    planned = {plan["config"]["window_begin"]: plan["mode"] for plan in days.plans()}
    for begin, _ in [*WINDOWS, (TODAY - DAY, TODAY)]:
        assert planned[begin.isoformat()] == "optimized", begin
    for plan in days.plans():  # no dry run and no other run had covered it before
        begin = plan["config"]["window_begin"]
        if begin is not None and datetime.fromisoformat(begin) < WINDOWS[-1][0]:
            slices = datetime.fromisoformat(begin) + SLICE_AFTER
            assert not from_json(Coverage, plan["covered"]).has(slices), begin
    (covered,) = days.state().covered.intervals
    assert covered[0] == BEGINNING
    # Of the last window a run soon after midnight leaves what may still grow.
    assert covered[1] >= min(WINDOWS[-1][1], TODAY - timedelta(hours=CONF["slice_margin_hours"]))
    assert days.present() == days.live
