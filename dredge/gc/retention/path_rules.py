"""Rules about paths: of ranges that nothing else keeps, the entries whose path matches.

Those ranges are decoded once for each set of patterns, into an index of its own:

    <namespace>/_lakefs/retention/gc/dredge/paths/<digest of the patterns>/index/…
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.index.decoding import RangeHashes
from dredge.gc.index.ranges import RangeFacts, Ranges, facts_of, table_of
from dredge.gc.index.store import CommittedIndex, IndexPart, read_part, write_part
from dredge.gc.namespaces import METADATA
from dredge.gc.retention.kept_sets import PATHS, Extra, num_tasks_for
from dredge.gc.retention.policy.globs import compile_glob
from dredge.gc.run import Run
from dredge.gc.sets.files import write_hashes
from dredge.gc.sets.hashes import NONE, Hashes, unite
from dredge.graveler.addresses import AddressType, address_readings
from dredge.graveler.sstable.columns import Expected, read_addresses
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json, TaskRunner, in_chunks, round_robin
from dredge.storage import open_reader, open_writer


def collect_paths(run: Run, runner: TaskRunner, where: str, extras: Sequence[Extra]) -> list[PartInfo]:
    """Read what rules about paths keep.

    Args:
        run: of the run.
        runner: spreads the decoding.
        where: step folder.
        extras: of all sets; those about paths get their files.

    Returns:
        Files of hashes; what is in them is live.

    Raises:
        RefusedError: a range is missing.
        FormatError: a range is damaged.
    """
    for number, extra in enumerate(extras):
        if extra.found.paths and extra.ranges:
            extra.files = _collect_paths(run, runner, f"{where}/{PATHS}-{number:02d}", extra)
    return [part for extra in extras if extra.found.paths for part in extra.files]


def _collect_paths(run: Run, runner: TaskRunner, where: str, extra: Extra) -> list[PartInfo]:
    digest = hashlib.sha256(json.dumps(extra.found.paths).encode()).hexdigest()[:32]
    uri = f"{run.state.uri.rstrip('/')}/{PATHS}/{digest}"
    index = CommittedIndex.load(open_writer(uri, run.options), run.plan.namespace)
    known = {
        item: part
        for item, facts in extra.ranges.items()
        if (part := index.part_of(item, facts.count)) is not None
    }
    files: list[PartInfo] = []
    todo = {item: facts for item, facts in extra.ranges.items() if item not in known}
    parts = sorted(set(known.values()))
    turn = 0
    while todo or parts:
        tasks = _path_tasks(
            run, runner, where, turn, extra.ranges, todo, [index.parts[name] for name in parts]
        )
        config = {"paths": list(extra.found.paths), "index_uri": uri, "where": where}
        results = run.spread_json(runner, where, read_paths, config, tasks, "ranges", len(extra.ranges))
        label = f"{run.folder.label}-{where.replace('/', '-')}-{turn}"
        index.add(label, (_written(item) for result in results for item in result["written"]))
        files.extend(PartInfo.from_json(result["part"]) for result in results)
        damaged = {name for result in results for name in result["damaged"]}
        todo = {item: extra.ranges[item] for item, part in known.items() if part in damaged}
        parts, turn = [], turn + 1
    return files


def _path_tasks(
    run: Run,
    runner: TaskRunner,
    where: str,
    turn: int,
    ranges: Ranges,
    todo: Ranges,
    parts: Sequence[IndexPart],
) -> list[Json]:
    wanted = run.folder.write_table(where, turn, table_of(ranges), "wanted")
    table = run.folder.write_table(where, turn, table_of(todo), "todo")
    count = max(run.num_tasks(runner, len(todo) + len(parts)), num_tasks_for(todo))
    shares = in_chunks(range(len(todo)), count)
    hands = round_robin([part.to_json() for part in parts], count)
    return [
        {
            "name": f"{turn}-{number:05d}",
            "wanted": wanted.to_json(),
            "todo": table.to_json(),
            "first": shares[number][0] if number < len(shares) else 0,
            "stop": shares[number][-1] + 1 if number < len(shares) else 0,
            "parts": hands[number] if number < len(hands) else [],
        }
        for number in range(max(len(shares), len(hands)))
    ]


def _written(item: Json) -> tuple[IndexPart, list[str], list[int]]:
    return IndexPart.from_json(item["part"]), item["ids"], item["counts"]


def read_paths(config: Json, task: Json) -> Json:
    """Find the entries of some ranges whose path matches. A partition function.

    Args:
        config: doors, `where`, `paths` (patterns), `index_uri`, `progress`.
        task: `name`; `wanted` (the ranges that count); `todo`, `first` and `stop`: rows of a table of ranges
            to decode; `parts` of the index of these patterns.

    Returns:
        `part` (hashes), `written` (new parts of the index), `damaged` (names of parts not to be trusted).
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    index = open_writer(config["index_uri"])
    wanted = set(folder.read_part(PartInfo.from_json(task["wanted"]), ["range_id"])["range_id"].to_pylist())
    count = task["stop"] - task["first"]
    todo = dict(facts_of(folder.read_part(PartInfo.from_json(task["todo"])).slice(task["first"], count)))
    found: list[Hashes] = []
    written, damaged = [], []
    fresh = list(_matching(config, todo, progress))
    if fresh:
        name = f"{folder.label}-{config['where'].replace('/', '-')}-{task['name']}"
        ids, counts = [item.range_id for item in fresh], [item.count for item in fresh]
        written.append({"part": write_part(index, name, fresh).to_json(), "ids": ids, "counts": counts})
        found.extend(item.addresses for item in fresh)
    for part in (IndexPart.from_json(value) for value in task["parts"]):
        try:
            ranges = read_part(index, part, lambda _: False)
        except FormatError:
            damaged.append(part.name)
            continue
        found.extend(item.addresses for item in ranges if item.range_id in wanted)
        progress.add(len(ranges))
    hashes = write_hashes(folder, f"{config['where']}/{task['name']}.u64", unite(found))
    return {"part": hashes.to_json(), "written": written, "damaged": damaged}


