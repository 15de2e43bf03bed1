"""One whole run with its own measurements: `python -m benchmarks.driver ENGINE REPOSITORY` prints JSON.

    floor     every step in this process, without Spark, on one core
    local     the same with two processes
    submit    each distributed step through spark-submit, like the operators
    connect   all steps in one client session of a running Spark Connect server

Server and store come from the environment, as in a job.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.requests import open_requests
from benchmarks.s3_store import by_kind, by_place
from dredge.cli import own_process
from dredge.gc import steps
from dredge.gc.config import GCConfig
from dredge.gc.run import Run
from dredge.runs.parts import BY_DIGEST, cache_parts
from dredge.runs.payload import from_json
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage.parallel import at_once

JOB = Path(__file__).resolve().parent.parent / "airflow_dredge" / "spark_jobs" / "step.py"
SETTINGS = "DREDGE_BENCH_SETTINGS"
"""Environment variable with further settings of the run, as JSON."""
RUN = {
    "mode": "clean",
    "dry_run": False,
    "unsafe_min_age_seconds": 1.0,
    "unsafe_grace_seconds": 0.0,
    "max_delete_percent": None,
    "max_delete_objects": 1_000_000_000,
    "keep_unnamed_days": 0.0,
}
"""Settings of every benchmark's run."""
SESSION = "5b1c7a52-3d0e-4d5f-9d64-0c2f1f0b7a11"


def main() -> None:
    """Run once and print seconds by step."""
    engine, repository, *rest = sys.argv[1:]
    if engine == "floor":  # as on the command line
        own_process()
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}
    requests: dict[str, dict[str, int]] = {}
    places: dict[str, dict[str, dict[str, int]]] = {}
    times: dict[str, tuple[float, float]] = {}

    counted = open_requests(os.environ)

    @contextmanager
    def timed(name: str):  # type: ignore[no-untyped-def]
        before, used, begun = (
            counted.places() if counted else Counter(),
            time.process_time(),
            time.perf_counter(),
        )
        began_at = time.time()
        yield
        times[name] = began_at, time.time()
        seconds[name] = round(time.perf_counter() - begun, 3)
        cpu[name] = round(time.process_time() - used, 3)
        if counted:
            asked = counted.places() - before
            requests[name], places[name] = dict(by_kind(asked)), by_place(asked)

    begun = time.perf_counter()
    shared = ExitStack()
    with timed("session"):
        runner, spread, close = _engine(engine, rest[0] if rest else "")
    config = from_json(
        GCConfig, RUN | {"repository": repository} | json.loads(os.environ.get(SETTINGS, "{}"))
    )
    with timed("plan"):
        # In one process as on the command line; in the other engines a separate task takes the lease.
        if isinstance(runner, LocalRunner):
            shared.enter_context(cache_parts(BY_DIGEST))
        holder = f"benchmark {engine}"
        lease = None if isinstance(runner, LocalRunner) else steps.acquire_lease(config, holder)
        plan_run = steps.plan_run
        shared.enter_context(at_once())(steps.load_steps)
        plan = plan_run(config, lease)
    context = Run.open(plan.run_uri, plan=plan)
    suspects: dict[str, int] = {}
    todo: list[tuple[str, Callable[[], Any]]] = [
        ("slice_listing", lambda: spread("slice_listing", context)),
        ("mark_uncommitted", lambda: steps.mark_uncommitted(context)),
        ("list_committed", lambda: spread("list_committed", context)),
        ("subtract", lambda: spread("subtract", context)),
        ("check_limits", lambda: suspects.update(steps.check_limits(context).counts)),
        ("bulk_delete", lambda: spread("bulk_delete", context)),
        ("verify", lambda: steps.verify(context)),
        ("save_report", lambda: steps.save_report(context)),
        ("release_lease", lambda: steps.release_lease(context)),
    ]
    # In one process, with a shared cache, as on the command line; in the other engines each job opens the run.
    with shared, context.going_on() if isinstance(runner, LocalRunner) else nullcontext():
        for name, body in todo:
            with timed(name):
                body()
    close()
    own = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "runner": type(runner).__name__,
        "run_uri": plan.run_uri,
        "seconds": seconds,
        "times": times,
        "cpu": cpu,
        "requests": requests,
        "places": places,
        "check_limits": suspects,
        "total": round(time.perf_counter() - begun, 2),
        "driver_peak_mib": own.ru_maxrss // 1024,
    }
    print(json.dumps(figures))


def _engine(
    engine: str, remote: str
) -> tuple[TaskRunner | None, Callable[[str, Run], Any], Callable[[], None]]:
    """Return the runner, the function for a distributed step, and the clean-up."""
    if engine == "submit":
        conf = json.loads(
            subprocess.run(
                [sys.executable, "-m", "airflow_dredge.spark_jobs.session"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        return None, lambda step, run: _submit(conf, step, run.folder.uri), lambda: None
    if engine == "connect":
        from airflow_dredge.spark_jobs.rows import SparkRunner
        from airflow_dredge.spark_jobs.session import close_session, open_session, with_session_id
        from dredge.storage import StorageOptions

        spark = open_session("benchmark", with_session_id(remote, SESSION))
        spread = SparkRunner(spark, StorageOptions.from_env().to_env())
        return (
            spread,
            lambda step, run: _step(step, Run.open(run.folder.uri), spread),
            lambda: close_session(spark),
        )
    runner = LocalRunner(0 if engine == "floor" else 2)
    return runner, lambda step, run: _step(step, run, runner), lambda: None


def _step(step: str, run: Run, runner: TaskRunner) -> None:
    getattr(steps, step)(run, runner)


def _submit(conf: dict[str, str], step: str, uri: str) -> None:
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    job = [str(JOB), "--step", step, "--run", uri]
    command = ["spark-submit", "--master", "local[2]", *settings, *job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step} ended with {done.returncode}:\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    main()
