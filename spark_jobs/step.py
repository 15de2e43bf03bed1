"""One step of a planned run, spread over Spark.

    spark-submit spark_jobs/step.py --step subtract --run s3://bucket/repo/_lakefs/retention/gc/unified/<run id>
    python spark_jobs/step.py --step subtract --run URI --remote 'sc://host:15002'
    spark-submit spark_jobs/step.py --serve SOCKET

What a step reads, writes and raises is said by the function that the table names; this file only brings Spark to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_dredge.spark_jobs.application import load_modules, serve
from airflow_dredge.spark_jobs.job import Job, job_main
from dredge.gc import steps as lakefs
from dredge.runs.summary import StepSummary
from dredge.runs.tasks import TaskRunner
from dredge.storage import StorageOptions


def on_lakefs(step: str) -> Job:
    """Make a job of a step of a lakeFS collection.

    Args:
        step: name of a function of `dredge.gc.steps`.
    """

    def do(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
        work: Callable[[lakefs.Run, TaskRunner], StepSummary] = getattr(lakefs, step)
        return work(lakefs.Run.open(run_uri, options), runner)

    return Job(do)


def check_executors(run_uri: str, options: StorageOptions, runner: TaskRunner) -> None:
    """Let executors load what the tasks of a run have in common: part of a preflight; reads and writes nothing.

    Args:
        run_uri: names the preflight; there is no run.
        options: how the object store would be reached.
        runner: spreads the tasks.

    Raises:
        DredgeError: as `SparkRunner.run` says.
    """
    runner.run("check", load_modules, {}, [{}] * runner.default_parallelism)


def icechunk_mark(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
    """Do the steps of a planned Icechunk collection up to its guards that are not done yet: mark, candidates, guards.

    Args:
        run_uri: the run.
        options: how the object store is reached.
        runner: spreads the tasks.

    Raises:
        DredgeError: see `dredge.icechunk.collection.steps.find_garbage`.
    """
    from dredge.icechunk.collection.steps import Run, find_garbage

    return find_garbage(Run.open(run_uri, options), runner)


def icechunk_collect(run_uri: str, options: StorageOptions, runner: TaskRunner) -> StepSummary:
    """Do every step of a planned Icechunk collection that is not done yet: after `icechunk_mark`, sweep and verify.

    A job that is run again goes on where the last one stopped.

    Args:
        run_uri: the run.
        options: how the object store is reached.
        runner: spreads the tasks.

    Raises:
        DredgeError: see `dredge.icechunk.collection.steps.run_steps`.
    """
    from dredge.icechunk.collection.steps import Run, run_steps

    return run_steps(Run.open(run_uri, options), runner)


#: Every step that runs on Spark. `last` ones are the last of their run, so that a Connect session may end with them.
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
