"""OpenLineage facets of a task. Imported only if Airflow's OpenLineage provider is installed."""

from collections.abc import Mapping
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset
from openlineage.client.facet_v2 import DatasetFacet, RunFacet

#: Names of the facets in events.
RUN, FIGURES = "dredge_run", "dredge_figures"


@attr.define
class DredgeRunFacet(RunFacet):
    """The Dredge run of a task.

    :param outcome: of the run, if known, such as ``success`` or ``dry_run``
    """

    runId: str
    repository: str
    outcome: str | None = None
    report: str | None = None


@attr.define
class DredgeFiguresFacet(DatasetFacet):
    """Counts of a task."""

    figures: dict[str, int]


def make_lineage(
    dataset: tuple[str, str], figures: Mapping[str, int], has_changed: bool, run: DredgeRunFacet
) -> OperatorLineage[Any, Any]:
    """Return lineage for the provider: the dataset is an output after deletions, else an input."""
    found = Dataset(*dataset, facets={FIGURES: DredgeFiguresFacet(dict(figures))})
    return OperatorLineage(
        inputs=[] if has_changed else [found], outputs=[found] if has_changed else [], run_facets={RUN: run}
    )
