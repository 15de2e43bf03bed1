"""Icechunk at scale: planning an expiration of a long history, and marking many chunk references.

    python -m benchmarks.icechunk plan     read a history of spec 1 and plan, by every rule
    python -m benchmarks.icechunk mark     our mark compared with the library's own collection (dry runs)

`./run bench icechunk` measures whole collections; see `icechunk_change`.

Every measurement has a separate process. Snapshots and manifests are made from arrays instead of commits: a
real file is the template, and the differences are written into it.
"""

import json
import multiprocessing
import os
import resource
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

STATE = Path(__file__).resolve().parent.parent / ".dredge" / "bench-icechunk"
SIDE_BRANCH_EVERY = 1000
SIDE_BRANCH_LENGTH = 100
TAG_EVERY = 5000
ORPHANS = 500

type Figures = dict[str, float | int | str]


@click.group()
def main() -> None:
    """Measure Icechunk maintenance on repositories in a local folder."""


@main.command()
@click.option("--snapshots", default=100_000, show_default=True)
def plan(snapshots: int) -> None:
    """Read a history and plan its expiration."""
    folder = STATE / "plan"
    begun = time.perf_counter()
    make_history(folder, snapshots)
    click.echo(f"{snapshots:,} snapshots made in {time.perf_counter() - begun:.1f} s")
    show("plan", measured(read_and_plan, folder))
    shutil.rmtree(folder)


@main.command()
@click.option("--references", default=10_000_000, show_default=True)
@click.option("--manifests", default=100, show_default=True, help="Number of their manifests.")
@click.option(
    "--processes", default=0, show_default=True, help="Of our mark; 0 is one, the library has threads."
)
def mark(references: int, manifests: int, processes: int) -> None:
    """Mark live objects, with Dredge and with the library."""
    folder = STATE / "mark"
    begun = time.perf_counter()
    make_references(folder, references, manifests)
    click.echo(f"{references:,} references made in {time.perf_counter() - begun:.1f} s")
    jobs: list[tuple[str, Callable[..., Figures], tuple[Any, ...]]] = [
        ("library", collect_theirs, ()),
        ("dredge", mark_ours, (processes, references)),
        ("dredge with its index", mark_ours, (processes, references)),
    ]
    for name, job, arguments in jobs:
        show(name, measured(job, folder, *arguments))
    shutil.rmtree(folder)


def show(name: str, figures: Figures) -> None:
    """Print the figures of a measurement on one line."""
    click.echo(f"{name}: {json.dumps(figures)}")


def measured(job: Callable[..., Figures], *arguments: Any, at_most: float | None = None) -> Figures:
    """Run a job in a new process; adds its peak memory and CPU seconds.

    Args:
        job: function.
        arguments: of the function.
        at_most: timeout in seconds; None for none.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(_measure, (job, arguments)).get(at_most)
        except multiprocessing.TimeoutError:
            return {"ended_after_seconds": at_most or 0}


def _measure(job: Callable[..., Figures], arguments: tuple[Any, ...]) -> Figures:
    from benchmarks.measure import Meter

    with Meter({"own": os.getpid()}, every_seconds=0.05) as meter:
        figures = job(*arguments)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_seconds = sum(one.ru_utime + one.ru_stime for one in used)
    return {
        **figures,
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mib": round(max(meter.peak_of_all_mib, _high_water_mib())),
    }


def _high_water_mib() -> float:
    """Return the peak resident size of this process. Not ru_maxrss, which starts with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def timed(figures: Figures, name: str) -> Iterator[None]:
    """Measure the seconds of the block."""
    begun = time.perf_counter()
    yield
    figures[name] = round(time.perf_counter() - begun, 2)


