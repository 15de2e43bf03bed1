"""What a task worked on, for OpenLineage; docs/metrics.md says what its events carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dredge.runs.summary import StepSummary

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
