"""The wiring of lakefs_gc: its order is the safety argument, so it is proved on the graph."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "check",
    "acquire_lease",
    "plan",
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "approve",
    "bulk_delete",
    "verify",
    "purge",
    "save_report",
    "release_lease",
)
STEPS = ORDER[3:-1]
SPARK = {"slice_listing", "list_committed", "subtract", "bulk_delete"}


@pytest.fixture(scope="module")
def dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags" / "lakefs_gc.py"))
    assert bag.import_errors == {}
    return bag.dags["lakefs_gc"]


def test_every_dag_file_can_be_imported() -> None:
    from airflow.dag_processing.dagbag import DagBag

    assert DagBag(dag_folder=str(ROOT / "dags")).import_errors == {}


def reachable(dag: DAG, start: str) -> set[str]:
    """Every task that can only start after `start` has ended."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for task_id in dag.get_task(waiting.pop()).downstream_task_ids - found:
            found.add(task_id)
            waiting.append(task_id)
    return found


def test_each_step_waits_for_every_earlier_one(dag: DAG) -> None:
    assert set(dag.task_ids) == set(ORDER)
    for earlier, later in itertools.combinations(ORDER, 2):
        assert later in reachable(dag, earlier), (earlier, later)
        assert earlier not in reachable(dag, later), (earlier, later)


def test_no_step_runs_after_a_failed_one(dag: DAG) -> None:
    for task_id in set(ORDER) - {"save_report", "release_lease"}:
        assert dag.get_task(task_id).trigger_rule == "all_success", task_id


def test_report_is_written_whatever_happened_and_lease_is_given_back(dag: DAG) -> None:
    report = dag.get_task("save_report")
    assert report.is_teardown, "else a person who marks the run as failed has it skipped"
    assert not any(dag.get_task(name).is_setup for name in report.upstream_task_ids), (
        "else it does not run where the lease never came"
    )
    release = dag.get_task("release_lease")
    assert release.is_teardown
    assert dag.get_task("acquire_lease").is_setup
    assert "acquire_lease" in release.upstream_task_ids


def test_report_decides_about_the_run(dag: DAG) -> None:
    deciding = [task.task_id for task in dag.tasks if _decides(dag, task.task_id)]
    assert deciding == ["save_report"]


def _decides(dag: DAG, task_id: str) -> bool:
    def counts(name: str) -> bool:
        return not dag.get_task(name).is_teardown or dag.get_task(name).on_failure_fail_dagrun

    return counts(task_id) and not any(counts(name) for name in dag.get_task(task_id).downstream_task_ids)


def test_nobody_who_is_asked_keeps_a_worker_and_no_answer_is_a_no(dag: DAG) -> None:
    approve = dag.get_task("approve")
    assert approve.options == ["Approve", "Reject"]
    assert approve.defaults == ["Reject"]
    assert not approve.fail_on_reject
    assert approve.execution_timeout is None
    assert set(approve.template_fields) == {"run_uri"}, "names from a lake are never rendered as templates"


def kinds(dag: DAG) -> set[str]:
    return {str(getattr(kind, "value", kind)) for kind in dag.allowed_run_types or ()}


def test_one_run_at_a_time_on_a_schedule_and_no_backfills_without_one(dag: DAG, scheduled: DAG) -> None:
    """Runs by hand are of different repositories; the first task keeps two of the same one apart, see
    `test_second_run_waits_until_the_first_has_ended`."""
    assert scheduled.max_active_runs == 1
    assert kinds(dag) == {"manual", "operator_triggered", "asset_triggered"}


def test_a_schedule_can_be_backfilled(scheduled: DAG) -> None:
    assert {"backfill", "scheduled", "manual"} <= kinds(scheduled)
    assert scheduled.timetable == CronDataIntervalTimetable("@daily", timezone="UTC")


@pytest.fixture
def scheduled() -> DAG:
    from airflow_dredge.dags.lakefs_gc import gc_dag

    return gc_dag("gc_nightly", "@daily", repository="lake", dry_run=False)


def test_runs_on_a_schedule_wait_for_the_last_task_of_the_one_before(scheduled: DAG) -> None:
    first = scheduled.get_task("check")
    assert first.depends_on_past
    assert first.wait_for_downstream
    assert "release_lease" in first.downstream_task_ids
    assert scheduled.params["repository"] == "lake"
    assert scheduled.params["dry_run"] is False


def test_a_schedule_starts_only_when_somebody_switches_it_on(scheduled: DAG, dag: DAG) -> None:
    assert scheduled.is_paused_upon_creation is True
    assert dag.is_paused_upon_creation is None


def test_a_run_on_a_schedule_that_failed_blocks_the_next_one(scheduled: DAG) -> None:
    """The last task succeeds whatever happened, so the report, which does not, has to hang on the first task, too."""
    assert "save_report" in scheduled.get_task("check").downstream_task_ids


