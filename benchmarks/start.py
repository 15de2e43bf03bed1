"""Cost of commands on tiny repositories: wall and CPU seconds of the process, and its peak memory."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collect import lakefs_server
from benchmarks.lakes import STATE, LocalLake
from benchmarks.shapes import B1K
from benchmarks.tables import surroundings, table

TRIES = 3


def run() -> Iterator[dict[str, Any]]:
    """Measure each command, and yield a row each: the least of some tries."""
    ice = _icechunk(STATE / "tiny-icechunk")
    lake = LocalLake(B1K)
    lake.prepare()
    now = ["--quiet", "--unsafe-min-age-seconds", "1", "--unsafe-grace-seconds", "0"]
    commands: dict[str, list[str]] = {
        "--version": [],
        "gc --help": [],
        "icechunk plan": [ice],
        "icechunk expire": [ice],
        "icechunk collect": [ice, "--quiet"],
        "gc run": [B1K.name, *now],
        "gc runs": [lake.namespace],
    }
    with lakefs_server(lake) as (env, _):
        for name, words in commands.items():
            found = [_measure(["dredge", *name.split(), *words], env) for _ in range(TRIES)]
            yield {"command": name} | {key: min(each[key] for each in found) for key in found[0]}


# A small process between: the peak of a child starts at the memory of its parent.
_METER = """
import json, os, subprocess, sys, time
begun = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
wall, cpu = time.perf_counter() - begun, used.ru_utime + used.ru_stime
print(json.dumps({"wall": round(wall, 2), "cpu": round(cpu, 2), "mib": used.ru_maxrss // 1024}))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def _measure(command: list[str], env: Mapping[str, str]) -> dict[str, float]:
    meter = [sys.executable, "-S", "-c", _METER, *command]
    done = subprocess.run(meter, env=os.environ | env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _icechunk(folder: Path) -> str:
    import icechunk
    import zarr

    shutil.rmtree(folder, ignore_errors=True)
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)))
    for number in range(5):
        session = repo.writable_session("main")
        array = zarr.group(session.store).create_array(
            "a", shape=(16,), chunks=(4,), dtype="i4", overwrite=True
        )
        array[:] = np.arange(16) + number
        session.commit(str(number))
    return f"file://{folder}"


def compare(rows: list[dict[str, Any]]) -> str:
    """Return a table with a line for each command, and the figures of each revision."""
    revisions = list(dict.fromkeys(row["revision"] for row in rows))
    found = {(row["command"], row["revision"]): row for row in rows}
    head = [f"{revision}: {column}" for revision in revisions for column in ("wall s", "CPU s", "MiB")]
    cells = [
        [
            command,
            *(
                found.get((command, revision), {}).get(key, "")
                for revision in revisions
                for key in ("wall", "cpu", "mib")
            ),
        ]
        for command in dict.fromkeys(row["command"] for row in rows)
    ]
    return f"{surroundings()}\n\n{table(['dredge …', *head], cells)}"