def _matching(config: Json, ranges: Ranges, progress: Progress) -> Iterator[RangeHashes]:
    pattern = re.compile("|".join(f"(?:{compile_glob(glob).pattern})" for glob in config["paths"]), re.DOTALL)
    reader = open_reader(config["namespace"])
    try:
        for key, data in reader.get_many([METADATA + item for item in ranges]):
            facts = ranges[key.removeprefix(METADATA)]
            addresses = addresses_below(data, key, facts, pattern, config["namespace"])
            yield RangeHashes(key.removeprefix(METADATA), facts.count, 0, unite([addresses]), NONE)
            progress.add(1)
    except NotFoundError as error:
        raise RefusedError(
            f"a range that the retention policy keeps paths of is missing: {error}. Nothing was deleted. Restore the"
            " file, or take the rule out of the policy."
        ) from None


def addresses_below(
    data: bytes, name: str, facts: RangeFacts, pattern: re.Pattern[str], namespace: str
) -> Hashes:
    """Hash every key that an entry with a matching path may mean.

    Args:
        data: a range file.
        name: what to call it in errors.
        facts: what its metarange says.
        pattern: for whole paths.
        namespace: URI.

    Raises:
        FormatError: damaged, or another range.
    """
    expected = Expected(facts.count, facts.max_key)
    rows = read_addresses(data, name, ("key", "address", "address_type"), expected)
    # A path that is no UTF-8 is matched byte for byte, each strange byte as one character.
    paths = (path.decode("utf-8", "surrogateescape") for path in rows["key"].to_pylist())
    rows = rows.filter(pa.array([pattern.fullmatch(path) is not None for path in paths], pa.bool_()))
    relative = pc.equal(rows["address_type"], AddressType.RELATIVE)
    others = rows.filter(pc.invert(relative))
    keys = [
        key
        for address, kind in zip(
            others["address"].to_pylist(), others["address_type"].to_pylist(), strict=True
        )
        for key in address_readings(address, kind, namespace)
    ]
    hashes = [hash64(rows["address"].filter(relative)), hash64(pa.array(keys, pa.string()))]
    return np.concatenate(hashes)
