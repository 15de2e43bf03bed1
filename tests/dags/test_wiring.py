"""The wiring of all DAGs: order of tasks, schedules, Params. The order is part of the safety argument."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_dredge.dags.icechunk_all import icechunk_all_dag
from airflow_dredge.dags.icechunk_expiration import icechunk_dag
from airflow_dredge.dags.icechunk_restore import purge_dag as icechunk_purge_dag
from airflow_dredge.dags.lakefs_gc import gc_dag
from airflow_dredge.dags.lakefs_gc_all import gc_all_dag
from airflow_dredge.dags.lakefs_gc_metadata import metadata_dag
from airflow_dredge.dags.lakefs_gc_restore import purge_dag

ROOT = Path(__file__).resolve().parents[2]
#: Names of Params are a public interface: schedules in Variables, triggers, backfills and DAG files have them.
BOTH = """
    mode dry_run undo min_age_hours unsafe_min_age_seconds grace_hours unsafe_grace_seconds clean_every_days
    keep_runs_days max_delete_objects max_delete_bytes max_delete_percent approval approval_hours approvers inventory
    run_root spark_engine spark_python check_only
"""
LAKEFS = """
    repository restore_reused purge_days keep_unnamed_days referring_repositories slice_margin_hours
    multipart_idle_hours keep_tags retention_policy verify_sample_size live_source kv_conn_id spark_rows_min
"""
ICECHUNK = """
    storage keep_lost_days keep_old_refs referring_repositories keep_refs keep_refs_younger_hours older_than rule
    delete_expired_branches delete_expired_tags estimate collect collect_mode overwritten_min_age_hours
    keep_chunks keep_transactions
"""
TRASH = """
    kv_conn_id state_uri dry_run grace_hours unsafe_grace_seconds kinds max_partitions max_rows max_bytes max_percent
    read_rate check_only
"""
METADATA = """
    repository metadata dry_run min_age_hours keep_unnamed_days keep_copies_days grace_hours unsafe_grace_seconds
    kv_conn_id
