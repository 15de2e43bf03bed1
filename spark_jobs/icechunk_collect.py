"""The distributed collection of an Icechunk repository: mark, candidates, guards, sweep, verify in one job.

Reads and writes as `dredge.icechunk.collection.steps` says; this file only brings Spark to it. All steps share one
job because Spark's start costs more than most of them; a job that is run again goes on where the last one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.job import JobConfig, job_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dredge.runs.summary import StepSummary


def run(spark: SparkSession, config: JobConfig) -> StepSummary:
    """Do every step of a planned collection that is not done yet.

    Args:
        spark: classic or Connect session.
        config: the run.

    Raises:
        DredgeError: see `dredge.icechunk.collection.steps.run_steps`.
    """
    from dredge.icechunk.collection.steps import Run, run_steps
    from dredge.storage import StorageOptions
    from spark_jobs.rows import SparkRunner

    options = config.options or StorageOptions.from_env()
    return run_steps(Run.open(config.run_uri, options), SparkRunner(spark, options.to_env()))


def main() -> None:
    """Run the job as a program; see `spark_jobs.job`."""
    job_main("icechunk_collect", run, last=True)


if __name__ == "__main__":
    main()
