"""The distributed step that reads the addresses active commits name; a range in the index is not read again.

Reads and writes as `dredge.gc.steps.list_committed` says; this file only brings Spark to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dredge.gc import steps
from spark_jobs.job import JobConfig, job_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.runs.summary import StepSummary


def run(spark: SparkSession, config: JobConfig) -> StepSummary:
    """Find the active commits and the addresses they name.

    Args:
        spark: classic or Connect session.
        config: the run.

    Raises:
        DredgeError: see `dredge.gc.steps.list_committed`.
    """
    context, runner = config.doors(spark)
    return steps.list_committed(context, runner)


def main() -> None:
    """Run the job as a program; see `spark_jobs.job`."""
    job_main("list_committed", run)


if __name__ == "__main__":
    main()
