"""The task that looks after range and metarange files that no commit names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_dredge.operators.hooks.kv import kv_env
from airflow_dredge.operators.lakefs.undo import LakeFSUndoOperator
from dredge.gc import steps
from dredge.process import environment
from dredge.runs.summary import StepSummary

if TYPE_CHECKING:
    from dredge.lakefs import LakeFS
    from dredge.storage import StorageOptions


class LakeFSMetadataOperator(LakeFSUndoOperator):
    """Find which range and metarange files no commit names, put back what one has come to name, and let those go that
    have waited, where that is asked for.

    :param config: settings by name, such as ``{"repository": "lake", "metadata": "report"}``; docs/settings.md lists
        them (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, which alone knows every commit (templated)
    :param lakefs_conn_id: connection of the lakeFS server
    :param aws_conn_id: connection of the object store; None, or no ``aws_default``, for local folders and machine roles
    """

    step = "metadata"
    template_fields: Sequence[str] = (*LakeFSUndoOperator.template_fields, "kv_conn_id")

    def __init__(self, *, kv_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kv_conn_id = kv_conn_id

    def work(self, holder: str, client: LakeFS, options: StorageOptions | None) -> StepSummary:
        """Do the run."""
        config = steps.MetadataConfig.from_params(self.config)
        with environment(kv_env(self.kv_conn_id)):
            return steps.collect_metadata(config, holder, client, options)
