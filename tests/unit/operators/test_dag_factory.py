"""DAGs from the factory, schedules and data windows, and DAGs of a Variable."""

import gc
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID

from airflow_dredge.operators.dag_factory import About, Many, many_dag
from airflow_dredge.operators.lakefs.many import (
    LakeFSChooseRepositoriesOperator,
    LakeFSCollectRepositoryOperator,
    LakeFSSaveSummaryOperator,
)
from airflow_dredge.operators.lakefs.params import (
    ALL_FORM,
    FORM,
    GC_SCHEDULES,
    WHICH,
    repository_settings,
)
from airflow_dredge.operators.schedules import (
    NO_BACKFILLS,
    data_window,
    of_this_parse,
    read_schedules,
    read_settings,
    run_types,
    schedule_arguments,
)
from dredge.errors import ConfigError

ABOUT = About(doc="words", tags=["lakefs"], default_args={"retries": 3})
MANY = Many(
    choose=LakeFSChooseRepositoriesOperator,
    collect=LakeFSCollectRepositoryOperator,
    summary=LakeFSSaveSummaryOperator,
    which=WHICH,
    asset="dredge_lakefs_gc_all",
)


def all_dag(schedule: str | None = None, **settings: Any) -> DAG:
    return many_dag("all", MANY, ALL_FORM, ABOUT, schedule, **settings)


def kinds_of_runs(dag: DAG) -> set[str]:
    return {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types or ()}


def test_a_dag_with_a_schedule_waits_until_somebody_switches_it_on_and_has_no_backfills() -> None:
    by_hand, daily = all_dag(), all_dag("@daily")
    assert (by_hand.is_paused_upon_creation, daily.is_paused_upon_creation) == (None, True)
    for dag in (by_hand, daily):
        assert "backfill" not in kinds_of_runs(dag)
        assert {"manual", "scheduled"} <= kinds_of_runs(dag)


BY_HAND = {"manual", "operator_triggered", "asset_triggered"}
LAKE: dict[str, Any] = {"schedule": "@hourly", "repository": "lake"}


def test_only_a_dag_whose_runs_have_intervals_can_be_backfilled() -> None:
    assert set(run_types(None)) == BY_HAND
    assert set(run_types("@daily")) == BY_HAND | {"scheduled", "backfill"}
    assert set(NO_BACKFILLS) == BY_HAND | {"scheduled"}
    assert schedule_arguments(None)["allowed_run_types"] == run_types(None)


END = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end", "has_one"),
    [
        (END - timedelta(days=1), END, True),
        (END, END, False),
        (END, END - timedelta(days=1), False),
        (None, END, False),
        (END, None, False),
    ],
)
@pytest.mark.parametrize("kind", ["scheduled", "backfill", "manual"])
def test_a_window_has_a_begin_and_a_later_end(
    kind: str, begin: datetime | None, end: datetime | None, has_one: bool
) -> None:
    context: Any = {
        "dag_run": SimpleNamespace(run_type=kind),
        "data_interval_start": begin,
        "data_interval_end": end,
    }
    window = (begin, end) if has_one and kind != "manual" else None
    assert data_window(context) == window


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda value: monkeypatch.setenv("AIRFLOW_VAR_SCHEDULES", value)


def settings(named: Any, **entries: Any) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    named(json.dumps(entries))
    return read_settings("schedules", "repository", FORM)


@pytest.mark.parametrize("text", ["{", "[]", '{"gc": "@daily"}', json.dumps({"gc lake": LAKE})])
def test_a_variable_that_says_something_else_is_told(named: Any, text: str) -> None:
    named(text)
    with pytest.raises(ConfigError):
        read_schedules("schedules", "repository")


def test_a_task_of_one_dag_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    both: dict[str, dict[str, Any]] = {"often": {"a": 1}, "clean": {"a": 2}}
    frozen = gc.get_freeze_count()
    assert of_this_parse(both) == both
    assert gc.get_freeze_count() <= frozen, "a process with all DAGs lives on"
    for dag_id, found in (("clean", {"clean": {"a": 2}}), ("lakefs_gc", {})):
        monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, dag_id)
        assert of_this_parse(both) == found
    assert gc.get_freeze_count() > frozen, "the process of a task ends soon, and searches for few cycles"


def test_entries_that_agree_about_a_repository_are_one(named: Any) -> None:
    ours, conflicts = settings(
        named,
        often=LAKE | {"dry_run": "False", "mode": "optimized"},
        clean=LAKE | {"dry_run": False, "mode": "clean", "schedule": "@weekly", "repository": "lake/"},
        pond=LAKE | {"repository": "pond"},
    )
    assert ours == {"lake": {"repository": "lake", "dry_run": False}, "pond": {"repository": "pond"}}
    assert conflicts == {}


def test_an_entry_that_differs_or_cannot_be_read_takes_its_repository_out_and_no_other(named: Any) -> None:
    ours, conflicts = settings(
        named,
        often=LAKE | {"dry_run": False},
        later=LAKE,
        vague=LAKE | {"repository": "tarn", "dry_run": "perhaps"},
        right=LAKE | {"repository": "sea", "max_delete_objects": "7"},
    )
    assert set(conflicts) == {"lake", "tarn"}
    assert ours["sea"] == {"repository": "sea", "max_delete_objects": 7}
    assert "tarn" not in ours


ROOT = Path(__file__).resolve().parents[3]
NAME = f"AIRFLOW_VAR_{GC_SCHEDULES.upper()}"
SCHEDULED = {"schedule": "@hourly", "repository": "lake", "dry_run": False, "slice_margin_hours": 60}


def dags(monkeypatch: pytest.MonkeyPatch, value: Any) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv(NAME, json.dumps(value))
    return DagBag(dag_folder=str(ROOT / "dags" / "lakefs_gc.py"))


def test_each_entry_is_a_dag_that_can_be_backfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = dags(
        monkeypatch,
        {"gc_lake": SCHEDULED, "gc_pond": SCHEDULED | {"repository": "pond", "schedule": "0 3 * * *"}},
    )
    assert bag.import_errors == {}
    assert set(bag.dags) == {"lakefs_gc", "gc_lake", "gc_pond"}
    dag = bag.dags["gc_lake"]
    assert (dag.params["repository"], dag.params["dry_run"], dag.params["mode"]) == ("lake", False, "auto")
    assert dag.params["slice_margin_hours"] == 60
    assert dag.get_task("check").depends_on_past
    assert not bag.dags["lakefs_gc"].get_task("check").depends_on_past


def test_a_wrong_entry_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = dags(monkeypatch, {"gc": SCHEDULED | {"dryrun": False}})
    assert len(bag.import_errors) == 1
    assert bag.dags == {}


def test_an_entry_has_the_pool_of_its_tasks_and_settings_of_all_repositories_lack_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = SCHEDULED | {"default_args": {"pool": "gc", "execution_timeout": 7200}}
    dag = dags(monkeypatch, {"gc_lake": entry}).dags["gc_lake"]
    assert {task.pool for task in dag.tasks} == {"gc"}
    assert dag.get_task("subtract").execution_timeout.total_seconds() == 7200
    assert "default_args" not in repository_settings()[0]["lake"]
    wrong = dags(monkeypatch, {"gc_lake": SCHEDULED | {"default_args": {"pol": "gc"}}})
    assert len(wrong.import_errors) == 1
