"""Operators that tell OpenLineage, where Airflow's provider for it is installed and set up.

The provider asks each task that ended for ``get_openlineage_facets_on_complete``; nobody else calls it, and only it
loads OpenLineage's classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.lineage import Lineage

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class TellsLineage:
    """An operator that tells OpenLineage what its task worked on; what it knows, it puts into ``lineage``."""

    lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Return what the task read and changed; the provider asks for it, after a failure, too.

        :param task_instance: of the task; what matters of it, the operator has
        """
        if self.lineage is None:
            return None
        # Loaded by the provider's own question only: nobody else has its packages.
        from airflow_dredge.operators.lineage_facets import facets_of

        return facets_of(self.lineage)
