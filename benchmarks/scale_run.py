"""A whole run over a made-up lake, or the rest of one: `python -m benchmarks.scale_run OBJECTS RESULT MASTER PIDS`.

RESULT is a file (`Result`) that gets the figures of each step as it ends; a step that it has is not run again. MASTER
is the number of processes of the runner, or the URL of a Spark cluster. PIDS are process ids by name, as JSON: those of
the lakeFS server and of the cluster's workers.

The runner's processes also import this module, so that they use the same store.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import scale_store
from benchmarks.driver import RUN
from benchmarks.latency import LATENCY
from benchmarks.measure import Meter
from benchmarks.scale_lake import REPOSITORY, ScaleLake
from benchmarks.scale_result import Result
from benchmarks.tables import STEPS

scale_store.install()

from dredge.gc import steps  # noqa: E402
from dredge.gc.config import GCConfig  # noqa: E402
from dredge.gc.run import Run  # noqa: E402
from dredge.runs.payload import from_json  # noqa: E402
from dredge.runs.run import reopen  # noqa: E402
from dredge.runs.tasks import LocalRunner, TaskRunner  # noqa: E402

ON_SPARK = ("slice_listing", "list_committed", "subtract", "bulk_delete")
"""Steps that Airflow runs on Spark; the others use a runner in a local run only."""


def main() -> None:
    """Run the missing steps, and keep the cost of each."""
    lake, path, master = ScaleLake(int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    trees = {"run": os.getpid(), **json.loads(sys.argv[4])}
    result = Result.read(path)
    assert result is not None

    def measured(name: str, work: Callable[[], Any]) -> Any:
        if name in result.steps:
            return None
        if result.begun == name == "bulk_delete":
            result.continued.append(name)  # continues behind its ledger; other steps begin again
        result.begun = name
        result.write(path)
        before, size = scale_store.requests(lake.folder), _written(lake.root)
        begun = time.perf_counter()
        with Meter(trees, every_seconds=0.5) as meter:
            done = work()
        seconds = time.perf_counter() - begun
        asked = scale_store.requests(lake.folder) - before
        made_up = {kind: asked.pop(kind, 0) for kind in scale_store.MADE_UP}
        ours = [tree for tree in trees if tree != "server"]
        used, read = (sum(found[tree] for tree in ours) for found in (meter.cpu_seconds, meter.read_mib))
        result.steps[name] = {
            "seconds": round(seconds, 2),
            "cpu_seconds": round(max(0.0, used - made_up["made_up_ns"] / 1e9), 2),
            "made_up_cpu_seconds": round(made_up["made_up_ns"] / 1e9, 2),
            "server_cpu_seconds": round(meter.cpu_seconds["server"], 2),
            "peak_mib": round(meter.peak_mib["run"]),
            "peak_mib_by_tree": {tree: round(meter.peak_mib[tree]) for tree in ours},
            "read_mib": round(read + made_up["made_up_bytes"] / (1 << 20), 1),
            "written_mib": round((_written(lake.root) - size) / (1 << 20), 2),
            "requests": sum(asked.values()),
        }
        return done

    if not result.run_uri:
        config = from_json(GCConfig, RUN | {"repository": REPOSITORY, "read_kv": True})
        result.run_uri = measured("plan", lambda: steps.plan_run(config, None)).run_uri
        result.write(path)
        run = Run.open(result.run_uri)
    else:
        run = reopen(lambda: Run.open(result.run_uri))
    with _runner(master) as runner:
        for step in STEPS[1:]:
            measured(step, partial(_do, step, run, runner))
    steps.release_lease(run)
    result.begun = ""
    result.write(path)


def _do(step: str, run: Run, runner: TaskRunner) -> None:
    if step == "save_report":
        steps.save_report(run)
    elif step in ON_SPARK or isinstance(runner, LocalRunner):
        getattr(steps, step)(run, runner)
    else:
        getattr(steps, step)(run)


@contextmanager
def _runner(master: str) -> Iterator[TaskRunner]:
    if master.isdecimal():
        with LocalRunner(int(master)) as local:
            yield local
        return
    from airflow_dredge.spark_jobs.rows import SparkRunner
    from airflow_dredge.spark_jobs.session import close_session, open_session

    class Installing(SparkRunner):
        def run(self, name: str, fn: Any, config: Any, tasks: Any) -> Any:
            return super().run(name, scale_store.Installed(fn), config, tasks)

    spark = open_session("benchmark", master=master)
    yield Installing(spark, {LATENCY: os.environ.get(LATENCY, "0")})
    close_session(spark)


def _written(root: Path) -> int:
    """Return the bytes of Dredge's files in a namespace."""
    folder = root / "_lakefs" / "retention" / "gc"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
