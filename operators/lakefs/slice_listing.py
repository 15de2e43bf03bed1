"""The step that lists the object store."""

from __future__ import annotations

from airflow_dredge.operators.lakefs.spark import LakeFSSparkOperator


class LakeFSSliceListingOperator(LakeFSSparkOperator):
    """List every object below ``data/`` of a repository's namespace, slices side by side.

    The listing is complete before anything else is read: an object that is uploaded later is never a
    candidate.

    :param run_uri: folder of the run, as the plan step returned it (templated)
    :param spark_engine: ``submit`` for spark-submit, ``connect`` for a Spark Connect server (templated)

    Further parameters are those of ``LakeFSSparkOperator``.
    """

    step = "slice_listing"
