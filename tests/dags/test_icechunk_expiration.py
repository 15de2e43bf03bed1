"""The icechunk_expiration DAG: its order, its form, and whole runs in this process."""

from __future__ import annotations

import itertools
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_dredge.operators.icechunk import plan_expiration
from airflow_dredge.operators.icechunk.acquire_lease import IcechunkAcquireLeaseOperator
from airflow_dredge.operators.icechunk.collect import IcechunkCollectOperator
from airflow_dredge.operators.icechunk.expire import IcechunkExpireOperator
from airflow_dredge.operators.icechunk.params import icechunk_params
from airflow_dredge.operators.icechunk.plan_collection import IcechunkPlanCollectionOperator
from airflow_dredge.operators.icechunk.plan_expiration import IcechunkPlanExpirationOperator
from airflow_dredge.operators.icechunk.save_report import IcechunkSaveReportOperator
from dredge.errors import ConfigError, RefusedError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.planning import plan_collection
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import release_lease
from dredge.icechunk.format.snapshots import instant
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.storage import open_reader
from tests.support.airflow import FILTERS, Airflow
from tests.support.icechunk import build, contents, graph_of, local_storage, objects, quiet, scenarios

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "acquire_lease",
    "plan_expiration",
    "expire",
    "plan_collection",
    "mark",
    "approve",
    "collect",
    "save_report",
    "run_complete",
    "release_lease",
)

pytestmark = [pytest.mark.dags, *(pytest.mark.filterwarnings(line) for line in FILTERS)]


@pytest.fixture(scope="module")
def dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / "icechunk_expiration.py"))
    assert bag.import_errors == {}
    return bag.dags["icechunk_expiration"]


def after(dag: DAG, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = dag.get_task(waiting.pop()).downstream_task_ids - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(ORDER, 2)))
def test_each_step_waits_for_every_earlier_one(dag: DAG, earlier: str, later: str) -> None:
    assert set(dag.task_ids) == set(ORDER)
    assert later in after(dag, earlier)


@pytest.mark.parametrize("task_id", [name for name in ORDER if name != "run_complete"])
def test_a_task_names_the_module_of_its_operator(dag: DAG, task_id: str) -> None:
    assert type(dag.get_task(task_id)).__module__ == f"airflow_dredge.operators.icechunk.{task_id}"


def test_params_are_these(dag: DAG) -> None:
    """Their names are a public interface: triggers and DAG files of users have them."""
    assert set(dag.params) == {
        "storage",
        "keep_lost_days",
        "keep_old_refs",
        "older_than",
        "rule",
        "delete_expired_branches",
        "delete_expired_tags",
        "estimate",
        "collect",
        "collect_mode",
        "dry_run",
        "mode",
        "clean_every_days",
        "min_age_hours",
        "unsafe_min_age_seconds",
        "grace_hours",
        "overwritten_min_age_hours",
        "keep_chunks",
        "keep_transactions",
        "inventory",
        "undo",
        "keep_runs_days",
        "max_delete_objects",
        "max_delete_bytes",
        "max_delete_percent",
        "approval",
        "approval_hours",
        "approvers",
        "run_root",
        "spark_engine",
    }


def test_nothing_is_done_after_a_failure_but_the_report_and_giving_the_lease_back(dag: DAG) -> None:
    assert dag.get_task("save_report").trigger_rule == "all_done"
    assert dag.get_task("release_lease").is_teardown
    for task_id in (
        "plan_expiration",
        "expire",
        "plan_collection",
        "mark",
        "approve",
        "collect",
        "run_complete",
    ):
        assert dag.get_task(task_id).trigger_rule == "all_success"


def test_nobody_who_is_asked_keeps_a_worker_and_no_answer_is_a_no(dag: DAG) -> None:
    approve = dag.get_task("approve")
    assert (approve.options, approve.defaults) == (["Approve", "Reject"], ["Reject"])
    assert not approve.fail_on_reject
    assert set(approve.template_fields) == {"run_uri"}, "names from a lake are never rendered as templates"


@pytest.fixture(scope="module")
def scheduled() -> DAG:
    from airflow_dredge.dags.icechunk_expiration import icechunk_dag

    return icechunk_dag("expire_weather", "@daily", storage="s3://lake/weather", dry_run=False)


