"""One step of a planned run on Spark.

    spark-submit spark_jobs/step.py --step subtract --run s3://bucket/repo/_lakefs/retention/gc/unified/<run
    id>
    python spark_jobs/step.py --step subtract --run URI --remote 'sc://host:15002'
    spark-submit spark_jobs/step.py --serve SOCKET

The functions in the table document input, output and errors of each step.
"""

from collections.abc import Callable, Mapping

from airflow_dredge.spark_jobs.application import load_modules, serve
from airflow_dredge.spark_jobs.job import Job, job_main
from dredge.gc import steps as lakefs
from dredge.runs.payload import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions


def on_lakefs(step: str) -> Job:
    """Return the job of a lakeFS step, by the name of its function in `dredge.gc.steps`."""

    def do(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
        work: Callable[[lakefs.Run, TaskRunner], StepSummary] = getattr(lakefs, step)
        return work(lakefs.Run.open(run_uri, options), runner)

    return Job(do)


def check_executors(run_uri: str, options: StorageOptions, runner: TaskRunner) -> None:
    """Import the common modules of tasks on the executors, for a preflight, without reading or writing data."""
    runner.run("check", load_modules, {}, [{}] * runner.default_parallelism)


def icechunk_mark(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
    """Run the unfinished steps of an Icechunk collection up to its safety checks."""
    from dredge.icechunk.collection.steps import Run, find_garbage

    return find_garbage(Run.open(run_uri, options), runner)


def icechunk_collect(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
    """Run all unfinished steps of an Icechunk collection, with sweep and verification."""
    from dredge.icechunk.collection.steps import Run, run_steps

    return run_steps(Run.open(run_uri, options), runner)


#: Every step on Spark. A `last` step ends the run's Connect session.
JOBS: Mapping[str, Job] = {
    "check_executors": Job(check_executors).ending(),
    "slice_listing": on_lakefs("slice_listing"),
    "list_committed": on_lakefs("list_committed"),
    "subtract": on_lakefs("subtract"),
    "bulk_delete": on_lakefs("bulk_delete").ending(),
    "icechunk_mark": Job(icechunk_mark),
    "icechunk_collect": Job(icechunk_collect).ending(),
}


def main() -> None:
    """Run a step as a program; see `spark_jobs.job`."""
    job_main(JOBS, serve=serve)


if __name__ == "__main__":
    main()
