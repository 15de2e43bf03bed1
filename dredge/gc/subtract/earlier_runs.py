"""Objects that an earlier run knew of, and which nothing may name any more.

    staged then · named by a range that was active then and is not now, or of which single paths were kept ·
    carried · young in a slice that will not be listed again
        → not live → each once → is it in the store, and how old is it?
            gone → forgotten · young → carried · old → candidate · the store refuses to say → held

The store is asked for the few that are left at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.gc.index.decoding import keys_of
from dredge.gc.namespaces import DATA, METADATA
from dredge.gc.run import Run
from dredge.gc.sets.hashes import Hashes, contains, shard_of, unite
from dredge.gc.sets.live import LiveSet
from dredge.gc.slice_listing import LISTED
from dredge.gc.state.base import Base, base_of
from dredge.gc.subtract.classify import STEP, Judge, Written, write_candidates
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, round_robin
from dredge.storage import ObjectInfo, ObjectReader, open_reader, open_writer
from dredge.storage.parallel import ordered_map

KNOWN = pa.schema([pa.field("address", pa.string(), nullable=False), pa.field("hash", pa.uint64())])
YOUNG = f"{STEP}/young-"
_SHARD_BITS = 6
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def look_into(run: Run, runner: TaskRunner, record: StepRecord, config: Json) -> list[Json]:
    """Find candidates among the objects that are known from elsewhere than the listing.

    Args:
        run: of the run.
        runner: spreads the work.
        record: of the subtract step; its parts are the candidates found by listing.
        config: for the tasks.

    Returns:
        `parts` and `counts` of each task.
    """
    young = [
        {"kind": "rows", "part": part.to_json()}
        for part in record.inputs["slice_listing"].parts_below("slice_listing/young-")
    ]
    searches = [_search(run, runner, "young", run.plan.run_uri, young, config)]
    base = base_of(run)
    if base is not None:
        rows = [{"kind": "rows", "part": part.to_json()} for part in (*base.state.staged, *base.state.carry)]
        searches.append(_search(run, runner, "earlier", base.state.run_uri, rows, config))
        sources = [{"kind": "range", "id": range_id} for range_id in _let_go(run, base, record)]
        searches.append(_search(run, runner, "dropped", run.plan.run_uri, sources, config))
    found = [
        PartInfo.from_json(part) for results in searches for result in results for part in result["parts"]
    ]
    for results in searches:
        for result in results:
            for text in result["unread"]:
                record.warn(text)
    if not found:
        return []
    listed = [part.to_json() for part in record.parts if part.name.startswith(f"{STEP}/part-")]
    config = {**config, "known": [part.to_json() for part in found], "listed": listed}
    rows_known = sum(part.rows for part in found)
    count = run.num_tasks(runner, 1 + rows_known // 1000)
    shards = round_robin(list(range(1 << _SHARD_BITS)), count)
    tasks = [{"name": f"known-{index:05d}", "shards": hand} for index, hand in enumerate(shards)]
    results = run.spread_json(runner, STEP, look_up, config, tasks, "objects", rows_known)
    refusals = [result["refused"] for result in results if result["refused"]]
    if refusals:
        objects = sum(result["counts"]["refused"] for result in results)
        record.warn(
            f"{objects:,} objects are held back: the store refused to describe them ({refusals[0]}). Nothing of them"
            " was deleted; later runs ask again. Allow reading of these objects, or bring them back from an archive"
        )
    return results


def _let_go(run: Run, base: Base, record: StepRecord) -> list[str]:
    """Ranges that were active in the earlier run and are not now, and those of which it kept single paths:
    another policy may keep other ones."""
    dropped = record.inputs["list_committed"].part("list_committed/dropped-00000.parquet")
    tables = [
        run.folder.read_part(dropped, ["range_id"]),
        base.folder.read_part(base.state.path_ranges, ["range_id"]),
    ]
    return sorted({range_id for table in tables for range_id in table["range_id"].to_pylist()})


def _search(
    run: Run, runner: TaskRunner, name: str, uri: str, sources: Sequence[Json], config: Json
) -> list[Json]:
    hands = round_robin(list(sources), run.num_tasks(runner, len(sources)))
    tasks = [{"name": f"{name}-{index:05d}", "sources": hand} for index, hand in enumerate(hands)]
    return run.spread_json(
        runner, STEP, search_known, {**config, "source_uri": uri}, tasks, "files", len(sources)
    )


def search_known(config: Json, task: Json) -> Json:
    """Write those known objects that are not live. A partition function.

    Args:
        config: doors, `source_uri` (run folder of files with rows), `live`, `progress`.
        task: `name`; `sources`: files of rows with a column `address`, or ids of ranges.

    Returns:
        `parts`, and `unread`: sentences about ranges that could not be read.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    source = RunFolder(open_writer(config["source_uri"]), "an earlier run")
    reader = open_reader(config["namespace"])
    live = LiveSet.from_json(config["live"])
    parts: list[PartInfo] = []
    unread: list[str] = []
    for index, item in enumerate(task["sources"]):
        try:
            addresses = _addresses(item, source, reader, config["namespace"])
        except DredgeError as error:
            if item["kind"] != "range":
                raise
            unread.append(
                f"what range {item['id']} named is left to the next clean run: it cannot be read ({error})"
            )
            continue
        addresses = addresses.filter(pc.starts_with(addresses, DATA))
        hashes = hash64(addresses)
        dead = pa.array(~live.find([hashes])[0])
        rows = pa.Table.from_arrays([addresses.filter(dead), pa.array(hashes).filter(dead)], schema=KNOWN)
        if rows.num_rows:
            parts.append(folder.write_table(STEP, index, rows, f"known-{task['name']}"))
    return {"parts": [part.to_json() for part in parts], "unread": unread}


