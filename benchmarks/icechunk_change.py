"""Collections of an Icechunk repository after a partial change, on a compiled S3 server.

    a chain of commits, each with a manifest → clean run → new commits, as many expire
        → the library (dry run) → a clean run (dry run) → an optimized run

All three must find the same garbage. Files are made from arrays instead of commits, because the library would
take hours. A manifest has the references of the previous one, with new chunks in place of the oldest.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.latency import behind
from benchmarks.s3_store import LOG, Requests, S3Store, put, s3_store

BUCKET = "icechunk"

type Figures = dict[str, float | int | str]


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
        from dredge.icechunk.format.snapshots import parse_snapshot

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
        from dredge.icechunk.format.refs import ref_key
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


def compare(
    snapshots: int,
    references: int,
    own: int,
    changed: int,
    library_seconds: float,
    show: Callable[[str, Figures], None],
) -> None:
    """Measure a repository before and after a change.

    Args:
        snapshots: commits of the chain.
        references: of each commit's manifest.
        own: number of new chunks among them.
        changed: number of new commits, and of expired ones.
        library_seconds: timeout of the library; its figures then show its progress.
        show: prints the figures of a measurement.
    """
    from dredge.icechunk.format.snapshots import instant

    with s3_store() as store, behind(store.environ) as (environ, chains):
        uri = f"s3://{BUCKET}/repo"
        os.environ |= environ
        chain = Chain(store.bucket(BUCKET) / "repo", references, own)
        begun = time.perf_counter()
        chain.grow(snapshots - 1)
        made = {"references": snapshots * references, "chunks": chain.chunks}
        show("made", {**made, "seconds": round(time.perf_counter() - begun, 1)})

        def job(
            name: str, work: Callable[..., Figures], *arguments: Any, at_most: float | None = None
        ) -> Figures:
            time.sleep(3)  # timestamps are whole seconds
            began = time.time()
            figures = _counted(store, work, uri, *arguments, at_most=at_most)
            if found := chains({name: (began, time.time())}):
                figures["chain"] = found["chains"][name]["chain"]
            show(name, figures)
            return figures

        job("dredge, first clean run", ours, "clean", False)
        chain.grow(changed)
        job("expiration", expires, instant(chain.times[changed]))
        garbage = [
            job("dredge, clean", ours, "clean", True)["chunks"],
            job("library", theirs, at_most=library_seconds).get("chunks"),
            job("dredge, optimized", ours, "optimized", False)["chunks"],
        ]
        if len({chunks for chunks in garbage if chunks is not None}) != 1 or not garbage[0]:
            raise SystemExit(f"they found {garbage} chunks")
        job("dredge, optimized, nothing changed", ours, "optimized", False)


def _counted(
    store: S3Store, work: Callable[..., Figures], *arguments: Any, at_most: float | None = None
) -> Figures:
    """Run a job in a separate process; adds its requests by kind, and the bytes sent by the store."""
    from benchmarks.icechunk import measured

    log = Path(os.environ[LOG])
    counted = Requests(log)
    before, sent, served = counted.counts(), _sent(store, log), _cpu_seconds(store)
    begun = time.perf_counter()
    figures = measured(work, *arguments, at_most=at_most)
    figures["wall_seconds"] = round(time.perf_counter() - begun, 1)
    time.sleep(0.5)
    figures["store_cpu_seconds"] = round(_cpu_seconds(store) - served, 1)
    requests = counted.counts() - before
    figures |= {"requests": sum(requests.values()), **dict(sorted(requests.items()))}
    return figures | {"sent_mb": round((_sent(store, log) - sent) / 1e6, 1)}


def _cpu_seconds(store: S3Store) -> float:
    """Return the CPU seconds of the store."""
    fields = (Path("/proc") / str(store.pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _sent(store: S3Store, log: Path) -> int:
    """Return the bytes written by the store to sockets and files, without its log."""
    lines = (Path("/proc") / str(store.pid) / "io").read_text().splitlines()
    written = next(line for line in lines if line.startswith("wchar:"))
    return int(written.split()[1]) - log.stat().st_size


def expires(uri: str, threshold: datetime) -> Figures:
    """Expire older snapshots."""
    from tests.support.icechunk_expiring import expire

    done = expire(uri, threshold)
    return {"released": len(done.plan.released), "edited": len(done.edited)}


def theirs(uri: str) -> Figures:
    """Run the library's collection."""
    from dredge.icechunk.library import open_library

    found = open_library(uri).garbage_collect(datetime.now(UTC) + timedelta(seconds=5), dry_run=True)
    return {"manifests": found.manifests_deleted, "chunks": found.chunks_deleted}


def ours(uri: str, mode: str, dry_run: bool) -> Figures:
    """Run a whole collection."""
    from dredge.icechunk.collection.config import CollectConfig
    from dredge.icechunk.collection.steps import collect

    config = CollectConfig(
        uri=uri,
        mode=mode,
        dry_run=dry_run,
        unsafe_min_age_seconds=0,
        unsafe_grace_seconds=0,
        max_delete_percent=None,
    )
    report = collect(config)
    if report["mode"] != mode or report["outcome"] not in ("success", "dry_run"):
        raise SystemExit(f"a run was {report['mode']} and is {report['outcome']}: {report['why_mode']}")
    chunks = report["kinds"]["chunks"].get("candidates_objects", 0)
    return {"objects": report["candidates"]["objects"], "chunks": chunks}
