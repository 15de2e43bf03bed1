"""The step that finds the candidates."""

from __future__ import annotations

from airflow_dredge.operators.lakefs.spark import LakeFSSparkOperator


class LakeFSSubtractLiveOperator(LakeFSSparkOperator):
    """Write the listed objects that nothing live names, each with a reason.

    Deletes nothing.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "subtract"
