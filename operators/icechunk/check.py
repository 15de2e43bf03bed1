"""The first task of an Icechunk collection: the preflight, where only that is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.check import CheckOperator
from airflow_dredge.operators.icechunk.base import IcechunkOperator
from dredge.icechunk.collection.config import CollectConfig

if TYPE_CHECKING:
    from dredge.runs.preflight import Preflight


class IcechunkCheckOperator(IcechunkOperator, CheckOperator):
    """Ask for everything that a collection will need, as `dredge icechunk check` does.

    :param storage: URI of the repository (templated)
    :param config: as for ``IcechunkPlanCollectionOperator`` (templated)
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    template_fields: Sequence[str] = ("check_only", "storage", "config")

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    def ask(self) -> Preflight:
        """Ask the store and the repository."""
        # Loaded by this task only: every task of every DAG reads the files of all operators.
        from dredge.icechunk.preflight import check

        return check(CollectConfig.from_params({"storage": self.storage, **self.config}), self.options)
