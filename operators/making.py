"""DAGs of the same shape, made from a form and the operators of a collector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, chain

from airflow_dredge.operators.airflow_versions import allowed_run_types
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
    **defaults: Any,
) -> DAG:
    """Return a DAG with one task, which is a whole run of its own: a restore, a purge.

    :param dag_id: its id
    :param task: makes the task
    :param form: what is asked for
    :param about: what the DAG says of itself
    :param schedule: None for runs by hand
    :param run_types: how its runs may be started
    :param defaults: values of its Params
    """
    with _dag(dag_id, form, about, schedule, run_types, defaults) as dag:
        task()
    return dag


@dataclass(frozen=True, kw_only=True)
class Many:
    """The operators of a collector about many repositories.

    :param choose: chooses the repositories
    :param collect: has one collected by its own run
    :param summary: writes the page about all
    :param which: the `which` of the first one
    :param what: the Param that names the repository
    :param asset: gets the figures
    """

    choose: type[Any]
    collect: type[Any]
    summary: type[Any]
    which: Mapping[str, str]
    what: str
    asset: str


def many_dag(
    dag_id: str,
    many: Many,
    form: Sequence[Setting],
    about: About,
    schedule: str | None = None,
    at_once: int = 4,
    **defaults: Any,
) -> DAG:
    """Return a DAG that has each of many repositories collected by a run of its own.

    :param dag_id: its id
    :param many: the operators
    :param form: what is asked for
    :param about: what the DAG says of itself
    :param schedule: None for runs by hand
    :param at_once: repositories that are collected at a time
    :param defaults: values of its Params
    """
    paused = None if schedule is None else True
    with _dag(dag_id, form, about, schedule, NO_BACKFILLS, defaults, is_paused_upon_creation=paused) as dag:
        chosen = many.choose(task_id="choose_repositories", which=many.which)
        chain(
            many.collect.partial(
                task_id="collect_repository",
                max_active_tis_per_dag=at_once,  # also counts those that wait in the triggerer
                map_index_template=f"{{{{ task.conf['{many.what}'] }}}}",
            ).expand_kwargs(chosen.output),
            many.summary(
                task_id="save_summary",
                runs=chosen.output,
                trigger_rule="all_done",
                outlets=[Asset(many.asset)],
                **UNCHECKED,
            ),
            # The page is written whatever happened; this one decides about the run.
            complete := EmptyOperator(task_id="all_collected", trigger_rule="none_failed"),
        )
        dag.get_task("collect_repository") >> complete
    return dag


def _dag(
    dag_id: str,
    form: Sequence[Setting],
    about: About,
    schedule: str | None,
    run_types: Sequence[Any],
    defaults: Mapping[str, Any],
    **more: Any,
) -> DAG:
    return DAG(
        dag_id,
        schedule=schedule,
        max_active_runs=1,
        **allowed_run_types(run_types),
        default_args=checked_tasks(form, about.default_args),
        params=params_of(form, dict(defaults)),
        tags=[*about.tags],
        doc_md=about.doc,
        **more,
    )
