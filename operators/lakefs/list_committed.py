"""The step that reads what active commits name."""

from __future__ import annotations

from dredge.gc.list_committed import ListCommittedOutput
from operators.spark import LakeFSSparkOperator


class LakeFSListCommittedOperator(LakeFSSparkOperator):
    """Read the addresses that active commits of a repository name.

    Ranges that an earlier run has read are taken from the committed index.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "list_committed"
    folder = ListCommittedOutput.STEP
