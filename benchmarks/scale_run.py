"""A whole run over a lake without objects: `python -m benchmarks.scale_run OBJECTS PROCESSES SERVER` prints
steps.

SERVER is the process id of the lakeFS server; its CPU time is reported separately.

The runner's processes also import this module, so that they use the same store.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import scale_store
from benchmarks.driver import RUN
from benchmarks.measure import Meter
from benchmarks.scale_lake import REPOSITORY, ScaleLake

scale_store.install()

from dredge.gc import steps  # noqa: E402
from dredge.gc.config import GCConfig  # noqa: E402
from dredge.gc.run import Run  # noqa: E402
from dredge.runs.payload import from_json  # noqa: E402
from dredge.runs.tasks import LocalRunner  # noqa: E402


def main() -> None:
    """Run once and print the cost of each step."""
    lake = ScaleLake(int(sys.argv[1]))
    processes = int(sys.argv[2])
    trees = {"run": os.getpid(), "server": int(sys.argv[3])}
    figures: dict[str, dict[str, float]] = {}

    def measured(name: str, work: Callable[[], Any]) -> Any:
        before, size, begun = scale_store.requests(lake.folder), _written(lake.root), time.perf_counter()
        with Meter(trees, every_seconds=0.5) as meter:
            result = work()
        asked = scale_store.requests(lake.folder) - before
        figures[name] = {
            "seconds": round(time.perf_counter() - begun, 2),
            "cpu_seconds": round(meter.cpu_seconds["run"], 2),
            "server_cpu_seconds": round(meter.cpu_seconds.get("server", 0.0), 2),
            "peak_mib": round(meter.peak_mib["run"]),
            "read_mib": round(meter.read_mib["run"], 1),
            "written_mib": round((_written(lake.root) - size) / (1 << 20), 2),
            "requests": sum(asked.values()),
        }
        return result

    config = from_json(GCConfig, RUN | {"repository": REPOSITORY, "read_kv": True})
    lease = steps.acquire_lease(config, "benchmark")
    plan = measured("plan", lambda: steps.plan_run(config, lease))
    run = Run.open(plan.run_uri)
    with LocalRunner(processes) as runner:
        measured("slice_listing", lambda: steps.slice_listing(run, runner))
        measured("mark_uncommitted", lambda: steps.mark_uncommitted(run, runner))
        measured("list_committed", lambda: steps.list_committed(run, runner))
        measured("subtract", lambda: steps.subtract(run, runner))
        measured("check_limits", lambda: steps.check_limits(run, runner))
        measured("bulk_delete", lambda: steps.bulk_delete(run, runner))
        measured("verify", lambda: steps.verify(run, runner))
    measured("save_report", lambda: steps.save_report(run))
    steps.release_lease(run)
    print(json.dumps(figures))


def _written(root: Path) -> int:
    """Return the bytes of Dredge's files in a namespace."""
    folder = root / "_lakefs" / "retention" / "gc"
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
