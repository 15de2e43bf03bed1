"""Collections of an Icechunk repository after a partial change, on a compiled S3 server.

    a chain of commits, each with a manifest → clean run → new commits, as many expire
        → the library (dry run) → a clean run (dry run) → an optimized run

All three must find the same garbage. Files are made from arrays instead of commits, because the library would
take hours. A manifest has the references of the previous one, with new chunks in place of the oldest.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.latency import WHOLE, behind
from benchmarks.s3_store import LOG, Requests, S3Store, put, s3_store

BUCKET = "icechunk"

type Row = dict[str, Any]

STEPS = (
    "plan",
    "mark",
    "list_candidates",
    "check_limits",
    "approve",
    "bulk_delete",
    "verify",
    "save_report",
    "release_lease",
)
RUN = "all"


@dataclass
class Chain:
    """A repository of spec 1 in the folder of a bucket.

    Attributes:
        folder: of the repository.
        references: of each manifest.
        own: number of new chunks in each manifest.
        tip: id of the newest snapshot.
        flushed_at: of the newest snapshot, microseconds since 1970.
        times: of all snapshots but the root, oldest first.
        chunks: in the repository, without those of the first manifest.
    """

    folder: Path
    references: int
    own: int

    def __post_init__(self) -> None:
        from benchmarks.icechunk import create
        from dredge.icechunk.format.envelope import FileType, open_file
        from dredge.icechunk.format.flatbuffer import Buffer
        from dredge.icechunk.format.metadata import parse_snapshot

        scratch = self.folder.with_name(f"{self.folder.name}-scratch")
        repository = create(scratch)
        self.tip = _write_one(repository)
        path = scratch / "snapshots" / self.tip
        self._log = (scratch / "transactions" / self.tip).read_bytes()
        opened = open_file(path.read_bytes(), self.tip, FileType.SNAPSHOT)
        self._header, self._body = opened.header, opened.body
        (self._info,) = parse_snapshot(path.read_bytes(), self.tip).manifests
        table = Buffer(opened.body, self.tip).root()
        self._places = [table.field(0, 12), table.field(1, 12), table.field(3, 8)]
        flushed = self._places[2]
        self.flushed_at = int.from_bytes(opened.body[flushed : flushed + 8], "little")
        self.times = [self.flushed_at]
        self.chunks = 1
        self._ids: Any = None
        shutil.rmtree(self.folder, ignore_errors=True)
        for source in [path for path in scratch.rglob("*") if path.is_file()]:
            target = self.folder / source.relative_to(scratch)
            target.parent.mkdir(parents=True, exist_ok=True)
            put(target, source.read_bytes())
        shutil.rmtree(scratch)

    def grow(self, commits: int) -> None:
        """Add commits to main, a second apart."""
        import numpy as np

        from dredge.icechunk.format.envelope import close_file
        from dredge.icechunk.format.metadata import ref_key
        from dredge.icechunk.ids import decode_id, encode_id
        from tests.support.icechunk_manifests import manifest_file

        rng = np.random.default_rng(len(self.times))
        own, parent, flushed = self._places
        old = _entry(self._info.id, self._info.size_bytes, self._info.refs)
        ids = self._ids
        for _ in range(commits):
            manifest, snapshot = secrets.token_bytes(12), secrets.token_bytes(12)
            new = rng.integers(0, 256, (self.references if ids is None else self.own, 12), dtype=np.uint8)
            ids = new if ids is None else np.concatenate([ids[len(new) :], new])
            key, data = manifest_file(ids, manifest)
            put(self.folder / key, data)
            for chunk in new:
                put(self.folder / "chunks" / encode_id(chunk.tobytes()), b"")
            self.chunks += len(new)
            body = bytearray(self._body.replace(old, _entry(encode_id(manifest), len(data), self.references)))
            body = bytearray(bytes(body).replace(decode_id(self._info.id), manifest))
            self.flushed_at += 1_000_000
            self.times.append(self.flushed_at)
            body[own : own + 12], body[parent : parent + 12] = snapshot, decode_id(self.tip)
            body[flushed : flushed + 8] = self.flushed_at.to_bytes(8, "little")
            self.tip = encode_id(snapshot)
            put(self.folder / "snapshots" / self.tip, close_file(self._header, bytes(body)))
            put(self.folder / "transactions" / self.tip, self._log)
        self._ids = ids
        put(self.folder / ref_key("branch", "main"), f'{{"snapshot":"{self.tip}"}}'.encode())


def _write_one(repository: Any) -> str:
    import zarr

    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(1,), chunks=(1,), dtype="i8")
    array[0] = 1
    return str(session.commit("one of many"))


def _entry(manifest: str, size_bytes: int, references: int) -> bytes:
    from dredge.icechunk.ids import decode_id

    return (
        decode_id(manifest) + bytes(4) + size_bytes.to_bytes(8, "little") + references.to_bytes(4, "little")
    )


def compare(snapshots: int, references: int, own: int, changed: int, library_seconds: float) -> Iterator[Row]:
    """Measure a repository before and after a change, and yield a row a run.

    Args:
        snapshots: commits of the chain.
        references: of each commit's manifest.
        own: number of new chunks among them.
        changed: number of new commits, and of expired ones.
        library_seconds: timeout of the library; its figures then show its progress.
    """
    from dredge.icechunk.format.metadata import instant

    with s3_store() as store, behind(store.environ) as (environ, spans):
        uri = f"s3://{BUCKET}/repo"
        os.environ |= environ
        chain = Chain(store.bucket(BUCKET) / "repo", references, own)
        chain.grow(snapshots - 1)

        def job(name: str, work: Callable[..., Row], *arguments: Any, at_most: float | None = None) -> Row:
            time.sleep(3)  # timestamps are whole seconds
            began = time.time()
            row = _counted(store, work, uri, *arguments, at_most=at_most)
            # Both clocks are this machine's; the run itself is all that the proxy saw in that time.
            found = spans({**row.pop("times", {}), RUN: (began, time.time())})
            found.get("chains", {}).pop(WHOLE, None)
            for chain_of_step in found.get("chains", {}).values():
                del chain_of_step["path"]
            return {"run": name, "snapshots": snapshots, "all_chunks": chain.chunks, **row, **found}

        yield job("clean, first", ours, "clean", False)
        chain.grow(changed)
        yield job("expiration", expires, instant(chain.times[changed]))
        rows = [
            job("clean", ours, "clean", True),
            job("library", theirs, at_most=library_seconds),
            job("optimized", ours, "optimized", False),
        ]
        yield from rows
        garbage = {row["chunks"] for row in rows if "chunks" in row}
        if len(garbage) != 1 or not all(garbage):
            raise SystemExit(f"they found {garbage} chunks")
        yield job("optimized, nothing to do", ours, "optimized", False)
        yield job("library, nothing to do", theirs, at_most=library_seconds)


def tell(rows: Sequence[Row]) -> str:
    """Return the table of some runs: seconds, requests and longest chains, by revision."""
    names = ["run", "revision", "ms a request", "wall s", "steps s", "CPU s", "MiB", "garbage", *STEPS, "all"]
    cells = []
    for row in sorted(rows, key=lambda row: (row["run"], row["latency_ms"])):
        counts = [row["chains"].get(step) for step in (*STEPS, RUN)]
        chains = [f"{count['requests']}; {count['chain']}" if count else "" for count in counts]
        figures = [row.get(name, "") for name in ("wall", "steps", "cpu_seconds", "peak_mib", "chunks")]
        cells.append([row["run"], row["revision"], f"{row['latency_ms']:g}", *figures, *chains])
    about = "Of each step: requests; the longest chain among them."
    return "\n\n".join([tables.surroundings(), about, tables.table(names, cells)])


def _counted(store: S3Store, work: Callable[..., Row], *arguments: Any, at_most: float | None = None) -> Row:
    """Run a job in a separate process; adds its requests by kind, and the bytes sent by the store."""
    from benchmarks.icechunk import measured

    log = Path(os.environ[LOG])
    counted = Requests(log)
    before, sent = counted.counts(), _sent(store, log)
    begun = time.perf_counter()
    row = measured(work, *arguments, at_most=at_most)
    row["wall"] = round(time.perf_counter() - begun, 1)
    time.sleep(0.5)
    requests = counted.counts() - before
    row |= {"requests": sum(requests.values()), "kinds": dict(sorted(requests.items()))}
    return row | {"sent_mb": round((_sent(store, log) - sent) / 1e6, 1)}


def _sent(store: S3Store, log: Path) -> int:
    """Return the bytes written by the store to sockets and files, without its log."""
    lines = (Path("/proc") / str(store.pid) / "io").read_text().splitlines()
    written = next(line for line in lines if line.startswith("wchar:"))
    return int(written.split()[1]) - log.stat().st_size


def expires(uri: str, threshold: datetime) -> Row:
    """Expire older snapshots."""
    from tests.support.icechunk_expiring import expire

    done = expire(uri, threshold)
    return {"released": len(done.plan.released), "edited": len(done.edited)}


def theirs(uri: str) -> Row:
    """Run the library's collection."""
    from dredge.icechunk.library import open_library

    found = open_library(uri).garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True)
    return {"manifests": found.manifests_deleted, "chunks": found.chunks_deleted}