"""
RESTORE, PURGE = "run prefix address reason all keep_days because", "older_than_days dry_run run run_root"
PARAMS = {
    "lakefs_gc": BOTH + LAKEFS,
    "icechunk_expiration": BOTH + ICECHUNK,
    "kv_trash_cleaner": TRASH,
    "kv_trash_restore": "kv_conn_id state_uri run partition dry_run",
    "lakefs_gc_metadata": METADATA,
    "lakefs_gc_restore": f"repository {RESTORE}",
    "lakefs_gc_purge": f"repository {PURGE}",
    "icechunk_restore": f"storage expiration {RESTORE}",
    "icechunk_purge": f"storage {PURGE}",
}
BY_HAND = {"manual", "operator_triggered", "asset_triggered"}


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def kinds(dag: DAG) -> set[str]:
    return {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types or ()}


def test_dags_and_plugins_load_no_large_package() -> None:
    large = {"numpy", "pyarrow", "pandas", "numba", "pyspark", "boto3", "obstore", "lakefs_sdk", "icechunk"}
    large |= {"openlineage", "airflow.providers.apache.spark.hooks"}
    names = [
        f"{path.parent.name}.{path.stem}" for path in (*ROOT.glob("dags/*.py"), *ROOT.glob("plugins/*.py"))
    ]
    code = "; ".join(["import sys", *(f"import airflow_dredge.{name}" for name in names)])
    code += f"; print('loaded', *sorted({large!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded"


@pytest.mark.parametrize("name", PARAMS)
def test_params_are_these(dags: dict[str, DAG], name: str) -> None:
    assert set(dags[name].params) == set(PARAMS[name].split())


def test_a_task_has_the_params_of_its_dag_and_no_copies(dags: dict[str, DAG]) -> None:
    from airflow.sdk.definitions.param import process_params
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        stored = DagSerialization.to_dict(dag)["dag"]
        assert {name for name, _ in stored["params"]} == set(dag.params)
        assert [task for task in stored["tasks"] if task["__var"].get("params")] == []
        for task in dag.tasks:
            assert process_params(dag, task, {}, suppress_exception=True) == dag.params.dump()


def test_a_form_deletes_nothing_unless_told(dags: dict[str, DAG]) -> None:
    for dag in dags.values():
        assert "dry_run" not in dag.params or dag.params["dry_run"] is True, dag.dag_id
    assert dags["lakefs_gc_restore"].params["all"] is dags["icechunk_restore"].params["all"] is False
    assert dags["lakefs_gc_metadata"].params["metadata"] == "report"


def test_every_dag_survives_serialisation_and_every_task_has_its_fields(dags: dict[str, DAG]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert set(back.task_ids) == set(dag.task_ids)
        for task in dag.tasks:
            if not task.is_mapped:
                assert [field for field in task.template_fields if not hasattr(task, field)] == []
                assert task.retries >= 2
                assert task.retry_policy is not None


class Collector(NamedTuple):
    name: str
    make: Callable[..., DAG]
    repository: dict[str, str]
    order: tuple[str, ...]

    @property
    def scheduled(self) -> DAG:
        return self.make("nightly", "@daily", **self.repository, dry_run=False)


_LAKEFS = (
    "slice_listing mark_uncommitted list_committed subtract check_limits approve bulk_delete verify purge"
)
COLLECTORS = (
    Collector(
        "lakefs_gc",
        gc_dag,
        {"repository": "lake"},
        ("check", "acquire_lease", "plan", *_LAKEFS.split(), "save_report", "release_lease"),
    ),
    Collector(
        "icechunk_expiration",
        icechunk_dag,
        {"storage": "s3://lake/weather"},
        (
            *("check", "acquire_lease", "plan_expiration", "expire", "plan_collection"),
            *("mark", "approve", "collect", "save_report", "release_lease"),
        ),
    ),
)


@pytest.fixture(params=COLLECTORS, ids=[found.name for found in COLLECTORS])
def collector(request: pytest.FixtureRequest) -> Collector:
    found: Collector = request.param
    return found


@pytest.fixture
def dag(dags: dict[str, DAG], collector: Collector) -> DAG:
    return dags[collector.name]


def reachable(dag: DAG, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = dag.get_task(waiting.pop()).downstream_task_ids - found
        found |= new
        waiting += new
    return found


def test_each_step_waits_for_every_earlier_one(collector: Collector, dag: DAG) -> None:
    assert set(dag.task_ids) == set(collector.order)
    for earlier, later in itertools.combinations(collector.order, 2):
        assert later in reachable(dag, earlier), (earlier, later)
        assert earlier not in reachable(dag, later), (earlier, later)


def test_no_step_runs_after_a_failed_one(collector: Collector, dag: DAG) -> None:
    for task_id in set(collector.order) - {"save_report", "release_lease"}:
        assert dag.get_task(task_id).trigger_rule == "all_success", task_id


def test_report_is_written_whatever_happened_and_lease_is_given_back(dag: DAG) -> None:
    report, release = dag.get_task("save_report"), dag.get_task("release_lease")
    assert report.is_teardown, "else a person who marks the run as failed has it skipped"
    assert not any(dag.get_task(name).is_setup for name in report.upstream_task_ids), (
        "else it does not run without a lease"
    )
    assert release.is_teardown
    assert dag.get_task("acquire_lease").is_setup
    assert "acquire_lease" in release.upstream_task_ids


def test_report_decides_about_the_run(dag: DAG) -> None:
    def counts(name: str) -> bool:
        return not dag.get_task(name).is_teardown or dag.get_task(name).on_failure_fail_dagrun

    deciding = [
        task.task_id
        for task in dag.tasks
        if counts(task.task_id) and not any(counts(name) for name in task.downstream_task_ids)
    ]
    assert deciding == ["save_report"]


def test_nobody_who_is_asked_keeps_a_worker_and_no_answer_is_a_no(dag: DAG) -> None:
    approve = dag.get_task("approve")
    assert (approve.options, approve.defaults) == (["Approve", "Reject"], ["Reject"])
    assert not approve.fail_on_reject
    assert approve.execution_timeout is None
    assert set(approve.template_fields) == {"run_uri"}, "names from a lake are never rendered as templates"


def test_a_schedule_has_backfills_one_run_at_a_time_and_starts_paused(collector: Collector, dag: DAG) -> None:
    """Manual runs are of different repositories; `test_second_run_waits_until_the_first_has_ended`."""
    scheduled = collector.scheduled
    assert kinds(dag) == BY_HAND
    assert kinds(scheduled) == BY_HAND | {"backfill", "scheduled"}
    assert (scheduled.max_active_runs, scheduled.catchup) == (1, False)
    assert scheduled.timetable == CronDataIntervalTimetable("@daily", timezone="UTC")
    assert (scheduled.is_paused_upon_creation, dag.is_paused_upon_creation) == (True, None)
    assert {name: scheduled.params[name] for name in collector.repository} == collector.repository
    assert scheduled.params["dry_run"] is False


def test_a_run_on_a_schedule_waits_for_the_report_and_the_lease_of_the_one_before(
    collector: Collector, dag: DAG
) -> None:
    """The last task succeeds whatever happened, so the report, which may fail, is behind the first task, too."""
    first = collector.scheduled.get_task("check")
    assert first.depends_on_past
    assert first.wait_for_downstream
    assert {"save_report", "release_lease"} <= first.downstream_task_ids
    assert not dag.get_task("check").depends_on_past


def test_who_waits_for_the_repository_keeps_no_worker(dag: DAG) -> None:
    first = dag.get_task("acquire_lease")
    assert first.reschedule
    assert first.timeout >= 3600
    assert not first.soft_fail


def test_every_task_has_the_pool_and_the_queue_that_its_dag_was_made_with(collector: Collector) -> None:
    made = collector.make("gc", default_args={"pool": "gc", "queue": "big"}, **collector.repository)
    assert {(task.pool, task.queue) for task in made.tasks} == {("gc", "big")}


def test_every_setting_of_the_form_reaches_its_task(dags: dict[str, DAG]) -> None:
    from airflow_dredge.operators.lakefs.params import COLLECTION

    dag, names = dags["lakefs_gc"], [found.name for found in COLLECTION]
    plan = dag.get_task("plan")
    assert plan.config == {name: f"{{{{ params.{name} }}}}" for name in names}
    assert plan.kv_conn_id == "{{ params.kv_conn_id }}"
    for name in (
        "lakefs_gc_restore",
        "lakefs_gc_purge",
        "icechunk_restore",
        "icechunk_purge",
        "lakefs_gc_metadata",
    ):
        (task,) = dags[name].tasks
        wanted = dags[name].params.keys() - {"kv_conn_id"}
        assert task.config == {setting: f"{{{{ params.{setting} }}}}" for setting in wanted}


def test_spark_steps_start_the_job_of_their_own_name(dags: dict[str, DAG]) -> None:
    from airflow_dredge.spark_jobs.step import JOBS

    for task_id in ("slice_listing", "list_committed", "subtract", "bulk_delete"):
        task = dags["lakefs_gc"].get_task(task_id)
        assert Path(task.application).resolve() == ROOT / "spark_jobs" / "step.py"
        assert task.step == task_id
        assert task_id in JOBS
        assert task.spark_engine == "{{ params.spark_engine }}"
        assert task.spark_python == "{{ params.spark_python }}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repository", ""),
        ("repository", None),
        ("mode", "fast"),
        ("dry_run", None),
        ("dry_run", "no"),
        ("min_age_hours", 24.9),
        ("min_age_hours", None),
        ("unsafe_min_age_seconds", -1),
        ("slice_margin_hours", 24),
        ("clean_every_days", -1),
        ("keep_runs_days", 6),
        ("max_delete_objects", 1.5),
        ("max_delete_percent", 101),
        ("approval", "sometimes"),
        ("approval_hours", 0),
        ("undo", "maybe"),
        ("keep_tags", "yes"),
        ("spark_engine", "yarn"),
    ],
)
def test_params_refuse(name: str, value: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    from airflow_dredge.operators.lakefs.params import gc_params

    with pytest.raises(ParamValidationError):
        gc_params()[name].resolve(value)


@pytest.mark.parametrize(
    ("make", "repository"),
    [
        (purge_dag, {"repository": "lake"}),
        (icechunk_purge_dag, {"storage": "s3://lake/weather"}),
        (metadata_dag, {"repository": "lake", "metadata": "delete"}),
    ],
)
def test_one_task_dags_may_have_a_schedule_and_restores_have_none(
    dags: dict[str, DAG], make: Callable[..., DAG], repository: dict[str, str]
) -> None:
    made = make("nightly", "@weekly", **repository, dry_run=False)
    assert {name: made.params[name] for name in repository} == repository
    assert made.params["dry_run"] is False
    assert kinds(made) == BY_HAND | {"scheduled"}
    for name in ("lakefs_gc_restore", "icechunk_restore", "kv_trash_restore"):
        assert kinds(dags[name]) == {"manual", "operator_triggered"}
        assert dags[name].doc_md
        assert dags[name].max_active_runs == 1


def test_a_clean_waits_for_the_look_whose_plan_bounds_it(dags: dict[str, DAG]) -> None:
    dag = dags["kv_trash_cleaner"]
    assert set(dag.task_ids) == {"check", "scan", "clean"}
    clean = dag.get_task("clean")
    assert clean.upstream_task_ids == {"scan"}
    assert "xcom_pull(task_ids='scan')" in clean.planned
    assert "get('digest'" in clean.planned_digest
    assert (dag.max_active_runs, kinds(dag)) == (1, BY_HAND | {"scheduled"})


@pytest.mark.parametrize(
    ("name", "make"), [("lakefs_gc_all", gc_all_dag), ("icechunk_all", icechunk_all_dag)]
)
def test_many_repositories_have_one_page_and_a_task_that_fails_with_any_of_them(
    dags: dict[str, DAG], name: str, make: Callable[..., DAG]
) -> None:
    dag = dags[name]
    page, last = dag.get_task("save_summary"), dag.get_task("all_collected")
    assert page.is_teardown
    assert page.upstream_task_ids >= {"collect_repository", "choose_repositories"}
    assert [outlet.name for outlet in page.outlets] == [f"dredge_{name}"]
    assert last.upstream_task_ids == {"choose_repositories", "collect_repository", "save_summary"}
    assert (last.is_teardown, last.on_failure_fail_dagrun) == (True, True)
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["all_collected"]
    for found, at_once in ((dag, 4), (make("nightly", "@daily", at_once=8, dry_run=False), 8)):
        row: Any = found.get_task("collect_repository")
        assert (row.is_mapped, row.partial_kwargs["max_active_tis_per_dag"]) == (True, at_once)