def _addresses(item: Json, source: RunFolder, reader: ObjectReader, namespace: str) -> pa.Array:
    if item["kind"] == "range":
        key = METADATA + item["id"]
        return keys_of(reader.get(key), key, namespace)
    found = source.read_part(PartInfo.from_json(item["part"]), ["address"])["address"].combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def look_up(config: Json, task: Json) -> Json:
    """Ask the store for known objects that nothing names, and write the old ones as candidates. A partition
    function.

    Args:
        config: doors, `known` (files), `listed` (candidates that the listing gave), `cutoff`, `threads`,
            what a `Judge` needs, `progress`.
        task: `name`; `shards` of the hashes.

    Returns:
        `parts` (candidates, and young objects to be carried), `counts`, `examples`, and `refused`: what the
        store said of an object that it would not describe.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    reader = open_reader(config["namespace"])
    cutoff = datetime.fromisoformat(config["cutoff"])
    shards = np.array(task["shards"], np.int64)
    listed = [
        _of_shards(folder.read_part(PartInfo.from_json(part), ["hash"]), shards)["hash"].to_numpy()
        for part in config["listed"]
    ]
    rows = _once(folder, [PartInfo.from_json(part) for part in config["known"]], shards, unite(listed))
    counts: Counter[str] = Counter(known=len(rows))
    old: list[ObjectInfo] = []
    young: list[ObjectInfo] = []
    unreadable: list[ObjectInfo] = []
    refused = ""
    for info in ordered_map(partial(_stat, reader), rows, config["threads"]):
        if info is None:
            counts["gone"] += 1
        elif isinstance(info, _Refused):
            refused = refused or info.words
            unreadable.append(ObjectInfo(info.key, 0, _EPOCH, None))
        elif info.last_modified < cutoff:
            old.append(info)
        else:
            young.append(info)
    counts.update(young=len(young), refused=len(unreadable))
    written = Written(counts=counts)
    judge, rows_max = Judge.of(folder, config), config["candidate_rows"]
    write_candidates(folder, judge, _tables(old, rows_max), task["name"], written)
    tables = _tables(unreadable, rows_max)
    write_candidates(folder, judge, tables, f"{task['name']}-unreadable", written, unreadable=True)
    if young:
        written.parts.append(folder.write_table(STEP, 0, _table(young), f"young-{task['name']}"))
    return {**written.to_json(), "refused": refused}


def _once(
    folder: RunFolder, parts: Sequence[PartInfo], shards: npt.NDArray[np.int64], without: Hashes
) -> list[str]:
    """Addresses of some shards, each once, without those that the listing gave."""
    seen: set[str] = set()
    for table in folder.read_parts(parts):
        rows = _of_shards(table, shards)
        rows = rows.filter(pa.array(~contains(without, rows["hash"].to_numpy())))
        seen.update(rows["address"].to_pylist())
    return sorted(seen)


def _of_shards(rows: pa.Table, shards: npt.NDArray[np.int64]) -> pa.Table:
    return rows.filter(pa.array(np.isin(shard_of(rows["hash"].to_numpy(), _SHARD_BITS), shards)))


@dataclass(frozen=True, slots=True)
class _Refused:
    """An object that the store would not describe, and its words."""

    key: str
    words: str


def _stat(reader: ObjectReader, address: str) -> ObjectInfo | _Refused | None:
    try:
        info = reader.stat(address)
    except NotFoundError:
        return None
    except (ConfigError, UnavailableError) as error:
        # Access to this object is denied, or it is encrypted with a key that only its owner has.
        return _Refused(address, str(error))
    if info.last_modified <= _EPOCH:
        raise RefusedError(
            f"the store gives no time for {address!r}. Without its age nothing can be told about an object."
            " Nothing was deleted."
        )
    return info


def _tables(infos: Sequence[ObjectInfo], rows_max: int) -> Iterator[pa.Table]:
    for first in range(0, len(infos), rows_max):
        yield _table(infos[first : first + rows_max])


def _table(infos: Sequence[ObjectInfo]) -> pa.Table:
    addresses = pa.array([info.key for info in infos], pa.string())
    columns = [
        addresses,
        pa.array([info.size for info in infos], pa.int64()),
        pa.array([info.last_modified for info in infos], pa.timestamp("us", tz="UTC")),
        pa.array([info.etag for info in infos], pa.string()),
        pa.array(hash64(addresses)),
    ]
    return pa.Table.from_arrays(columns, schema=LISTED)
