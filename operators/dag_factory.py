"""Build DAGs with a single task, and DAGs for many repositories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.many import AllCollectedOperator
from airflow_dredge.operators.params import make_params, share_params
from airflow_dredge.operators.run_check import UNCHECKED, task_arguments
from airflow_dredge.operators.schedules import NO_BACKFILLS
from dredge.settings import Setting

#: Kinds of runs of a restore: never scheduled.
RESTORES = ["manual", "operator_triggered"]


@dataclass(frozen=True, kw_only=True)
class About:
    """Texts and default arguments of a DAG."""

    doc: str | None
    tags: Sequence[str]
    default_args: Mapping[str, Any]


def one_task_dag(
    dag_id: str,
    task: Callable[[], object],
    form: Sequence[Setting],
    about: About,
    schedule: str | None = None,
    run_types: Sequence[str] = NO_BACKFILLS,
    default_args: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> DAG:
    """Return a DAG with a single task, such as a restore or a purge."""
    with _dag(dag_id, form, about, schedule, run_types, default_args, defaults) as dag:
        task()
    return share_params(dag)


@dataclass(frozen=True, kw_only=True)
class Many:
    """Operators of a DAG for many repositories."""

    choose: type[Any]
    collect: type[Any]
    summary: type[Any]
    which: Mapping[str, str]
    asset: str


def many_dag(
    dag_id: str,
    many: Many,
    form: Sequence[Setting],
    about: About,
    schedule: str | None = None,
    at_once: int = 4,
    default_args: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> DAG:
    """Return a DAG that starts a run for each of many repositories.

    :param default_args: Airflow's arguments of the DAG's tasks, such as ``{"pool": "gc"}``; the started runs
        have their own
    """
    paused = None if schedule is None else True
    with _dag(
        dag_id, form, about, schedule, NO_BACKFILLS, default_args, defaults, is_paused_upon_creation=paused
    ) as dag:
        chosen = many.choose(task_id="choose_repositories", which=many.which)
        collected = many.collect.partial(
            task_id="collect_repository",
            max_active_tis_per_dag=at_once,  # also counts deferred tasks
            map_index_template="{{ task.label }}",
        ).expand(runs=chosen.output)
        page = many.summary(
            task_id="save_summary", runs=chosen.output, outlets=[Asset(many.asset)], **UNCHECKED
        )
        decision = AllCollectedOperator(
            task_id="all_collected", runs=chosen.output, collected=collected.output, **UNCHECKED
        )
        # Teardowns also run after a person marked the run as failed. The second one sets the run's state.
        chain(collected, page.as_teardown(), decision.as_teardown(on_failure_fail_dagrun=True))
    return share_params(dag)


def _dag(
    dag_id: str,
    form: Sequence[Setting],
    about: About,
    schedule: str | None,
    run_types: Sequence[Any],
    default_args: Mapping[str, Any] | None,
    defaults: Mapping[str, Any],
    **more: Any,
) -> DAG:
    return DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        **allowed_run_types(run_types),
        default_args=task_arguments(form, about.default_args, default_args),
        params=make_params(form, dict(defaults)),
        tags=[*about.tags],
        doc_md=about.doc,
        **more,
    )
