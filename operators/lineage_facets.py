"""Lineage in OpenLineage's classes; only Airflow's provider for it leads here, so they may be loaded."""

from __future__ import annotations

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


def make_lineage(
    dataset: tuple[str, str], figures: Mapping[str, int], has_changed: bool, run: DredgeRunFacet
) -> OperatorLineage[Any, Any]:
    """Return lineage for the provider: a dataset that the task deleted from is an output, any other an input.

    :param dataset: namespace and name
    :param figures: of the task
    :param has_changed: whether it deleted something
    :param run: Dredge's run
    """
    found = Dataset(*dataset, facets={FIGURES: DredgeFiguresFacet(dict(figures))})
    return OperatorLineage(
        inputs=[] if has_changed else [found], outputs=[found] if has_changed else [], run_facets={RUN: run}
    )
