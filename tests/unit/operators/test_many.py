"""Tasks for many repositories: settings of each run, start, wait, summary."""

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    DagRunTriggerException,
    TaskDeferred,
)

from airflow_dredge.operators.failures import FAILURE
from airflow_dredge.operators.lakefs.many import (
    LakeFSChooseRepositoriesOperator,
    LakeFSCollectRepositoryOperator,
    LakeFSSaveSummaryOperator,
)
from airflow_dredge.operators.lakefs.params import ALL_FORM, GC_SCHEDULES, gc_params
from airflow_dredge.operators.many import LEFT_OUT, SUMMARY_ROOT, AllCollectedOperator
from airflow_dredge.operators.params import make_params
from airflow_dredge.operators.reporting import REPORT
from dredge.errors import ConfigError, RefusedError
from dredge.lakefs import Repository
from dredge.storage import open_reader
from tests.support.gc import make_world
from tests.support.lakefs_operators import Pushed

PARTS = [[{"trigger_run_id": "a"}, {"trigger_run_id": "b"}], [{"trigger_run_id": "c"}]]


def decide(runs: Any, collected: Any) -> int:
    ti = Pushed()
    ti.task_id = "all_collected"
    context: Any = {"ti": ti}
    return AllCollectedOperator(task_id="all_collected", runs=runs, collected=collected).execute(context)


def test_a_run_is_good_where_each_repository_was_collected() -> None:
    assert decide(PARTS, [["a", "b"], ["c"]]) == 3
    assert decide([], None) == 0, "a server without repositories"


@pytest.mark.parametrize("collected", [None, [], [["a", "b"]], [["a"], ["c"]]])
def test_a_run_is_not_good_where_one_was_not(collected: Any) -> None:
    with pytest.raises(RefusedError):
        decide(PARTS, collected)


def test_a_run_is_not_good_where_none_was_chosen() -> None:
    with pytest.raises(RefusedError):
        decide(None, None)


NAME = f"AIRFLOW_VAR_{GC_SCHEDULES.upper()}"
LAKE = {"schedule": "@hourly", "repository": "lake", "dry_run": False}


