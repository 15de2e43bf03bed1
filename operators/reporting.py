"""Results of a task for Airflow: metrics, XComs, report link, callback event, OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperatorLink, Stats, XCom

from dredge.runs.summary import StepSummary

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey


#: XCom of a task that wrote a report: the address of its page.
REPORT = "report_uri"


class ReportLink(BaseOperatorLink):
    """Link from the task to the run's report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's address, empty before there is one."""
        return XCom.get_value(ti_key=ti_key, key=REPORT) or ""


#: XCom of the task that ends a run, also of one that failed.
EVENT = "event"


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
    """Leave the event of a run for callbacks of the task.

    :param context: of the task
    :param kind: what became of the run: its outcome, such as ``alarm``, ``refused``, ``failed`` or ``success``
    :param repository: name or URI
    :param run: its id; "" where it came to no plan
    :param counts: figures by name
    :param report: address of the page; "" where there is none
    :param text: what went wrong; "" for nothing
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


#: Outcomes of a run that did all it was asked for.
COMPLETE = ("success", "dry_run")


def report_metrics(step: str, summary: StepSummary, repository: str) -> dict[str, Any]:
    """Send a step's figures to the metrics, and return what XCom keeps: figures, no lists of objects.

    :param step: name of the step
    :param summary: of the step
    :param repository: name or URI, the tag of the metrics
    """
    tags = {"repository": repository}
    for name, value in summary.counts.items():
        Stats.gauge(f"dredge.{step}.{name}", value, tags=tags)
    Stats.timing(f"dredge.{step}.duration", summary.seconds * 1000, tags=tags)
    return summary.as_xcom()


def report_run(summary: StepSummary, repository: str) -> None:
    """Send what became of a run to the metrics; its objects and bytes are figures of the step that wrote the report.

    :param summary: of that step, whatever became of the run
    :param repository: name or URI, the tag of the metrics
    """
    tags, outcome = {"repository": repository}, str(summary.details["outcome"])
    Stats.incr("dredge.run.ended", tags={**tags, "outcome": outcome})
    for kind, value in summary.details.get("requests", {}).items():
        Stats.gauge(f"dredge.run.{kind}", value, tags=tags)
    if outcome in COMPLETE:
        # A time and not an age: a gauge says the same until the next run, an age would have to grow meanwhile.
        ended_at = int(summary.finished_at.timestamp())
        Stats.gauge("dredge.run.complete_timestamp_seconds", ended_at, tags={**tags, "outcome": outcome})


def report_figures(step: str, figures: dict[str, Any], store: str) -> dict[str, Any]:
    """Send the whole numbers among a step's figures to the metrics, and return all of them for XCom.

    :param step: name of the step
    :param figures: by name
    :param store: address of the key-value store, the tag of the metrics
    """
    for name, value in figures.items():
        if isinstance(value, int) and not isinstance(value, bool):
            Stats.gauge(f"dredge.{step}.{name}", value, tags={"store": store.partition("?")[0]})
    return figures


#: Figures of which one that is not zero says that what the task looked at is no longer the same.
CHANGES = ("deleted_objects", "rows_removed")
#: What OpenLineage calls schemes that go by several names.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "postgresql": "postgres"}


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a task worked on.

    :param uri: of the repository's storage namespace, of the Icechunk repository, or of the key-value store
    :param repository: what the metrics call it
    :param run_id: of Dredge's run
    :param figures: of the step, unit last, as XCom and metrics have them
    :param outcome: of the run, where the task knows it
    :param report: URI of the run's report, where the task wrote it
    """

    uri: str
    repository: str
    run_id: str
    figures: Mapping[str, int]
    outcome: str = ""
    report: str = ""

    @property
    def has_changed(self) -> bool:
        """Whether the task deleted something."""
        return any(self.figures.get(name) for name in CHANGES)

    @property
    def dataset(self) -> tuple[str, str]:
        """Namespace and name by OpenLineage's rules for stores: ``s3://bucket`` and what the keys begin with; ``file``
        and a path."""
        scheme, _, rest = self.uri.partition("?")[0].partition("://")
        place, _, path = rest.partition("/")
        if scheme in ("file", "local"):
            return "file", f"/{path}".rstrip("/")
        return f"{_SCHEMES.get(scheme, scheme)}://{place}", path.strip("/") or "/"


def of_step(uri: str, repository: str, run_id: str, summary: StepSummary) -> Lineage:
    """Make the lineage of a step.

    :param uri: of what it worked on
    :param repository: what the metrics call it
    :param run_id: of Dredge's run
    :param summary: of the step
    """
    return Lineage(uri, repository, run_id, dict(summary.counts))


class LineageMixin:
    """An operator that tells OpenLineage what its task worked on; what it knows, it puts into ``lineage``."""

    lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return what the task read and changed; the provider asks for it, after a failure, too.

        :param task_instance: of the task; what matters of it, the operator has
        """
        if self.lineage is None:
            return None
        # Loaded by the provider's own question only: nobody else has its packages.
        from airflow_dredge.operators.lineage_facets import DredgeRunFacet, make_lineage

        found = self.lineage
        run = DredgeRunFacet(found.run_id, found.repository, found.outcome or None, found.report or None)
        return make_lineage(found.dataset, found.figures, found.has_changed, run)