def test_a_schedule_can_be_backfilled_a_run_at_a_time_and_runs_by_hand_cannot(
    dag: DAG, scheduled: DAG
) -> None:
    def kinds(found: DAG) -> set[str]:
        return {str(getattr(item, "value", item)) for item in found.allowed_run_types or ()}

    assert {"backfill", "scheduled", "manual"} <= kinds(scheduled)
    assert "backfill" not in kinds(dag)
    assert (scheduled.max_active_runs, scheduled.catchup) == (1, False)
    assert scheduled.timetable == CronDataIntervalTimetable("@daily", timezone="UTC")
    assert (scheduled.is_paused_upon_creation, dag.is_paused_upon_creation) == (True, None)


def test_runs_on_a_schedule_follow_each_other_and_one_that_failed_blocks_the_next(
    dag: DAG, scheduled: DAG
) -> None:
    first = scheduled.get_task("acquire_lease")
    assert first.depends_on_past
    assert first.wait_for_downstream
    assert {"run_complete", "release_lease"} <= first.downstream_task_ids
    assert scheduled.get_task("run_complete").upstream_task_ids == {"acquire_lease", "save_report"}
    assert not dag.get_task("acquire_lease").depends_on_past


def test_who_waits_for_the_repository_keeps_no_worker(scheduled: DAG) -> None:
    first = scheduled.get_task("acquire_lease")
    assert first.reschedule
    assert first.timeout >= 3600


