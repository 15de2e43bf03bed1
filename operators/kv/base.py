"""What the operators of the trash cleaner share: where they look, with which settings, what they remember."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_dredge.operators.events import leave_event
from airflow_dredge.operators.hooks.kv import DEFAULT_CONNECTION, LakeFSKVConnection
from airflow_dredge.operators.hooks.storage import storage_options
from airflow_dredge.operators.lineage import Lineage
from airflow_dredge.operators.lineage_teller import TellsLineage
from airflow_dredge.operators.links import REPORT, ReportLink
from airflow_dredge.operators.policy import POLICY
from airflow_dredge.operators.variables import json_variable
from dredge.kv.rows import ReadRate
from dredge.runs.consents import check_variables
from dredge.storage import open_writer
from dredge.trash.config import TrashConfig
from dredge.trash.state import TrashState

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakeFSKVOperator(BaseOperator):
    """Work on a lakeFS installation's key-value store, beside the state folder of the trash cleaner.

    :param config: settings by name, such as ``{"state_uri": "s3://ops/trash"}``; docs/settings.md lists them. Values
        may be given as they are or as rendered text; an unknown name or a value that does not fit fails the task
        before anything is touched (templated)
    :param segments: DynamoDB: parts of the table that are read at once
    :param kv_conn_id: connection of the database (templated)
    :param aws_conn_id: connection of the object store of the state folder
    """

    template_fields: Sequence[str] = ("config", "kv_conn_id")

    def __init__(
        self,
        *,
        config: Mapping[str, Any],
        segments: int = 4,
        kv_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.segments = segments
        self.kv_conn_id = kv_conn_id
        self.aws_conn_id = aws_conn_id

    @property
    @abstractmethod
    def state_uri(self) -> str:
        """URI of the state folder."""

    @cached_property
    def connection(self) -> LakeFSKVConnection:
        """The database."""
        return LakeFSKVConnection.of(self.kv_conn_id)

    @cached_property
    def state(self) -> TrashState:
        """What earlier runs left."""
        options = storage_options(self.aws_conn_id)
        return TrashState(open_writer(self.state_uri, options), options=options)


class LakeFSKVTrashOperator(TellsLineage, LakeFSKVOperator):
    """Work on the trash in a key-value store. Parameters: see :class:`LakeFSKVOperator`."""

    operator_extra_links = (ReportLink(),)

    @cached_property
    def state(self) -> TrashState:
        """What earlier runs left.

        :raises RefusedError: earlier runs were bound by a policy, and there is none now
        """
        found = super().state
        present = {POLICY: json_variable(POLICY) is not None}
        check_variables(found.writer, self.state_uri, present, "dredge trash")
        return found

    @cached_property
    def checked(self) -> TrashConfig:
        """The rendered settings as the cleaner's own type."""
        return TrashConfig.from_params(self.config)

    @property
    def state_uri(self) -> str:
        """URI of the state folder."""
        return self.checked.state_uri

    @property
    def rate(self) -> ReadRate:
        """How fast the store may be read."""
        return ReadRate(self.checked.read_rate, self.segments)

    def holder(self, context: Context) -> str | None:
        """Name every try of this task the same: a later try then fences an earlier one off that was only lost."""
        return f"{self.dag_id} {context['run_id']} {self.task_id}" if "run_id" in context else None

    def linked(self, context: Context, run_id: str, figures: dict[str, Any]) -> dict[str, Any]:
        """Link the task to the page of its run, and give figures and page to whoever waits for the outlets."""
        page = f"{self.checked.state_uri.rstrip('/')}/runs/{run_id}/report.html"
        numbers = {name: value for name, value in figures.items() if type(value) is int}
        place, outcome = str(figures["location"]), str(figures.get("status", "dry_run"))
        self.lineage = Lineage(place, place, run_id, numbers, outcome, page)
        if "ti" in context:
            context["ti"].xcom_push(REPORT, page)
            leave_event(context, outcome, place, run=run_id, counts=numbers, report=page)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**figures, REPORT: page}
        return {**figures, REPORT: page}