def test_who_waits_for_the_repository_keeps_no_worker(scheduled: DAG) -> None:
    first = scheduled.get_task("acquire_lease")
    assert first.reschedule
    assert first.timeout >= 3600
    assert not first.soft_fail


def test_every_task_has_the_pool_and_the_queue_that_its_dag_was_made_with() -> None:
    from airflow_dredge.dags.lakefs_gc import gc_dag

    made = gc_dag("gc", "@daily", default_args={"pool": "gc", "queue": "big"}, repository="lake")
    assert {(task.pool, task.queue) for task in made.tasks} == {("gc", "big")}


def test_params_are_these(dag: DAG) -> None:
    """Their names are a public interface: schedules in Variables, triggers and backfills have them."""
    assert set(dag.params) == {
        "repository",
        "mode",
        "dry_run",
        "undo",
        "restore_reused",
        "purge_days",
        "keep_unnamed_days",
        "referring_repositories",
        "min_age_hours",
        "unsafe_min_age_seconds",
        "grace_hours",
        "unsafe_grace_seconds",
        "clean_every_days",
        "keep_runs_days",
        "slice_margin_hours",
        "multipart_idle_hours",
        "max_delete_objects",
        "max_delete_bytes",
        "max_delete_percent",
        "approval",
        "approval_hours",
        "approvers",
        "keep_tags",
        "retention_policy",
        "verify_sample_size",
        "live_source",
        "kv_conn_id",
        "inventory",
        "run_root",
        "spark_engine",
        "spark_python",
        "spark_rows_min",
        "check_only",
    }


def test_every_setting_of_the_form_is_asked_for_and_reaches_its_task(dag: DAG) -> None:
    from airflow_dredge.operators.lakefs.params import LakeFSTaskSettings
    from dredge.gc.config import GCConfig
    from dredge.settings import settings_of

    collector = {found.name for found in settings_of(GCConfig)} - {"read_kv"}
    tasks = {found.name for found in settings_of(LakeFSTaskSettings)}
    assert set(dag.params) == collector | tasks
    plan = dag.get_task("plan")
    assert plan.config == {name: f"{{{{ params.{name} }}}}" for name in collector}
    assert plan.kv_conn_id == "{{ params.kv_conn_id }}"
    for task_id in sorted(SPARK):
        assert dag.get_task(task_id).spark_engine == "{{ params.spark_engine }}"
        assert dag.get_task(task_id).spark_python == "{{ params.spark_python }}"


def test_form_deletes_nothing_unless_told() -> None:
    from airflow_dredge.operators.lakefs.params import gc_params

    params = gc_params()
    assert params["dry_run"].value is True
    assert params["approval"].value == "over_limits"
    assert params["approval_hours"].value == 12
    assert params["approvers"].value is None
    assert params["mode"].value == "auto"
    assert params["slice_margin_hours"].value == 193
    assert params["clean_every_days"].value == 30
    assert params["keep_runs_days"].value == 90
    assert params["min_age_hours"].value == 25
    assert params["unsafe_min_age_seconds"].value is None
    assert params["keep_tags"].value is True


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
        ("slice_margin_hours", None),
        ("clean_every_days", -1),
        ("keep_runs_days", 6),
        ("max_delete_objects", -1),
        ("max_delete_objects", 1.5),
        ("max_delete_percent", 101),
        ("approval", "sometimes"),
        ("approval", None),
        ("approval_hours", 0),
        ("approval_hours", 12.5),
        ("undo", "maybe"),
        ("keep_tags", None),
        ("keep_tags", "yes"),
        ("spark_engine", "yarn"),
    ],
)
def test_params_refuse(name: str, value: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    from airflow_dredge.operators.lakefs.params import gc_params

    with pytest.raises(ParamValidationError):
        gc_params()[name].resolve(value)


def test_a_task_names_its_step_and_its_package(dag: DAG) -> None:
    for task_id in ORDER:
        task = dag.get_task(task_id)
        assert [field for field in task.template_fields if not hasattr(task, field)] == []
        assert task.retries >= 2
        assert task.retry_policy is not None
        if task_id in STEPS:
            assert task.step == task_id
            assert (ROOT / "dredge" / "gc" / task_id / "__init__.py").exists()


def test_spark_steps_start_the_job_of_their_own_name(dag: DAG) -> None:
    from airflow_dredge.spark_jobs.step import JOBS

    for task_id in SPARK:
        task = dag.get_task(task_id)
        assert Path(task.application).resolve() == ROOT / "spark_jobs" / "step.py"
        assert task.step == task_id
        assert task_id in JOBS


def test_dag_survives_serialisation(dag: DAG) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert set(back.task_ids) == set(ORDER)
    assert back.get_task("acquire_lease").is_setup
