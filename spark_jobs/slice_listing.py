"""The distributed step that lists every object below `data/`, slices side by side.

Reads and writes as `dredge.gc.steps.slice_listing` says; this file only brings Spark to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.gc import steps
from spark_jobs.job import JobConfig, job_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.runs.summary import StepSummary


def run(spark: SparkSession, config: JobConfig) -> StepSummary:
    """List the objects of the run's namespace that are older than the cutoff.

    Args:
        spark: classic or Connect session.
        config: the run.

    Raises:
        DredgeError: see `dredge.gc.steps.slice_listing`.
    """
    context, runner = config.doors(spark)
    return steps.slice_listing(context, runner)


def main() -> None:
    """Run the job as a program; see `spark_jobs.job`."""
    job_main("slice_listing", run)


if __name__ == "__main__":
    main()