def test_form_asks_for_the_repository_and_is_a_dry_run() -> None:
    params = icechunk_params()
    assert params["dry_run"].value is True
    assert params["min_age_hours"].value == 168
    assert all(param.schema["description_md"] for param in params.values())
    assert icechunk_params(storage="s3://lake/x")["storage"].value == "s3://lake/x"
    with pytest.raises(TypeError, match="no such Param: speed"):
        icechunk_params(speed=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("made") / "repo"
    return folder, build(local_storage(folder), graph_of(scenarios()[0]), 1)


@pytest.fixture
def repo(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture
def when(made: tuple[Path, dict[str, str]]) -> str:
    snapshots = read_history(open_reader(f"file://{made[0]}")).snapshots
    ids = made[1]
    return instant((snapshots[ids["7"]].flushed_at + snapshots[ids["8"]].flushed_at) // 2).isoformat()


def conf(repo: Path, when: str, **changes: Any) -> dict[str, Any]:
    settings = {"collect_mode": "local", "dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0}
    return {"storage": f"file://{repo}", "older_than": when, **settings, **changes}


def test_run_expires_and_collects_and_every_ref_reads_back(airflow: Airflow, repo: Path, when: str) -> None:
    library = quiet().Repository.open(local_storage(repo))
    before = {name: contents(library, branch=name) for name in library.list_branches()}
    run = airflow.run("icechunk_expiration", conf(repo, when))
    assert run.state == "success", run.tasks
    assert run.returned["plan_expiration"]["would_free_bytes"] > 0
    assert run.returned["expire"]["edited"] == 6
    assert run.returned["collect"]["counts"]["deleted_objects"] == 20
    assert run.returned["save_report"]["outcome"] == "success"
    assert (
        Path(run.returned["save_report"]["report_uri"].removeprefix("file://"))
        .read_text()
        .startswith("<!DOCTYPE")
    )
    reopened = quiet().Repository.open(local_storage(repo))
    assert {name: contents(reopened, branch=name) for name in reopened.list_branches()} == before
    make_lease(open_state(f"file://{repo}")).acquire("the next one")


def test_dry_run_changes_and_deletes_nothing(airflow: Airflow, repo: Path, when: str) -> None:
    before, history = objects(repo), read_history(open_reader(f"file://{repo}")).digest
    run = airflow.run("icechunk_expiration", conf(repo, when, dry_run=True))
    assert run.state == "success", run.tasks
    assert objects(repo) == before
    assert read_history(open_reader(f"file://{repo}")).digest == history
    assert run.returned["plan_expiration"]["released"] == 7
    plan = Path(run.returned["plan_expiration"]["plan_uri"].removeprefix("file://"))
    assert (plan / "plan.html").is_file()
    counts = run.returned["save_report"]["counts"]
    assert counts["candidates_objects"] == 20
    assert counts["candidates_bytes"] == run.returned["plan_expiration"]["would_free_bytes"] > 0
    folder = Path(run.returned["plan_collection"]["run_uri"].removeprefix("file://"))
    report = json.loads((folder / "report.json").read_text())
    assert {
        (row["kind"], row["objects"]) for row in report["rows"] if row["verdict"] == "would be deleted"
    } == {
        ("snapshots", 5),
        ("transaction logs", 5),
        ("manifests", 5),
        ("chunks", 5),
    }
    # What it said is what a run then does.
    wet = airflow.run("icechunk_expiration", conf(repo, when))
    assert wet.returned["save_report"]["counts"]["deleted_objects"] == counts["candidates_objects"]
    assert wet.returned["save_report"]["counts"]["deleted_bytes"] == counts["candidates_bytes"]


def test_windows_of_a_backfill_may_be_done_in_any_order_and_twice(
    airflow: Airflow, repo: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window says what leaves history; what is live is always taken as of now."""
    library = quiet().Repository.open(local_storage(repo))
    before = {name: contents(library, branch=name) for name in library.list_branches()}
    ends = [datetime.fromisoformat(when), datetime(2020, 1, 1, tzinfo=UTC), datetime.fromisoformat(when)]
    released, deleted = [], []
    for end in ends:
        window = (end - timedelta(days=1), end)
        monkeypatch.setattr(plan_expiration, "data_window", lambda _, found=window: found)
        run = airflow.run("icechunk_expiration", conf(repo, "0s"))
        assert run.state == "success", run.tasks
        released.append(run.returned["plan_expiration"]["released"])
        deleted.append(run.returned["save_report"]["counts"]["deleted_objects"])
    assert released == [7, 0, 0]
    assert deleted == [20, 0, 0]
    reopened = quiet().Repository.open(local_storage(repo))
    assert {name: contents(reopened, branch=name) for name in reopened.list_branches()} == before


def test_library_collects_when_asked_to(airflow: Airflow, repo: Path, when: str) -> None:
    run = airflow.run("icechunk_expiration", conf(repo, when, collect_mode="library"))
    assert run.state == "success", run.tasks
    assert run.returned["plan_collection"]["counts"]["deleted_snapshots"] == 5
    assert (run.tasks["collect"], run.tasks["save_report"]) == ("skipped", "skipped")


def test_expiration_without_a_collection_deletes_nothing(airflow: Airflow, repo: Path, when: str) -> None:
    before = objects(repo)
    run = airflow.run("icechunk_expiration", conf(repo, when, collect=False))
    assert run.state == "success", run.tasks
    assert objects(repo) == before
    assert run.returned["expire"]["edited"] == 6


def test_held_run_fails_with_nothing_deleted_and_gives_the_lease_back(
    airflow: Airflow, repo: Path, when: str
) -> None:
    before = objects(repo)
    run = airflow.run("icechunk_expiration", conf(repo, when, max_delete_objects=3, approval="never"))
    assert run.state == "failed"
    assert (run.tasks["mark"], run.tasks["collect"]) == ("failed", "upstream_failed")
    assert run.tasks["save_report"] == "failed"
    assert objects(repo) == before
    make_lease(open_state(f"file://{repo}")).acquire("the next one")


def test_a_run_that_has_to_ask_deletes_nothing_where_nobody_can_answer(
    airflow: Airflow, repo: Path, when: str
) -> None:
    before = objects(repo)
    run = airflow.run("icechunk_expiration", conf(repo, when, approval="always"))
    assert run.state == "failed"
    assert (run.tasks["mark"], run.tasks["approve"]) == ("success", "failed")
    assert run.tasks["collect"] == "upstream_failed"
    assert "dredge icechunk approve" in run.failures["approve"]
    assert objects(repo) == before
    make_lease(open_state(f"file://{repo}")).acquire("the next one")


def test_failed_plan_fails_the_run_although_the_report_runs_always(airflow: Airflow, repo: Path) -> None:
    run = airflow.run("icechunk_expiration", conf(repo, "yesterday"))
    assert run.state == "failed"
    assert run.tasks["plan_expiration"] == "failed"
    assert run.tasks["save_report"] == "failed"


def test_steps_without_a_plan_say_where_to_look(repo: Path) -> None:
    storage = f"file://{repo}"
    with pytest.raises(ConfigError, match="an earlier task failed"):
        IcechunkExpireOperator(task_id="e", storage=storage, plan=None).execute({})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an earlier task failed"):
        IcechunkCollectOperator(task_id="c", plan=None).execute({})  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="an earlier task failed"):
        IcechunkSaveReportOperator(task_id="r", storage=storage, plan=None).execute({})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["", "None", "no"])
def test_nothing_vague_is_taken_for_permission(value: str, repo: Path) -> None:
    with pytest.raises(ConfigError, match="dry_run"):
        IcechunkPlanCollectionOperator(
            task_id="p", storage=f"file://{repo}", config={"dry_run": value}
        ).checked()
    with pytest.raises(ConfigError, match="report_only"):
        IcechunkExpireOperator(task_id="e", storage=f"file://{repo}", plan={}, report_only=value).execute({})  # type: ignore[arg-type]


def test_no_task_works_on_a_repository_without_main(repo: Path) -> None:
    (repo / "refs" / "branch.main" / "ref.json").unlink()
    storage, before = f"file://{repo}", objects(repo)
    plan = {
        "threshold": "2100-01-01T00:00:00+00:00",
        "rule": None,
        "delete_expired_branches": True,
        "delete_expired_tags": True,
        "plan_uri": "",
    }
    wet = {"dry_run": False, "unsafe_min_age_seconds": 0, "grace_hours": 0}
    run = plan_collection(CollectConfig(uri=storage, unsafe_min_age_seconds=0)).run_uri
    for task in (
        IcechunkPlanExpirationOperator(task_id="p", storage=storage, config={"older_than": "0s"}),
        IcechunkCollectOperator(task_id="c", plan={"run_uri": run, "mode": "local"}),
    ):
        with pytest.raises(RefusedError, match=r"refs/branch\.main/ref\.json is missing"):
            task.execute({})  # type: ignore[arg-type]
    release_lease(Run.open(run))
    for task in (
        IcechunkExpireOperator(task_id="e", storage=storage, plan=plan, report_only=False),
        IcechunkPlanCollectionOperator(task_id="l", storage=storage, mode="library", config=wet),
    ):
        with pytest.raises(RefusedError, match=r"refs/branch\.main/ref\.json is missing"):
            task.execute({})  # type: ignore[arg-type]
    assert objects(repo) == before


def test_plans_are_dry_runs_unless_told(repo: Path) -> None:
    assert IcechunkPlanCollectionOperator(task_id="p", storage=f"file://{repo}").checked().dry_run
    plan = IcechunkPlanExpirationOperator(
        task_id="p", storage=f"file://{repo}", config={"older_than": "0s"}
    ).execute({})  # type: ignore[arg-type]
    before = read_history(open_reader(f"file://{repo}")).digest
    assert IcechunkExpireOperator(task_id="e", storage=f"file://{repo}", plan=plan).execute({})["dry_run"]  # type: ignore[arg-type]
    assert read_history(open_reader(f"file://{repo}")).digest == before


def test_a_try_of_the_first_task_that_was_lost_does_not_put_its_older_lease_back(repo: Path) -> None:
    storage = f"file://{repo}"
    context: Any = {"run_id": "manual"}
    acquire = IcechunkAcquireLeaseOperator(task_id="a", storage=storage)
    plan = IcechunkPlanCollectionOperator(
        task_id="p", storage=storage, lease=acquire.poke(context).xcom_value, mode="local"
    ).execute(context)
    lost = IcechunkAcquireLeaseOperator(task_id="a", storage=storage, run_uri=plan["run_uri"])
    older = from_json(LeaseGrant, acquire.poke(context).xcom_value)
    newer = lost.poke(context).xcom_value
    lost._resume(older)
    assert Run.open(plan["run_uri"]).plan.lease.fencing == newer["fencing"] > older.fencing


def test_cleared_collection_goes_on_under_a_new_lease(repo: Path) -> None:
    storage = f"file://{repo}"
    context: Any = {"run_id": "manual"}
    first = IcechunkAcquireLeaseOperator(task_id="a", storage=storage)
    grant = first.poke(context).xcom_value
    plan = IcechunkPlanCollectionOperator(task_id="p", storage=storage, lease=grant, mode="local").execute(
        context
    )
    again = (
        IcechunkAcquireLeaseOperator(task_id="a", storage=storage, run_uri=plan["run_uri"])
        .poke(context)
        .xcom_value
    )
    assert again["fencing"] == grant["fencing"] + 1
    assert Run.open(plan["run_uri"]).plan.lease.fencing == again["fencing"]
    collected = IcechunkCollectOperator(task_id="c", plan=plan).execute(SimpleNamespace())  # type: ignore[arg-type]
    assert collected["status"] == "dry_run"
    other: Any = {"run_id": "other"}
    assert not IcechunkAcquireLeaseOperator(task_id="a", storage=storage).poke(other).is_done
