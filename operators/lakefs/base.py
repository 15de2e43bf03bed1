"""What the operators of a collection share: the run, its doors, its figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from airflow.sdk import BaseOperator
from airflow.sdk.observability import stats

from dredge.errors import ConfigError
from dredge.gc.steps import Run
from dredge.runs.summary import StepSummary
from dredge.storage import StorageOptions
from operators.failures import reported
from operators.hooks.lakefs import LakeFSHook
from operators.hooks.storage import storage_options

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSOperator(BaseOperator):
    """Work on a lakeFS repository and its object store.

    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; may be missing for local folders and machine roles
    """

    def __init__(
        self,
        *,
        lakefs_conn_id: str = LakeFSHook.default_conn_name,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lakefs_conn_id = lakefs_conn_id
        self.aws_conn_id = aws_conn_id

    @cached_property
    def hook(self) -> LakeFSHook:
        """The lakeFS hook."""
        return LakeFSHook(self.lakefs_conn_id)


class LakeFSRunOperator(LakeFSOperator):
    """Do one step of a planned run in the Airflow worker itself.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    """

    step: ClassVar[str]
    template_fields: Sequence[str] = ("run_uri",)

    def __init__(self, *, run_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uri = run_uri

    def work(self, run: Run) -> StepSummary:
        """Do the step."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """Return what else the step reads from its environment, secrets included."""
        return {}

    @reported
    def execute(self, context: Context) -> dict[str, Any]:
        """Do the step and return its figures."""
        run = open_run(self.run_uri, self.aws_conn_id, self.hook)
        with tasks_environment(run, self.variables()):
            return told(self.step, self.work(run), run.plan.repository)


def open_run(run_uri: str, aws_conn_id: str | None, hook: LakeFSHook) -> Run:
    """Open a run with the doors that the connections describe."""
    if not run_uri:
        raise ConfigError(
            "this run has no plan, because an earlier task failed; see its log. Nothing was done."
        )
    return Run.open(run_uri, storage_options(aws_conn_id), hook.client)


class HasOptions(Protocol):
    """A run of any collection."""

    @property
    def options(self) -> StorageOptions | None:
        """How its stores are reached; None when this process's environment says it already."""


@contextmanager
def tasks_environment(run: HasOptions, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let a step's tasks, which read the environment wherever they run, reach the object store from here.

    :param run: opened with the options of the store
    :param more: further variables of the step
    """
    variables = (run.options.to_env() if run.options is not None else {}) | dict(more or {})
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def told(step: str, summary: StepSummary, repository: str) -> dict[str, Any]:
    """Send a step's figures to Airflow's metrics and return what XCom keeps: figures, no lists of objects.

    Metrics are named ``dredge.<step>.<noun>_<unit>``.
    """
    tags = {"repository": repository}
    for name, value in summary.counts.items():
        stats.gauge(f"dredge.{step}.{name}", value, tags=tags)
    stats.timing(f"dredge.{step}.duration", summary.seconds * 1000, tags=tags)
    return summary.as_xcom()
