"""The icechunk_expiration DAG: its order, its form, and whole runs in this process."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_dredge.operators.icechunk.collection import (
    IcechunkAcquireLeaseOperator,
    IcechunkCollectOperator,
    IcechunkPlanCollectionOperator,
)
from airflow_dredge.operators.icechunk.expiration import (
    IcechunkExpireOperator,
    IcechunkPlanExpirationOperator,
)
from dredge.errors import RefusedError
from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.steps import plan_collection, release_lease
from dredge.icechunk.format.metadata import instant
from dredge.icechunk.maintenance import make_lease, open_state
from dredge.icechunk.repository import read_history
from dredge.runs.lease import LeaseGrant
from dredge.runs.payload import from_json
from dredge.storage import open_reader
from tests.support.airflow import Airflow
from tests.support.icechunk import build, contents, graph_of, local_storage, objects, quiet, scenarios


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
    settings = {
        "collect_mode": "local",
        "dry_run": False,
        "unsafe_min_age_seconds": 0,
        "unsafe_grace_seconds": 0,
        "max_delete_percent": None,
    }
    return {"storage": f"file://{repo}", "older_than": when, **settings, **changes}


def test_run_expires_and_collects_what_a_dry_run_said_and_every_ref_reads_back(
    airflow: Airflow, repo: Path, when: str, capfd: pytest.CaptureFixture[str]
) -> None:
    untouched, history = objects(repo), read_history(open_reader(f"file://{repo}")).digest
    dry = airflow.run("icechunk_expiration", conf(repo, when, dry_run=True))
    assert dry.state == "success", dry.tasks
    assert objects(repo) == untouched
    assert read_history(open_reader(f"file://{repo}")).digest == history
    assert dry.returned["plan_expiration"]["released"] == 7
    plan = Path(dry.returned["plan_expiration"]["plan_uri"].removeprefix("file://"))
    assert (plan / "plan.html").is_file()
    counts = dry.returned["save_report"]["counts"]
    assert counts["candidates_objects"] == 20
    assert counts["candidates_bytes"] == dry.returned["plan_expiration"]["would_free_bytes"] > 0

    library = quiet().Repository.open(local_storage(repo))
    before = {name: contents(library, branch=name) for name in library.list_branches()}
    run = airflow.run("icechunk_expiration", conf(repo, when))
    assert run.state == "success", run.tasks
    assert run.returned["expire"]["edited"] == 6
    done = run.returned["save_report"]
    assert (done["outcome"], done["counts"]["deleted_objects"]) == ("success", 20)
    assert done["counts"]["deleted_bytes"] == counts["candidates_bytes"]
    assert Path(done["report_uri"].removeprefix("file://")).exists()
    reopened = quiet().Repository.open(local_storage(repo))
    assert {name: contents(reopened, branch=name) for name in reopened.list_branches()} == before
    logged = "".join(capfd.readouterr())
    assert "[info " in logged
    assert "[error" not in logged
    make_lease(open_state(f"file://{repo}")).acquire("the next one")


def test_a_check_asks_for_all_and_begins_no_run(airflow: Airflow, repo: Path, when: str) -> None:
    before = objects(repo)
    run = airflow.run("icechunk_expiration", conf(repo, when, check_only=True))
    assert run.state == "success", run.failures
    assert run.returned["check"]["lines"]
    assert {name for name, state in run.tasks.items() if state != "skipped"} == {"check"}
    assert objects(repo) == before


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


def test_no_task_works_on_a_repository_without_main(repo: Path) -> None:
    (repo / "refs" / "branch.main" / "ref.json").unlink()
    storage, before = f"file://{repo}", objects(repo)
    asked = {
        "threshold": "2100-01-01T00:00:00+00:00",
        "delete_expired_branches": True,
        "delete_expired_tags": True,
    }
    plan = {"expiration": asked, "plan_uri": ""}
    run = plan_collection(CollectConfig(uri=storage, unsafe_min_age_seconds=0)).run_uri
    for task in (
        IcechunkPlanExpirationOperator(task_id="p", storage=storage, config={"older_than": "0s"}),
        IcechunkCollectOperator(task_id="c", plan={"run_uri": run, "mode": "local"}),
    ):
        with pytest.raises(RefusedError):
            task.execute({})  # type: ignore[arg-type]
    release_lease(Run.open(run))
    for task in (IcechunkExpireOperator(task_id="e", storage=storage, plan=plan, report_only=False),):
        with pytest.raises(RefusedError):
            task.execute({})  # type: ignore[arg-type]
    assert objects(repo) == before


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
