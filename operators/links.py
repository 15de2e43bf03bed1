"""The link from a task to the report of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseOperatorLink, XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

#: XCom of a task that wrote a report: the address of its page.
REPORT = "report_uri"


class ReportLink(BaseOperatorLink):
    """Link from the task to the run's report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's address, empty before there is one."""
        return XCom.get_value(ti_key=ti_key, key=REPORT) or ""