def ours(uri: str, mode: str, dry_run: bool) -> Row:
    """Run a whole collection as the command line does, and note the times of its steps."""
    from dredge.icechunk.collection import steps
    from dredge.runs.parts import BY_DIGEST, cache_parts
    from dredge.runs.tasks import LocalRunner

    config = steps.CollectConfig(
        uri=uri,
        mode=mode,
        dry_run=dry_run,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
    )
    times: dict[str, tuple[float, float]] = {}

    def timed[T](step: str, body: Callable[[], T]) -> T:
        begun = time.time()
        found = body()
        times[step] = begun, time.time()
        return found

    runner = LocalRunner()
    with cache_parts(BY_DIGEST), ExitStack() as stack:
        plan = timed("plan", lambda: steps.plan_collection(config))
        run = steps.Run.open(plan.run_uri, plan=plan)
        stack.enter_context(run.going_on())
        timed("mark", lambda: steps.mark(run, runner))
        timed("list_candidates", lambda: steps.list_candidates(run, runner))
        timed("check_limits", lambda: steps.check_limits(run))
        timed("approve", lambda: steps.approve(run))
        timed("bulk_delete", lambda: steps.bulk_delete(run, runner))
        timed("verify", lambda: steps.verify(run))
        timed("save_report", lambda: steps.save_report(run))
        timed("release_lease", lambda: steps.release_lease(run))
        report = steps.read_report(run)
    if report["mode"] != mode or report["outcome"] not in ("success", "dry_run"):
        raise SystemExit(f"a run was {report['mode']} and is {report['outcome']}: {report['why_mode']}")
    chunks = report["kinds"]["chunks"].get("candidates_objects", 0)
    steps_seconds = sum(end - begin for begin, end in times.values())
    return {
        "times": times,
        "steps": round(steps_seconds, 1),
        "objects": report["candidates"]["objects"],
        "chunks": chunks,
    }
