"""What the operators of the trash cleaner share: where they look, with which margins, what they remember."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.observability import stats

from dredge.errors import ConfigError
from dredge.kv.rows import ReadRate
from dredge.storage import open_writer
from dredge.trash.margins import TrashMargins
from dredge.trash.state import TrashState
from operators.hooks.kv import DEFAULT_CONNECTION, KVConnection
from operators.hooks.storage import storage_options
from operators.lakefs.plan import number
from operators.lakefs.save_report import REPORT, ReportLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class KVTrashOperator(BaseOperator):
    """Work on the trash of a lakeFS installation's key-value store.

    Values may be given as they are or as rendered text; ``None`` and empty text mean no value.

    :param state_uri: folder for sightings, plans, undo files and reports, on any object store (templated)
    :param grace_hours: how far apart two looks must be that see the same unused bytes; at least 24 (templated)
    :param unsafe_grace_seconds: replaces ``grace_hours`` and may be shorter, for tests (templated)
    :param kinds: only these kinds of trash; empty is all of them (templated)
    :param read_rate: DynamoDB: most read capacity units a second (templated)
    :param segments: DynamoDB: parts of the table that are read at once
    :param kv_conn_id: connection of the database (templated)
    :param aws_conn_id: connection of the object store of ``state_uri``
    """

    template_fields: Sequence[str] = (
        "state_uri",
        "grace_hours",
        "unsafe_grace_seconds",
        "kinds",
        "read_rate",
        "kv_conn_id",
    )

    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        state_uri: str,
        grace_hours: float | str = 24,
        unsafe_grace_seconds: float | str | None = None,
        kinds: Sequence[str] | str | None = None,
        read_rate: float | str | None = None,
        segments: int = 4,
        kv_conn_id: str = DEFAULT_CONNECTION,
        aws_conn_id: str | None = "aws_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state_uri = state_uri
        self.grace_hours = grace_hours
        self.unsafe_grace_seconds = unsafe_grace_seconds
        self.kinds = kinds
        self.read_rate = read_rate
        self.segments = segments
        self.kv_conn_id = kv_conn_id
        self.aws_conn_id = aws_conn_id

    @cached_property
    def connection(self) -> KVConnection:
        """The database."""
        return KVConnection.of(self.kv_conn_id)

    @cached_property
    def state(self) -> TrashState:
        """What earlier runs left."""
        if self.state_uri in ("", "None"):
            raise ConfigError("state_uri is empty: the sightings and undo files need a folder")
        return TrashState(open_writer(self.state_uri, storage_options(self.aws_conn_id)))

    @cached_property
    def margins(self) -> TrashMargins:
        """The rendered margins."""
        unsafe = number("unsafe_grace_seconds", self.unsafe_grace_seconds)
        if unsafe is not None:
            return TrashMargins.with_grace(timedelta(seconds=unsafe), unsafe_short_grace=True)
        hours = number("grace_hours", self.grace_hours)
        return TrashMargins.with_grace(timedelta(hours=24 if hours is None else hours))

    @property
    def rate(self) -> ReadRate:
        """The rendered read rate."""
        return ReadRate(number("read_rate", self.read_rate), self.segments)

    @property
    def asked_kinds(self) -> list[str] | None:
        """The rendered kinds; None is all of them."""
        if self.kinds is None or self.kinds in ("", "None"):
            return None
        words = self.kinds.strip("[]").split(",") if isinstance(self.kinds, str) else self.kinds
        kinds = [word.strip(" '\"") for word in words]
        return [kind for kind in kinds if kind] or None

    def holder(self, context: Context) -> str | None:
        """Name every try of this task the same: a later try then fences an earlier one off that was only lost."""
        return f"{self.dag_id} {context['run_id']} {self.task_id}" if "run_id" in context else None

    def linked(self, context: Context, run_id: str, figures: dict[str, Any]) -> dict[str, Any]:
        """Link the task to the page of its run, and give figures and page to whoever waits for the outlets."""
        page = f"{self.state_uri.rstrip('/')}/runs/{run_id}/report.html"
        if "ti" in context:
            context["ti"].xcom_push(REPORT, page)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**figures, REPORT: page}
        return {**figures, REPORT: page}


def told(step: str, figures: dict[str, Any], location: str) -> dict[str, Any]:
    """Send a step's whole figures to Airflow's metrics, and return all of them for XCom."""
    for name, value in figures.items():
        if isinstance(value, int) and not isinstance(value, bool):
            stats.gauge(f"dredge.{step}.{name}", value, tags={"store": location.partition("?")[0]})
    return figures
