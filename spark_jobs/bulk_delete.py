"""The distributed step that checks the candidates again and deletes them; the only job that deletes.

Reads and writes as `dredge.gc.steps.bulk_delete` says; this file only brings Spark to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.gc import steps
from spark_jobs.job import JobConfig, job_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.runs.summary import StepSummary


def run(spark: SparkSession, config: JobConfig) -> StepSummary:
    """Check the candidates again, then delete them; a dry run deletes nothing.

    Args:
        spark: classic or Connect session.
        config: the run.

    Raises:
        DredgeError: see `dredge.gc.steps.bulk_delete`.
    """
    context, runner = config.doors(spark)
    return steps.bulk_delete(context, runner)


def main() -> None:
    """Run the job as a program; see `spark_jobs.job`."""
    job_main("bulk_delete", run, last=True)


if __name__ == "__main__":
    main()
