"""Optimized runs compared with clean ones, on lakes with a partial change since the last run.

    clean run, cold index → change → optimized run → clean run, warm index

All on the same lake, so the last run finds no garbage: it is the cheapest possible clean run. It also proves
that the optimized run missed nothing.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.collect import Surroundings, check, measure_run, ratios, surroundings
from benchmarks.driver import SETTINGS
from benchmarks.generate import move
from benchmarks.lakes import INDEX, RUNS, STATE, Lake, LocalLake, S3Lake
from benchmarks.shapes import SHAPES
from dredge.runs.clock import utc_now
from dredge.storage import StorageOptions, open_writer
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.kv import open_store

MARGIN_HOURS = 26
"""Generated slices are two days old; the default margin of eight days would list all of them again."""


class CopiedLake(LocalLake):
    """A separate local lake of links to another one's files."""

    def __init__(self, source: LocalLake) -> None:
        super().__init__(source.shape)
        source.restore()
        self.folder = STATE / f"{source.shape.name}-changed"
        self.root = self.folder / "objects" / "repo"
        shutil.rmtree(self.folder, ignore_errors=True)
        skipped = [str(source.root / name) for name in (INDEX, RUNS)]
        shutil.copytree(
            source.root,
            self.root,
            copy_function=os.link,
            ignore=lambda folder, names: [name for name in names if f"{folder}/{name}" in skipped],
        )
        for name in ("kv.db", "truth.parquet"):
            shutil.copyfile(source.folder / name, self.folder / name)
        move(f"sqlite:///{self.folder}/kv.db", self.shape.name, f"local://{self.root}")

    def restore(self) -> None:
        """Do nothing."""


def change(kv_url: str, repository: str, options: StorageOptions, objects: int) -> dict[str, int]:
    """Change a repository as its users do in an hour.

    Args:
        kv_url: of its server.
        repository: its name.
        options: access to the object store.
        objects: number of uploads: six in ten are committed, two overwrite staged ones, two stay staged.

    Returns:
        The numbers of changes.
    """
    catalog = Catalog(
        open_store(kv_url), lambda uri: open_writer(uri, options), utc_now, Settings(background=False)
    )
    parts = 3
    for part in range(parts):
        for number in range(objects * 6 // 10 // parts):
            path = f"table-{part:03d}/new/{number:06d}.parquet"
            catalog.objects.upload_object(repository, "main", path, f"new {part} {number}".encode())
        catalog.commits.commit(repository, "main", committer="benchmark", message=f"hour {part}")
    branches = [
        found.name
        for found in catalog.branches.list_branches(repository, amount=max(20, objects // 5)).results
        if found.name != "main"
    ]
    staged = [
        (branch, change.path)
        for branch in branches
        for change in catalog.branches.diff_branch(repository, branch, amount=1000).results
    ]
    overwrites = staged[: objects * 2 // 10]
    for branch, path in overwrites:
        catalog.objects.upload_object(repository, branch, path, f"again {path}".encode())
    for number in range(objects * 2 // 10):
        catalog.objects.upload_object(
            repository, branches[0], f"later/{number:06d}", f"later {number}".encode()
        )
    catalog.branches.reset_branch(repository, branches[-1])
    catalog.close()
    return {"uploads": objects, "overwrites": len(overwrites), "commits": parts, "resets": 1}


def run(
    store: str, shapes: Sequence[str], engine: str, changed: Sequence[int | None], with_kv: bool = True
) -> Iterator[dict[str, Any]]:
    """Measure each shape and yield a row a run.

    Args:
        store: one of STORES.
        shapes: names of SHAPES.
        engine: one of ENGINES.
        changed: objects uploaded between the runs, for each shape; 0 changes nothing, None a percent of its objects.
        with_kv: read the staging records.
    """
    with surroundings(store, [engine]) as beside:
        for name, objects in product(shapes, changed):
            shape = SHAPES[name]
            lake: Lake = S3Lake(shape, beside.store) if beside.store else CopiedLake(LocalLake(shape))
            runner = _Runner(lake, store, engine, beside, with_kv)
            yield from _measure(lake, runner, shape.objects // 100 if objects is None else objects)
            if isinstance(lake, CopiedLake):
                shutil.rmtree(lake.folder)


@dataclass(frozen=True)
class _Runner:
    """Runs an engine on a lake in its current state."""

    lake: Lake
    store: str
    engine: str
    beside: Surroundings
    with_kv: bool

    def __call__(self, mode: str, index: str) -> dict[str, Any]:
        os.environ[SETTINGS] = json.dumps({"mode": mode, "slice_margin_hours": MARGIN_HOURS})
        try:
            row = {"store": self.store, "shape": self.lake.shape.name, "mode": mode, "index": index}
            return row | {"kv": self.with_kv} | measure_run(self.lake, self.engine, self.beside, self.with_kv)
        finally:
            del os.environ[SETTINGS]


def _measure(lake: Lake, run_once: _Runner, objects: int) -> Iterator[dict[str, Any]]:
    lake.prepare()
    bare = measure_run(lake, "bare", run_once.beside, with_kv=False)
    lake.prepare()
    lake.forget_index()
    cold = run_once("clean", "cold")
    cold |= check(lake)
    kv = lake.serve[lake.serve.index("--kv") + 1]
    if objects:
        begun = time.perf_counter()
        done = change(kv, lake.shape.name, StorageOptions.from_env(os.environ | lake.environ), objects)
        print(f"{lake.shape.name}: {done} in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    time.sleep(3)
    before = lake.present()
    yield cold | ratios(cold, bare)
    optimized = run_once("optimized", "warm")
    between = lake.present()
    if not objects:  # the truth of the lake is still true
        optimized |= check(lake)
    yield optimized | ratios(optimized, bare) | {"changed": objects, "deleted": len(before) - len(between)}
    again = run_once("clean", "warm")
    missed = len(between) - len(lake.present())
    if not objects:
        again |= check(lake)
    yield again | ratios(again, bare) | {"changed": objects, "deleted": missed}
    if missed:
        raise SystemExit(f"the optimized run on {lake.shape.name} missed {missed} objects")
