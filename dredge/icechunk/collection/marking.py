"""Mark: which snapshots, transaction logs, manifests and chunks are live.

    history → live snapshots → their manifests → their native chunks

Snapshot and manifest files that the index knows are not read again. Whatever is live and cannot be read
stops the
run: a skipped read would make live chunks look dead.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from dredge.errors import ConflictError, FormatError, NotFoundError, RefusedError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.index import (
    ManifestIndex,
    SnapshotRow,
    read_manifest_rows,
    write_manifest_rows,
    write_snapshot_rows,
)
from dredge.icechunk.collection.plan import Context
from dredge.icechunk.collection.roots import Roots, choose_roots
from dredge.icechunk.format.manifests import native_chunk_hashes
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.history import History
from dredge.icechunk.ids import is_id
from dredge.icechunk.repository import MANIFESTS, SNAPSHOTS, read_parsed
from dredge.runs.folder import RunFolder, read_json
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.report import duration_text
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, in_chunks
from dredge.storage import ObjectReader, open_reader, open_writer
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

STEP = "mark"
DEAD = "dead.json"
PRUNED = "pruned"
"""Transaction logs that only the repo info of spec 2 names: part `pruned.ids`."""


def mark(context: Context, runner: TaskRunner) -> StepSummary:
    """Find everything that is live.

    Raises:
        FormatError: a live file is missing or damaged; nothing was deleted.
        RefusedError: the repository has no main, or is not online.
    """
    return context.step_by_name(STEP, [], lambda record: _mark(context, runner, record))


def _mark(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    plan = context.plan
    history = context.read_history()
    if history.availability != "online":
        raise RefusedError(f"{plan.uri}: the repository is {history.availability}. Nothing was deleted.")
    dead_before, dead_etag = _dead_before(context)
    is_preview = plan.config.after is not None
    roots = choose_roots(
        history,
        _snapshot_files(context.reader),
        plan.cutoff,
        now=plan.created_at,
        dead_before=dead_before,
        grace=timedelta(hours=0 if is_preview else plan.config.grace_hours),
    )
    # First of all: a released file that cannot be read stops this run, and its grace must go on to an end.
    _write_dead(context, record, roots, dead_etag)
    live = _with_ancestors(context.reader, history, roots)
    index = ManifestIndex.load(context.state)
    rows = _snapshot_rows(context, runner, index, live)
    refs = refs_by_manifest(rows)
    chunk_parts, read = _chunk_parts(context, runner, index, refs)
    logs = live | {log for entry in history.snapshots.values() for log in entry.pruned}
    pruned = logs - live
    for kind, names in (
        ("snapshots", live),
        ("manifests", refs),
        ("transactions", logs),
        (PRUNED, pruned),
    ):
        record.parts.append(sets.write_ids(context.folder, f"{STEP}/{kind}.ids", sets.of_names(names)))
    record.parts += chunk_parts
    record.details["chunk_bits"] = _bits(context, refs)
    record.details["history"] = history.digest
    record.counts.update(
        refs=len(history.refs),
        live_snapshots=len(live),
        live_manifests=len(refs),
        live_references=sum(refs.values()),
        manifests_read=read,
        held_snapshots=len(roots.held),
        young_snapshots=len(roots.young),
    )
    if roots.held:
        record.warn(
            f"{len(roots.held):,} released snapshots and what they use are kept until they have been seen"
            f" unreachable for {duration_text(timedelta(hours=plan.config.grace_hours))}"
        )
    if is_preview and plan.spec_version == 1 and plan.config.grace_hours:
        record.warn(
            "this report takes the planned expiration as applied. What only released snapshots use is deleted by a"
            f" run that has seen them unreachable for {plan.config.grace_hours:g} h, so the first one deletes less"
        )
    data = json.dumps(sorted(live)).encode()
    record.parts.append(context.folder.write_bytes(f"{STEP}/snapshots.json", data, len(live)))


def refs_by_manifest(rows: Iterable[SnapshotRow]) -> dict[str, int]:
    """Give how many references each manifest has; raises FormatError when two snapshots disagree."""
    found: dict[str, int] = {}
    for row in rows:
        for manifest, count in zip(row.manifests, row.refs, strict=True):
            if found.setdefault(manifest, count) != count:
                raise FormatError(
                    f"{SNAPSHOTS}{row.snapshot} is damaged, or another snapshot is: it says that manifest"
                    f" {manifest} has {count} chunk references, the other one {found[manifest]}. Nothing was"
                    " deleted."
                )
    return found


def _write_dead(context: Context, record: StepRecord, roots: Roots, etag: str | None) -> None:
    """Write since when snapshots have been unreachable, unless somebody has looked meanwhile: an older look could
    name a snapshot that was in use since, and cut its time of grace."""
    # What an expiration only would release is reachable still, and its grace does not begin.
    if context.plan.spec_version != 1 or context.plan.config.after is not None:
        return
    dead = {snapshot: since.isoformat() for snapshot, since in sorted(roots.dead_since.items())}
    data = json.dumps({"run_id": context.plan.run_id, "dead": dead}, indent=1).encode()
    record.attempt.check()
    context.lease.check(context.plan.lease)
    try:
        if etag is None:
            context.state.put_if_absent(DEAD, data)
        else:
            context.state.put_if_match(DEAD, data, etag)
    except ConflictError:
        record.attempt.check()
        raise ConflictError(
            f"{context.state.uri}/{DEAD} was changed by another try while this one looked. Nothing was deleted. Run"
            " the step again."
        ) from None


def known_snapshots(context: Context, summary: StepSummary) -> set[str]:
    """Give the snapshots that the mark found live."""
    return set(json.loads(context.folder.read_bytes(summary.part(f"{STEP}/snapshots.json"))))


def _dead_before(context: Context) -> tuple[dict[str, datetime], str | None]:
    """Since when earlier runs have seen snapshots unreachable, and the tag of the object that says so."""
    try:
        etag = context.state.stat(DEAD).etag or ""
        value = read_json(context.state, DEAD)
        return {snapshot: datetime.fromisoformat(since) for snapshot, since in value["dead"].items()}, etag
    except NotFoundError:
        return {}, None
    except (FormatError, KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning(
            "%s/%s cannot be read (%s): every released snapshot is new to this run",
            context.state.uri,
            DEAD,
            error,
        )
        return {}, etag


def _snapshot_files(reader: ObjectReader) -> Iterator[tuple[str, datetime]]:
    for batch in reader.list(SNAPSHOTS):
        for key, time in zip(
            batch.column("key").to_pylist(), batch.column("last_modified").to_pylist(), strict=True
        ):
            if is_id(key.removeprefix(SNAPSHOTS)):
                yield key.removeprefix(SNAPSHOTS), time


def _with_ancestors(reader: ObjectReader, history: History, roots: Roots) -> set[str]:
    """Add the ancestors of what is live but not in the history: files of spec 1 name their parent."""
    live = set(roots.tips)
    waiting = [snapshot for snapshot in live if snapshot not in history.snapshots]
    while waiting:
        parents = set()
        for key, data in reader.get_many([SNAPSHOTS + snapshot for snapshot in waiting]):
            parent = parse_snapshot(data, key).parent_id
            if parent is not None and parent not in live:
                parents.add(parent)
        # An ancestor that is gone already (collected by another tool) cannot be protected any more.
        waiting = [parent for parent in parents if _exists(reader, SNAPSHOTS + parent)]
        live.update(waiting)
    return live


def _exists(reader: ObjectReader, key: str) -> bool:
    try:
        reader.stat(key)
    except NotFoundError:
        return False
    return True


def _snapshot_rows(
    context: Context, runner: TaskRunner, index: ManifestIndex, live: set[str]
) -> list[SnapshotRow]:
    known = index.snapshots(context.state)
    new = sorted(live - known.keys())
    tuning = context.plan.config.tuning
    tasks: list[Json] = [
        {"name": f"{context.folder.label}-snapshots-{number:05d}", "snapshots": hand}
        for number, hand in enumerate(in_chunks(new, -(-len(new) // tuning.snapshots_a_task)))
    ]
    results = context.spread_json(runner, STEP, read_snapshots, {}, tasks, "snapshots")
    index.add(
        context.state, f"{context.folder.label}-1", [PartInfo.from_json(one["part"]) for one in results], []
    )
    known = index.snapshots(context.state) if results else known
    missing = live - known.keys()
    if missing:
        raise FormatError(
            f"{context.plan.uri}: {len(missing)} live snapshots were not read, such as {min(missing)}"
        )
    return [known[snapshot] for snapshot in sorted(live)]


def read_snapshots(config: Json, task: Json) -> Json:
    """Read snapshot files and write what they name as an index part. A partition function.

    Raises:
        FormatError: a live snapshot is missing or damaged.
    """
    state = open_writer(config["state_uri"])
    rows = list(snapshot_rows(open_reader(config["uri"]), task["snapshots"], config["threads"]))
    return {"part": write_snapshot_rows(state, task["name"], rows).to_json()}


def snapshot_rows(reader: ObjectReader, snapshots: Sequence[str], threads: int = 16) -> Iterator[SnapshotRow]:
    """Read which manifests snapshots name; raises FormatError when one is missing or damaged."""

    def parse(data: bytes, key: str) -> SnapshotRow:
        manifests = parse_snapshot(data, key).manifests
        return SnapshotRow(
            key.removeprefix(SNAPSHOTS),
            tuple(info.id for info in manifests),
            tuple(info.refs for info in manifests),
        )

    with _live_files(reader):
        yield from read_parsed(reader, [SNAPSHOTS + snapshot for snapshot in snapshots], parse, threads)


def manifest_rows(
    reader: ObjectReader, refs: Mapping[str, int], threads: int = 16
) -> Iterator[tuple[str, sets.Ids]]:
    """Read which native chunks manifests name; raises FormatError when one is missing or damaged.

    Args:
        reader: on the repository.
        refs: how many references snapshots say that each manifest has.
        threads: files fetched at once.

    Many are fetched at once, and as many decoded at once as this process may use processors: all of that
    happens outside the interpreter's lock. A decoded manifest can be large, so never more.
    """
    decoding = threading.BoundedSemaphore(os.cpu_count() or 1)

    def read(manifest: str) -> tuple[str, sets.Ids]:
        key = MANIFESTS + manifest
        data = reader.get(key)
        with decoding:
            return manifest, native_chunk_hashes(data, key, refs=refs[manifest])

    with _live_files(reader):
        yield from ordered_map(read, sorted(refs), threads)


@contextmanager
def _live_files(reader: ObjectReader) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise FormatError(
            f"{reader.uri}: a live file is missing: {error}. Nothing was deleted. The repository is damaged:"
            " delete the refs that need the file, or restore it."
        ) from None


def _bits(context: Context, refs: dict[str, int]) -> int:
    """How many shards the live chunks are split into, as a power of two."""
    bits = 0
    while bits < 10 and sum(refs.values()) > context.plan.config.tuning.ids_a_shard << bits:
        bits += 1
    return bits


def _chunk_parts(
    context: Context, runner: TaskRunner, index: ManifestIndex, refs: dict[str, int]
) -> tuple[list[PartInfo], int]:
    """Read the manifests that the index lacks, then write the live chunks as shards."""
    config = {"bits": _bits(context, refs)}
    wanted = context.folder.write_bytes(
        f"{STEP}/manifests.json", json.dumps(sorted(refs)).encode(), len(refs)
    )
    read = 0
    for turn in range(2):
        have = {manifest for ids in index.manifests_of.values() for manifest in ids}
        new = sorted(refs.keys() - have)
        read += len(new)
        _index_manifests(context, runner, index, new, refs, f"{context.folder.label}-{turn + 2}")
        used = [name for name, ids in index.manifests_of.items() if not refs.keys().isdisjoint(ids)]
        tasks = [
            {
                "name": f"{STEP}/chunks-{number:05d}",
                "parts": [index.manifest_parts[name].to_json() for name in hand],
                "wanted": wanted.to_json(),
            }
            for number, hand in enumerate(in_chunks(sorted(used), len(used)))
        ]
        results = context.spread_json(runner, STEP, shard_chunks, config, tasks, "manifests")
        damaged = {name for result in results for name in result["damaged"]}
        if not damaged:
            found = {manifest for result in results for manifest in result["found"]}
            if found != refs.keys():
                raise FormatError(
                    f"{context.plan.uri}: {len(refs.keys() - found)} live manifests were not read"
                )
            return [PartInfo.from_json(part) for result in results for part in result["parts"]], read
        for name in damaged:
            log.warning("the index's part %s is damaged; its manifests are read again", name)
            index.drop(name)
    raise FormatError(
        f"{context.state.uri}: parts of the index that were just written cannot be read. Nothing was deleted."
    )


def _index_manifests(
    context: Context,
    runner: TaskRunner,
    index: ManifestIndex,
    new: list[str],
    refs: dict[str, int],
    label: str,
) -> None:
    tasks = [
        {"name": f"{label}-manifests-{number:05d}", "refs": {manifest: refs[manifest] for manifest in hand}}
        for number, hand in enumerate(_by_refs(new, refs, context.plan.config.tuning.refs_a_task, runner))
    ]
    results = context.spread_json(runner, STEP, read_manifests, {}, tasks, "references")
    index.add(
        context.state,
        label,
        [],
        [
            (PartInfo.from_json(one["part"]), list(task["refs"]))
            for one, task in zip(results, tasks, strict=True)
        ],
    )


def _by_refs(
    manifests: Iterable[str], refs: dict[str, int], refs_a_task: int, runner: TaskRunner
) -> list[list[str]]:
    """Deal manifests into tasks of about equal work, largest first."""
    order = sorted(manifests, key=lambda manifest: (-refs[manifest], manifest))
    total = sum(refs[manifest] for manifest in order) + 1000 * len(order)
    hands = max(1, min(len(order), max(runner.default_parallelism, -(-total // refs_a_task))))
    dealt: list[list[str]] = [order[hand::hands] for hand in range(hands)]
    return [hand for hand in dealt if hand]


def read_manifests(config: Json, task: Json) -> Json:
    """Read manifests and write which chunks they name as an index part. A partition function.

    Raises:
        FormatError: a live manifest is missing or damaged.
    """
    state = open_writer(config["state_uri"])
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"].replace("/", "-"))
    rows = []
    for manifest, chunks in manifest_rows(open_reader(config["uri"]), task["refs"], config["threads"]):
        rows.append((manifest, chunks))
        progress.add(len(chunks))
    return {"part": write_manifest_rows(state, task["name"], rows).to_json()}


def shard_chunks(config: Json, task: Json) -> Json:
    """Write the live chunks of some index parts as sorted sets, one a shard. A partition function.

    Returns:
        `parts`, `found` (live manifests in them) and `damaged` (index parts that could not be trusted).
    """
    state = open_reader(config["state_uri"])
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    wanted = set(json.loads(folder.read_bytes(PartInfo.from_json(task["wanted"]))))
    pieces: list[list[sets.Ids]] = [[] for _ in range(1 << config["bits"])]
    found: list[str] = []
    damaged: list[str] = []
    for part in map(PartInfo.from_json, task["parts"]):
        try:
            rows = read_manifest_rows(state, part)
        except FormatError:
            damaged.append(part.name)
            continue
        live = [(manifest, chunks) for manifest, chunks in rows if manifest in wanted]
        found += [manifest for manifest, _ in live]
        for _, chunks in live:
            for shard, ids in enumerate(sets.shards(chunks, config["bits"])):
                pieces[shard].append(ids)
    parts: list[Any] = []
    for shard, ids in enumerate(sets.unite_by_shard(pieces)):
        if len(ids):
            parts.append(sets.write_ids(folder, f"{task['name']}-{shard:04d}.ids", ids).to_json())
    return {"parts": parts, "found": found, "damaged": damaged}