def read_and_plan(folder: Path) -> Figures:
    """Read a history and plan by each rule, with half of it expired."""
    from dredge.icechunk.expiration.drawing import draw_plan
    from dredge.icechunk.expiration.plan import RULES, plan_expiration
    from dredge.icechunk.format.metadata import instant
    from dredge.icechunk.repository import read_history
    from dredge.storage import open_reader

    figures: Figures = {}
    with timed(figures, "read_seconds"):
        history = read_history(open_reader(f"file://{folder}"))
    times = sorted(entry.flushed_at for entry in history.snapshots.values())
    threshold = instant(times[len(times) // 2])
    figures |= {"snapshots": len(history.snapshots), "refs": len(history.refs)}
    for rule in RULES:
        with timed(figures, f"{rule}_seconds"):
            made = plan_expiration(
                history, threshold, rule=rule, delete_expired_branches=True, delete_expired_tags=True
            )
        figures[f"{rule}_released"] = len(made.released)
    with timed(figures, "draw_seconds"):
        draw_plan(made)
    return figures


def collect_theirs(folder: Path) -> Figures:
    """Run the library's collection; it must find exactly the unreferenced chunks."""
    from dredge.icechunk.library import open_library

    repository = open_library(f"file://{folder}")
    figures: Figures = {}
    with timed(figures, "seconds"):
        found = repository.garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True)
    if found.chunks_deleted != ORPHANS:
        raise SystemExit(f"the library would delete {found.chunks_deleted} chunks, not {ORPHANS}")
    return figures | {"would_delete": found.chunks_deleted}


def mark_ours(folder: Path, processes: int, references: int) -> Figures:
    """Plan a dry run, mark, and list garbage, to do the same work as the library."""
    from dredge.icechunk.collection import steps
    from dredge.icechunk.format.manifests import named_chunks
    from dredge.runs.tasks import LocalRunner

    figures: Figures = {}
    with timed(figures, "warm_up_seconds"):  # imports and compiles
        smallest = min((folder / "manifests").iterdir(), key=lambda path: path.stat().st_size)
        named_chunks(smallest.read_bytes(), smallest.name)
    config = steps.CollectConfig(
        uri=f"file://{folder}", unsafe_min_age_seconds=0, unsafe_grace_seconds=0, max_delete_percent=None
    )
    with LocalRunner(processes) as runner, timed(figures, "seconds"):
        run = steps.Run.open(steps.plan_collection(config).run_uri)
        try:
            with timed(figures, "mark_seconds"):
                counts = steps.mark(run, runner).counts
            candidates = steps.list_candidates(run, runner).counts
        finally:
            steps.release_lease(run)
    if counts["live_references"] != references:
        raise SystemExit(f"{counts['live_references']} references were marked, not {references}")
    kinds = [count for name, count in candidates.items() if name.endswith("_candidates_objects")]
    return figures | {"manifests_read": counts["manifests_read"], "would_delete": sum(kinds)}


def make_history(folder: Path, snapshots: int) -> None:
    """Write a repository of spec 1 with a number of snapshots and no data.

    A main line; every thousand snapshots a side branch of a hundred; a tag every five thousand.
    """
    from dredge.icechunk.format.envelope import FileType, close_file, open_file
    from dredge.icechunk.format.flatbuffer import Buffer
    from dredge.icechunk.format.metadata import ref_key
    from dredge.icechunk.ids import decode_id, encode_id

    repository = create(folder)
    root = repository.lookup_branch("main")
    name = repository.writable_session("main").commit("one of many", allow_empty=True)
    opened = open_file((folder / "snapshots" / name).read_bytes(), name, FileType.SNAPSHOT)
    table = Buffer(opened.body, name).root()
    own, parent, flushed = table.field(0, 12), table.field(1, 12), table.field(3, 8)
    start = int.from_bytes(opened.body[flushed : flushed + 8], "little")
    body = bytearray(opened.body)
    ids = [decode_id(root), *(secrets.token_bytes(12) for _ in range(snapshots - 1))]
    refs = {}
    line = side = 0
    for number in range(1, snapshots):
        turn = number % SIDE_BRANCH_EVERY
        on_side = turn >= SIDE_BRANCH_EVERY - SIDE_BRANCH_LENGTH
        below = side if on_side and turn > SIDE_BRANCH_EVERY - SIDE_BRANCH_LENGTH else line
        body[own : own + 12], body[parent : parent + 12] = ids[number], ids[below]
        body[flushed : flushed + 8] = (start + number * 1_000_000).to_bytes(8, "little")
        (folder / "snapshots" / encode_id(ids[number])).write_bytes(close_file(opened.header, bytes(body)))
        if on_side:
            side = number
            refs["branch", f"side-{number // SIDE_BRANCH_EVERY}"] = number
        else:
            line = number
        if number % TAG_EVERY == 0:
            refs["tag", f"tag-{number // TAG_EVERY}"] = number
    refs["branch", "main"] = line
    for (kind, ref), number in refs.items():
        path = folder / ref_key(kind, ref)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"snapshot": encode_id(ids[number])}))


def make_references(folder: Path, references: int, manifests: int) -> None:
    """Write a repository of spec 1 with one snapshot and a number of references in its manifests.

    The library commits the same number of small arrays; then their manifests are replaced under the same ids.
    Only a few referenced chunks exist, and `ORPHANS` unreferenced ones.
    """
    import numpy as np
    import zarr

    from dredge.icechunk.format.envelope import FileType, close_file, open_file
    from dredge.icechunk.format.metadata import parse_snapshot
    from dredge.icechunk.ids import decode_id, encode_id
    from tests.support.icechunk_manifests import manifest_file

    repository = create(folder)
    session = repository.writable_session("main")
    for number in range(manifests):
        array = zarr.create_array(session.store, name=f"a{number}", shape=(1,), chunks=(1,), dtype="i8")
        array[0] = number + 1
    tip = session.commit("many references")
    shutil.rmtree(folder / "chunks")
    (folder / "chunks").mkdir()
    place = folder / "snapshots" / tip
    opened = open_file(place.read_bytes(), tip, FileType.SNAPSHOT)
    body = opened.body
    rng = np.random.default_rng(6)
    infos = parse_snapshot(place.read_bytes(), tip).manifests
    for number, info in enumerate(infos):
        count = references * (number + 1) // len(infos) - references * number // len(infos)
        ids = rng.integers(0, 256, (count, 12), dtype=np.uint8)
        key, data = manifest_file(ids, decode_id(info.id))
        (folder / key).write_bytes(data)
        (folder / "chunks" / encode_id(ids[0].tobytes())).write_bytes(b"live")
        old = _info(info.id, info.size_bytes, info.refs)
        if body.count(old) != 1:
            raise SystemExit(f"{tip}: the entry of manifest {info.id} is not where it should be")
        body = body.replace(old, _info(info.id, len(data), count))
    place.write_bytes(close_file(opened.header, body))
    for _ in range(ORPHANS):
        (folder / "chunks" / encode_id(secrets.token_bytes(12))).write_bytes(b"garbage")


def _info(manifest: str, size_bytes: int, references: int) -> bytes:
    """Return a snapshot's record of a manifest: id, padding, size, number of references."""
    from dredge.icechunk.ids import decode_id

    return (
        decode_id(manifest) + bytes(4) + size_bytes.to_bytes(8, "little") + references.to_bytes(4, "little")
    )


def create(folder: Path) -> Any:
    """Create an empty repository of spec 1 with every chunk in an object."""
    import icechunk

    from dredge.icechunk.library import library_storage
    from dredge.storage import StorageOptions

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    storage = library_storage(f"file://{folder}", StorageOptions.from_env())
    return icechunk.Repository.create(storage, config=config, spec_version=1)


if __name__ == "__main__":
    main()
