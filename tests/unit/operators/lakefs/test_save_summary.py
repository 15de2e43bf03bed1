"""One page and one event about all repositories, also about those whose run failed or never began."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_dredge.operators.failures import FAILURE
from airflow_dredge.operators.lakefs.many import LakeFSSaveSummaryOperator
from airflow_dredge.operators.many import LEFT_OUT, SUMMARY_ROOT
from airflow_dredge.operators.reporting import REPORT
from dredge.storage import open_reader
from tests.support.gc import make_world

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
    """The folder of a run that deleted one object."""
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
