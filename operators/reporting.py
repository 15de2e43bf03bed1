"""Results of a task for Airflow: metrics, XComs, report link, callback event, OpenLineage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.common.compat.sdk import BaseOperatorLink, Stats, XCom
from airflow.sdk import BaseOperator

from airflow_dredge.operators.failures import first_failure
from dredge.errors import RefusedError
from dredge.runs.payload import StepSummary

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.sdk.types import TaskInstanceKey

#: XCom: address of the report page.
REPORT = "report_uri"
#: XCom of the task that ends a run, also after a failure: the event for callbacks.
EVENT = "event"
#: Outcomes of a run without a problem.
COMPLETE = ("success", "dry_run")
#: Counts that make a dataset an output in OpenLineage.
CHANGES = ("deleted_objects", "rows_removed")
#: OpenLineage's name of a scheme with several names.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "postgresql": "postgres"}


class ReportLink(BaseOperatorLink):
    """Link from the task to the run's report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's address; empty before the report exists."""
        return XCom.get_value(ti_key=ti_key, key=REPORT) or ""


def leave_event(
    context: Context,
    kind: str,
    repository: str,
    *,
    run: str = "",
    counts: Mapping[str, int] | None = None,
    report: str = "",
    text: str = "",
) -> None:
    """Push the event of a run for callbacks and notifiers of the task.

    :param kind: outcome of the run, such as ``alarm``, ``refused``, ``failed`` or ``success``
    """
    event = {
        "kind": kind,
        "repository": repository,
        "run": run,
        "counts": dict(counts or {}),
        "report": report,
        "text": text,
    }
    context["ti"].xcom_push(EVENT, event)


def report_metrics(step: str, summary: StepSummary, repository: str) -> dict[str, Any]:
    """Send the metrics of a step, ``dredge.<step>.<noun>_<unit>``, and return its counts for XCom.

    docs/metrics.md lists them.
    """
    tags = {"repository": repository}
    for name, value in summary.counts.items():
        Stats.gauge(f"dredge.{step}.{name}", value, tags=tags)
    Stats.timing(f"dredge.{step}.duration", summary.seconds * 1000, tags=tags)
    return summary.as_xcom()


def report_run(summary: StepSummary, repository: str) -> None:
    """Send the metrics of a run."""
    tags, outcome = {"repository": repository}, str(summary.details["outcome"])
    Stats.incr("dredge.run.ended", tags={**tags, "outcome": outcome})
    for kind, value in summary.details.get("requests", {}).items():
        Stats.gauge(f"dredge.run.{kind}", value, tags=tags)
    if outcome in COMPLETE:
        # A timestamp, because a gauge keeps its value until the next run: an age would not grow.
        ended_at = int(summary.finished_at.timestamp())
        Stats.gauge("dredge.run.complete_timestamp_seconds", ended_at, tags={**tags, "outcome": outcome})


def report_figures(step: str, figures: dict[str, Any], store: str) -> dict[str, Any]:
    """Send the integers of a step as metrics, and return all figures."""
    for name, value in figures.items():
        if isinstance(value, int) and not isinstance(value, bool):
            Stats.gauge(f"dredge.{step}.{name}", value, tags={"store": store.partition("?")[0]})
    return figures


@dataclass(frozen=True, slots=True)
class Lineage:
    """Facts for OpenLineage about a task; docs/metrics.md describes the events.

    :param uri: of the storage namespace, the Icechunk repository or the key-value store
    """

    uri: str
    repository: str
    run_id: str
    figures: Mapping[str, int]
    outcome: str = ""
    report: str = ""

    @property
    def has_changed(self) -> bool:
        """Whether the task deleted objects or rows."""
        return any(self.figures.get(name) for name in CHANGES)

    @property
    def dataset(self) -> tuple[str, str]:
        """Namespace and name by OpenLineage's rules: ``s3://bucket`` and a prefix, or ``file`` and a path."""
        scheme, _, rest = self.uri.partition("?")[0].partition("://")
        place, _, path = rest.partition("/")
        if scheme in ("file", "local"):
            return "file", f"/{path}".rstrip("/")
        return f"{_SCHEMES.get(scheme, scheme)}://{place}", path.strip("/") or "/"


class LineageMixin:
    """An operator that gives lineage to Airflow's OpenLineage provider."""

    lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return the task's lineage. The provider calls this after success and failure."""
        if self.lineage is None:
            return None
        # Only the provider calls this, so its packages are installed here.
        from airflow_dredge.operators.lineage_facets import DredgeRunFacet, make_lineage

        found = self.lineage
        run = DredgeRunFacet(found.run_id, found.repository, found.outcome or None, found.report or None)
        return make_lineage(found.dataset, found.figures, found.has_changed, run)


class ReportOperator(LineageMixin, BaseOperator):
    """Base of the task that writes a run's report, releases the run's lease, and fails if the run is not complete.

    The task sets the state of the DAG run: make it a teardown (``as_teardown(on_failure_fail_dagrun=True)``), so that
    it also runs after failures and after a person marked the run as failed. A run that a person rejected is a success.
    Outlet events have the counts.
    """

    step: ClassVar[str]
    key: ClassVar[str]
    """Name of the repository in the XCom."""
    operator_extra_links = (ReportLink(),)

    def refuse_without_run(self, context: Context, repository: str) -> NoReturn:
        """Leave an event, and fail with the first error of the DAG run."""
        why = first_failure(self, context)
        leave_event(context, "failed", repository, text=why)
        raise RefusedError(f"the run has no plan, so there is no report. Nothing was deleted. {why}")

    def conclude(
        self,
        context: Context,
        uri: str,
        repository: str,
        run_id: str,
        summary: StepSummary,
        read_report: Callable[[], Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Send metrics, event and lineage of a run, and return its counts."""
        page, outcome, counts = str(summary.details["page"]), summary.details["outcome"], dict(summary.counts)
        context["ti"].xcom_push(REPORT, page)
        self.lineage = Lineage(uri, repository, run_id, counts, outcome, page)
        figures = report_metrics(self.step, summary, repository)
        report_run(summary, repository)
        problem = find_problem(outcome, read_report)
        leave_event(context, outcome, repository, run=run_id, counts=counts, report=page, text=problem)
        if problem:
            raise RefusedError(f"run {run_id} is {outcome}. {problem} Report: {page}")
        facts = {self.key: repository, "run_id": run_id, "outcome": outcome}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {**facts, REPORT: page, **counts}
        return {**figures, **facts, REPORT: page}


def find_problem(outcome: str, read_report: Callable[[], Mapping[str, Any]]) -> str:
    """Return the reason why a run is not complete; empty if it is.

    A run that a person rejected is complete; a run that got no answer is not.
    """
    if outcome in COMPLETE:
        return ""
    report = read_report()
    approval = report["approval"]
    if outcome == "rejected" and approval is not None and approval["state"] == "rejected" and approval["by"]:
        return ""
    return str(next(iter(report["problems"]), "a task ended without an error message"))
