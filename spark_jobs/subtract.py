"""The distributed step that writes the candidates: listed objects that nothing live names.

Reads and writes as `dredge.gc.steps.subtract` says; this file only brings Spark to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.gc import steps
from spark_jobs.job import JobConfig, job_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.runs.summary import StepSummary


def run(spark: SparkSession, config: JobConfig) -> StepSummary:
    """Subtract what is staged and what is committed from the listing.

    Args:
        spark: classic or Connect session.
        config: the run.

    Raises:
        DredgeError: see `dredge.gc.steps.subtract`.
    """
    context, runner = config.doors(spark)
    return steps.subtract(context, runner)


def main() -> None:
    """Run the job as a program; see `spark_jobs.job`."""
    job_main("subtract", run)


if __name__ == "__main__":
    main()
