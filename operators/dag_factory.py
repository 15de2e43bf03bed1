"""DAGs with one task and DAGs for many repositories, made from a form and operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.airflow_versions import allowed_run_types
from airflow_dredge.operators.many import AllCollectedOperator
from airflow_dredge.operators.params import params_of
from airflow_dredge.operators.run_check import UNCHECKED, checked_tasks
from airflow_dredge.operators.schedules import NO_BACKFILLS
from dredge.settings import Setting

#: How a run that takes deletions back may be started: nobody does so regularly.
RESTORES = ["manual", "operator_triggered"]


@dataclass(frozen=True, kw_only=True)
class About:
    """What a DAG says of itself.

    :param doc: its page
    :param tags: words by which it is found
    :param default_args: for every task
    """

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
    """Return a DAG with one task, which is a whole run of its own: a restore, a purge.

    :param dag_id: its id
    :param task: makes the task
    :param form: what is asked for
    :param about: what the DAG says of itself
    :param schedule: None for runs by hand
    :param run_types: how its runs may be started
    :param default_args: Airflow's arguments of its tasks, such as ``{"pool": "gc"}``
    :param defaults: values of its Params
    """
    with _dag(dag_id, form, about, schedule, run_types, default_args, defaults) as dag:
        task()
    return dag


@dataclass(frozen=True, kw_only=True)
class Many:
    """The operators of a collector about many repositories.

    :param choose: chooses the repositories
    :param collect: has one collected by its own run
    :param summary: writes the page about all
    :param which: the `which` of the first one
    :param asset: gets the figures
    """

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
    """Return a DAG that has each of many repositories collected by a run of its own.

    :param dag_id: its id
    :param many: the operators
    :param form: what is asked for
    :param about: what the DAG says of itself
    :param schedule: None for runs by hand
    :param at_once: repositories that are collected at a time
    :param default_args: Airflow's arguments of its tasks, such as ``{"pool": "gc"}``; those of the runs that it starts
        are of their DAG
    :param defaults: values of its Params
    """
    paused = None if schedule is None else True
    with _dag(
        dag_id, form, about, schedule, NO_BACKFILLS, default_args, defaults, is_paused_upon_creation=paused
    ) as dag:
        chosen = many.choose(task_id="choose_repositories", which=many.which)
        collected = many.collect.partial(
            task_id="collect_repository",
            max_active_tis_per_dag=at_once,  # also counts those that wait in the triggerer
            map_index_template="{{ task.label }}",
        ).expand(runs=chosen.output)
        page = many.summary(
            task_id="save_summary", runs=chosen.output, outlets=[Asset(many.asset)], **UNCHECKED
        )
        decision = AllCollectedOperator(
            task_id="all_collected", runs=chosen.output, collected=collected.output, **UNCHECKED
        )
        # Teardowns also run when a person marks the run as failed. The second one decides about the run's state.
        chain(collected, page.as_teardown(), decision.as_teardown(on_failure_fail_dagrun=True))
    return dag


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
        default_args=checked_tasks(form, about.default_args, default_args),
        params=params_of(form, dict(defaults)),
        tags=[*about.tags],
        doc_md=about.doc,
        **more,
    )
