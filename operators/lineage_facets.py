"""Lineage in OpenLineage's classes; only Airflow's provider for it leads here, so they may be loaded."""

from __future__ import annotations

from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset
from openlineage.client.facet_v2 import DatasetFacet, RunFacet

from airflow_dredge.operators.lineage import Lineage

#: Names of the facets in events.
RUN, FIGURES = "dredge_run", "dredge_figures"


@attr.define
class DredgeRunFacet(RunFacet):
    """Dredge's run that a task belongs to.

    :param runId: its id, as in Dredge's pages and commands
    :param repository: what the metrics call what it works on
    :param outcome: of the run, where the task knows it, such as ``success`` or ``dry_run``
    :param report: URI of its report, where the task wrote it
    """

    runId: str
    repository: str
    outcome: str | None = None
    report: str | None = None


@attr.define
class DredgeFiguresFacet(DatasetFacet):
    """What a task found or did.

    :param figures: by name, unit last; docs/metrics.md lists them
    """

    figures: dict[str, int]


def facets_of(lineage: Lineage) -> OperatorLineage[Any, Any]:
    """Return lineage for the provider: what was deleted from is an output, what was only looked at an input.

    :param lineage: what a task worked on
    """
    namespace, name = lineage.dataset
    found = Dataset(namespace, name, facets={FIGURES: DredgeFiguresFacet(dict(lineage.figures))})
    facet = DredgeRunFacet(
        lineage.run_id, lineage.repository, lineage.outcome or None, lineage.report or None
    )
    return OperatorLineage(
        inputs=[] if lineage.has_changed else [found],
        outputs=[found] if lineage.has_changed else [],
        run_facets={RUN: facet},
    )
