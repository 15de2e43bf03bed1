"""The step that reads what active commits name."""

from __future__ import annotations

from airflow_dredge.operators.lakefs.kv_spark import LakeFSKVSparkOperator


class LakeFSListCommittedOperator(LakeFSKVSparkOperator):
    """Read the addresses that active commits of a repository name.

    Ranges that an earlier run has read are taken from the committed index.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)
    :param kv_conn_id: connection of lakeFS's key-value store, the same as the plan step's: commits are then read from
        it (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "list_committed"
