"""The step in which a person says whether the candidates of a repository may be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.approve import ApproveOperator
from airflow_dredge.operators.lakefs.base import LakeFSOperator
from dredge.gc import steps

if TYPE_CHECKING:
    from dredge.gc.steps import Run


class LakeFSApproveOperator(LakeFSOperator, ApproveOperator):
    """Ask a person whether a run may delete, where its settings and its limits want that; else go on at once.

    ``ApproveOperator`` says how it is answered; commands are ``dredge gc approve`` and ``dredge gc reject``.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    asks = "Delete the garbage of a lakeFS repository?"

    @property
    def steps(self) -> Any:
        """The steps of a collection of lakeFS."""
        return steps

    def open(self) -> Run:
        """Open the run."""
        return self.open_run(self.run_uri)