type Choose = Callable[..., tuple[list[list[dict[str, Any]]], Pushed]]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Run the task for a server with some repositories; returns its result and what it pushes."""

    def run(variable: Any = None, names: Sequence[str] = ("lake", "pond"), **params: Any) -> Any:
        monkeypatch.delenv(NAME, raising=False)
        if variable is not None:
            monkeypatch.setenv(NAME, variable if isinstance(variable, str) else json.dumps(variable))
        operator = LakeFSChooseRepositoriesOperator(task_id="choose_repositories", which={})
        found = [Repository(name, f"memory://choosing/{name}", "main", False) for name in names]
        operator.hook = SimpleNamespace(client=SimpleNamespace(repositories=lambda: found))
        operator.aws_conn_id = None
        pushed = Pushed()
        pushed.task_id = "choose_repositories"
        context: Any = {
            "ti": pushed,
            "params": {name: param.value for name, param in make_params(ALL_FORM, {}).items()} | params,
            "run_id": "manual__1",
            "dag_run": SimpleNamespace(dag_id="lakefs_gc_all"),
        }
        return operator.execute(context), pushed

    return run


def test_each_repository_is_started_with_the_forms_values(choose: Choose) -> None:
    parts, pushed = choose(min_age_hours=48.0)
    runs = [run for part in parts for run in part]
    assert [run["conf"]["repository"] for run in runs] == ["lake", "pond"]
    assert [run["trigger_run_id"].rpartition("__")[0] for run in runs] == [
        "lakefs_gc_all__manual__1__lake",
        "lakefs_gc_all__manual__1__pond",
    ]
    assert {run["conf"]["min_age_hours"] for run in runs} == {48.0}
    assert pushed["choose_repositories", LEFT_OUT] == {}
    assert pushed["choose_repositories", SUMMARY_ROOT].startswith("memory://choosing/lake/")


def test_what_a_run_is_started_with_are_params_of_its_dag(choose: Choose) -> None:
    parts, _ = choose({"gc_lake": LAKE | {"min_age_hours": "30", "max_delete_objects": 7}})
    params = gc_params()
    for (run,) in parts:
        assert run["conf"].keys() == params.keys() - {"check_only"}
        for name, value in run["conf"].items():
            params[name].resolve(value)
    conf = parts[0][0]["conf"]
    assert (conf["min_age_hours"], conf["max_delete_objects"]) == (30.0, 7)


@pytest.mark.parametrize(
    ("form", "entry", "dry_run"),
    [
        (True, None, True),
        (False, None, False),
        (True, LAKE, True),
        (False, LAKE, False),
        (False, LAKE | {"dry_run": True}, True),
        (False, {"schedule": "@daily", "repository": "lake"}, True),
    ],
)
def test_a_run_deletes_only_when_neither_form_nor_variable_says_dry_run(
    choose: Choose, form: bool, entry: Any, dry_run: bool
) -> None:
    parts, _ = choose(None if entry is None else {"gc_lake": entry}, dry_run=form)
    assert parts[0][0]["conf"]["dry_run"] is dry_run


def test_a_run_that_is_there_is_not_done_again_when_the_variable_says_something_else_by_now(
    choose: Choose,
) -> None:
    """Airflow would repeat it with its old settings: delete, though it is a dry run now."""
    deletes, same, dry = (
        choose({"gc_lake": LAKE | {"dry_run": dry_run}}, dry_run=False)[0] for dry_run in (False, False, True)
    )
    assert deletes == same
    assert deletes[0][0]["trigger_run_id"] != dry[0][0]["trigger_run_id"]
    assert deletes[1] == dry[1], "the other repository's settings are the same"


@pytest.mark.parametrize(
    "variable",
    [
        {"often": LAKE, "clean": LAKE | {"schedule": "@weekly", "max_delete_objects": 5}},
        {"gc_lake": LAKE | {"min_age_hours": 1}},
    ],
    ids=["schedules differ", "a wrong value"],
)
def test_schedules_that_differ_about_a_repository_leave_it_out(choose: Choose, variable: Any) -> None:
    parts, pushed = choose(variable)
    assert [run["conf"]["repository"] for part in parts for run in part] == ["pond"]
    assert set(pushed["choose_repositories", LEFT_OUT]) == {"lake"}


@pytest.mark.parametrize(
    "variable", [{"gc_lake": LAKE | {"keep_tag": True}}, '{"gc_lake": {"dry_run": true}']
)
def test_an_unknown_name_in_the_settings_of_one_repository_starts_no_run(
    choose: Choose, variable: Any
) -> None:
    """The settings may say that it is a dry run."""
    with pytest.raises(ConfigError):
        choose(variable, dry_run=False)


def test_more_repositories_than_airflow_makes_tasks_of_a_list_are_collected_in_parts(
    choose: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"repo-{number:04}" for number in range(1030)]
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "300")
    parts, _ = choose(names=names)
    assert len(parts) <= 300
    assert [run["conf"]["repository"] for part in parts for run in part] == names
    assert {len(part) for part in parts} <= {4, 2}
    assert [len(part) for part in choose()[0]] == [1, 1]
    assert choose(names=())[0] == []


RUN, NEXT = "lakefs_gc_all__manual__1__lake", "lakefs_gc_all__manual__1__pond"
TIMED_OUT = {"error": "Trigger timeout"}


class Runs:
    task_id, map_index = "collect_repository", 7

    def __init__(self, **states: str) -> None:
        self.states = states
        self.xcoms: dict[str, Any] = {}

    def get_dr_count(self, dag_id: str, run_ids: list[str]) -> int:
        assert dag_id == "lakefs_gc"
        return sum(run_id in self.states for run_id in run_ids)

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return self.states[run_id]

    def get_dag(self, dag_id: str) -> Any:
        class Dag:
            is_paused = "paused" in self.states

        return Dag()

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def xcom_pull(self, key: str, task_ids: str, map_indexes: int) -> Any:
        assert (task_ids, map_indexes) == (self.task_id, self.map_index), "those of this task alone"
        return self.xcoms[key]


def operator(*names: str) -> LakeFSCollectRepositoryOperator:
    runs = [{"trigger_run_id": name, "conf": {"repository": name[-4:]}} for name in names or (RUN,)]
    return LakeFSCollectRepositoryOperator(task_id="collect_repository", runs=runs)


def execute(*names: str, **states: str) -> Any:
    context: Any = {"ti": Runs(**states)}
    return operator(*names).execute(context)


def told(ti: Runs, name: str, *names: str) -> Any:
    context: Any = {"ti": ti}
    event = ("DagStateTrigger", {"run_ids": [name], name: ti.states.get(name)})
    return operator(*names).resume_execution("execute_complete", {"event": event}, context)


def test_the_first_try_starts_the_run_and_waits_in_the_triggerer() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute()
    started = asked.value
    assert (started.trigger_dag_id, started.dag_run_id) == ("lakefs_gc", RUN)
    assert started.conf == {"repository": "lake"}
    assert started.wait_for_completion
    assert started.deferrable
    assert not started.reset_dag_run
    assert {"queued", "running"} <= set(started.allowed_states), "else its wait knows no end"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_try_that_died_is_followed_by_one_that_waits_for_the_same_run(state: str) -> None:
    with pytest.raises(TaskDeferred) as waiting:
        execute(**{RUN: state})
    assert waiting.value.method_name == "execute_complete"
    assert waiting.value.trigger.run_ids == [RUN]


def test_a_run_that_has_ended_well_is_not_started_again() -> None:
    assert execute(**{RUN: "success"}) == [RUN]


def test_a_run_that_failed_is_done_again_when_the_task_is_cleared() -> None:
    with pytest.raises(DagRunTriggerException) as asked:
        execute(**{RUN: "failed"})
    assert asked.value.reset_dag_run


def test_a_run_that_failed_is_not_tried_again_by_itself() -> None:
    with pytest.raises(AirflowFailException):
        told(Runs(**{RUN: "failed"}), RUN)
    assert told(Runs(**{RUN: "success"}), RUN) == [RUN]


def test_nothing_is_started_of_a_dag_that_is_paused() -> None:
    with pytest.raises(AirflowException):
        execute(paused="yes")


def test_a_run_that_a_person_deleted_is_noticed_within_minutes() -> None:
    ti = Runs(**{RUN: "running"})
    with pytest.raises(TaskDeferred) as waiting:
        told(ti, RUN)
    assert waiting.value.timeout is not None
    assert waiting.value.timeout.total_seconds() <= 300
    context: Any = {"ti": ti}
    with pytest.raises(TaskDeferred):  # it is still at work
        operator().resume_execution("__fail__", dict(TIMED_OUT), context)
    del ti.states[RUN]
    with pytest.raises(AirflowFailException):
        operator().resume_execution("__fail__", dict(TIMED_OUT), context)


@pytest.mark.parametrize("became", ["success", "failed", None])
def test_the_next_run_of_a_part_begins_whatever_became_of_the_one_before(became: str | None) -> None:
    ti = Runs(**{} if became is None else {RUN: became})
    with pytest.raises(DagRunTriggerException) as asked:
        told(ti, RUN, RUN, NEXT)
    assert (asked.value.dag_run_id, asked.value.reset_dag_run) == (NEXT, False)
    assert asked.value.conf == {"repository": "pond"}


@pytest.mark.parametrize("became", ["failed", None])
def test_a_part_is_good_only_where_all_its_runs_are(became: str | None) -> None:
    ti = Runs(**{NEXT: "success"} | ({} if became is None else {RUN: became}))
    with pytest.raises(AirflowFailException):
        told(ti, NEXT, RUN, NEXT)
    ti.states[RUN] = "success"
    assert told(ti, NEXT, RUN, NEXT) == [RUN, NEXT]


def test_the_list_of_tasks_names_their_repositories() -> None:
    assert operator().label == "lake"
    assert operator(RUN, NEXT).label == "lake … pond (2)"


OUTLET = "dredge_lakefs_gc_all"
ROOT = "memory://pages-of-all"


class Pulled(dict[Any, Any]):
    """XComs by run, task and key; those of this run by task and key."""

    dag_id = "lakefs_gc"

    def xcom_push(self, key: str, value: Any) -> None:
        self["save_summary", key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value", **where: Any) -> Any:
        if not where:
            return self.get((task_ids, key))
        assert where.pop("dag_id") == self.dag_id
        assert where.pop("map_indexes") is None, "else Airflow looks for the index of this task"
        return self.get((where.pop("run_id"), task_ids, key))


def run_of(repository: str) -> dict[str, Any]:
    return {"conf": {"repository": repository}, "trigger_run_id": f"run of {repository}"}


def saved(xcoms: dict[Any, Any], *repositories: str, **settings: Any) -> tuple[dict[str, Any], Any, Pulled]:
    operator = LakeFSSaveSummaryOperator(
        task_id="save_summary",
        runs=[[run_of(name) for name in repositories], []],
        outlets=[OUTLET],
        **settings,
    )
    operator.aws_conn_id = None
    event = SimpleNamespace(extra=None)
    ti = Pulled({("choose_repositories", SUMMARY_ROOT): ROOT} | xcoms)
    ti.dag_id = operator.collect_dag_id
    context: Any = {"ti": ti, "run_id": "manual__2026-01-01T00:00:00+00:00", "outlet_events": {OUTLET: event}}
    return operator.execute(context), event.extra, ti


def collected() -> str:
    world = make_world()
    world.upload("kept", b"kept")
    world.orphan("data/orphan")
    world.age(days=2)
    context = world.plan()
    world.run(context)
    return context.plan.run_uri


def test_the_page_and_the_event_tell_of_every_repository() -> None:
    xcoms: dict[Any, Any] = {
        ("run of lake", "plan", "return_value"): {"run_uri": collected()},
        ("run of pond", "save_report", FAILURE): "the run came to no plan: no key pair",
        ("run of tarn", "acquire_lease", FAILURE): "lease.json is not a lease",
        ("choose_repositories", LEFT_OUT): {"sea": "another collector works on it"},
    }
    figures, event, told = saved(xcoms, "lake", "pond", "tarn")
    assert event == figures
    assert (figures["repositories"], figures["collected_repositories"]) == (4, 1)
    assert (figures["failed_repositories"], figures["left_out_repositories"]) == (2, 1)
    assert (figures["deleted_objects"], figures["deleted_bytes"]) == (1, 6)
    folder, _, name = figures[REPORT].rpartition("/")
    assert open_reader(folder).get(name)
    assert told["save_summary", REPORT] == figures[REPORT]
