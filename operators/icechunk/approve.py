"""The step in which a person says whether the candidates of a repository may be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.approve import ApproveOperator
from airflow_dredge.operators.icechunk.base import open_run

if TYPE_CHECKING:
    from dredge.icechunk.collection.steps import Run


class IcechunkApproveOperator(ApproveOperator):
    """Ask a person whether a run may delete, where its settings and its limits want that; else go on at once.

    ``ApproveOperator`` says how it is answered; commands are ``dredge icechunk approve`` and ``dredge icechunk
    reject``.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    asks = "Delete the garbage of an Icechunk repository?"

    def __init__(self, *, aws_conn_id: str | None = "aws_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.aws_conn_id = aws_conn_id

    @property
    def steps(self) -> Any:
        """The steps of a collection of Icechunk."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.collection import steps

        return steps

    def open(self) -> Run:
        """Open the run."""
        return open_run(self.run_uri, self.aws_conn_id)
