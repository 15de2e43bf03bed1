"""Collecting, task by task: what ranges name, counted and cut into shards, and shards merged."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dredge.errors import DredgeError, FormatError, NotFoundError, RefusedError
from dredge.gc.index.decoding import RangeHashes, decode
from dredge.gc.index.ranges import Ranges, facts_of
from dredge.gc.index.store import IndexPart, read_part, write_part
from dredge.gc.namespaces import METADATA
from dredge.gc.sets.files import read_counted, read_hashes, write_counted, write_hashes
from dredge.gc.sets.hashes import Hashes, split, unite
from dredge.gc.sets.refcounts import Counted
from dredge.runs.folder import RunFolder
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import Json
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer

log = logging.getLogger("dredge")

LIVE, SIZES, EXPIRED = "live", "sizes", "expired"
"""Addresses of active ranges; sizes of the entries of branch heads; addresses of ranges that only expired
commits of the history name."""
COUNTS = "counts"
"""How many active ranges name each address."""
COUNTED = "counted"
"""Folder of counts, beside the committed index."""

_HEAD_ROLES = ("head", "new head")
_DROPPED_ROLES = ("let go", "dropped")
_PART_VALUES = 2_000_000
_SINK_VALUES = 8_000_000


def read_share(config: Json, task: Json) -> Json:
    """Decode some ranges and read some parts of the index. A partition function.

    Args:
        config: doors, `where`, `bits`, `roles`, `progress`.
        task: `name`; `todo`, `first` and `stop`: rows of a table of ranges; `parts` of the index.

    Returns:
        `partials` (kind, shard, file), `written` (new parts of the index), `damaged` (names of parts not to
        be trusted), `outside` (records of active ranges that lie outside the namespace), `taken_away`
        (dropped ranges that were read).
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    state = open_writer(config["state_uri"])
    progress = Progress(folder, config["progress"], task["name"])
    known = _Known.read(folder, config["roles"])
    roles = known.roles
    sinks = {kind: _Sink() for kind in (SIZES, EXPIRED)}
    sums = _Sums()
    outside = 0
    written, damaged, taken_away = [], [], []
    for part, ranges in _decoded(config, task, folder, state):
        ids, counts = [item.range_id for item in ranges], [item.count for item in ranges]
        if part is None:
            taken_away.extend(ids)
        else:
            written.append({"part": part.to_json(), "ids": ids, "counts": counts})
        outside += _sort(sinks, sums, roles, ranges)
        progress.add(sum(counts))
    for part in (IndexPart.from_json(value) for value in task["parts"]):
        try:
            ranges = read_part(state, part, lambda range_id: roles.get(range_id) in _HEAD_ROLES)
        except FormatError:
            damaged.append(part.name)
            continue
        outside += _sort(sinks, sums, roles, known.counting(part.name, ranges))
        progress.add(sum(item.count for item in ranges))
    prefix = f"{config['where']}/partial/{task['name']}"
    partials = [
        {"kind": kind, "shard": shard, "part": part.to_json()}
        for kind, sink in sinks.items()
        for shard, part in sink.write(folder, f"{prefix}-{kind}", config["bits"])
    ]
    partials += [
        {"kind": COUNTS, "shard": shard, "part": part.to_json()}
        for shard, part in sums.write(folder, f"{prefix}-{COUNTS}", config["bits"])
    ]
    return {
        "partials": partials,
        "written": written,
        "damaged": damaged,
        "outside": outside,
        "taken_away": taken_away,
    }


@dataclass(frozen=True, slots=True)
class _Known:
    """What a task knows of ranges."""

    roles: dict[str, str]
    places: dict[str, str]

    @classmethod
    def read(cls, folder: RunFolder, part: Json) -> _Known:
        table = folder.read_part(PartInfo.from_json(part))
        ids = table["range_id"].to_pylist()
        roles, places = table["role"].to_pylist(), table["place"].to_pylist()
        return cls(dict(zip(ids, roles, strict=True)), dict(zip(ids, places, strict=True)))

    def counting(self, part: str, ranges: Iterable[RangeHashes]) -> Iterator[RangeHashes]:
        """Those ranges of a part of the index that no other part counts for, and dropped ones not at all:
        those are read by themselves."""
        for item in ranges:
            if self.places.get(item.range_id) == part and self.roles[item.range_id] not in _DROPPED_ROLES:
                yield item


def _decoded(
    config: Json, task: Json, folder: RunFolder, state: ObjectWriter
) -> Iterator[tuple[IndexPart | None, list[RangeHashes]]]:
    """Decode a task's ranges, writing a part of the index whenever there is enough for one; none of dropped
    ranges, which it had when they were new."""
    if task["first"] == task["stop"]:
        return
    todo = folder.read_part(PartInfo.from_json(task["todo"])).slice(
        task["first"], task["stop"] - task["first"]
    )
    facts = dict(facts_of(todo))
    read = _decode_leniently if task["lenient"] else _decode
    name = f"{folder.label}-{config['where'].replace('/', '-')}-{task['name']}"
    batch: list[RangeHashes] = []
    values = number = 0
    if task["dropped"]:
        for item in read(open_reader(config["namespace"]), facts, config["namespace"]):
            yield None, [item]
        return
    for item in read(open_reader(config["namespace"]), facts, config["namespace"]):
        batch.append(item)
        values += len(item.addresses) + len(item.sizes)
        if values >= _PART_VALUES:
            yield write_part(state, f"{name}-{number:04d}", batch), batch
            batch, values, number = [], 0, number + 1
    if batch:
        yield write_part(state, f"{name}-{number:04d}", batch), batch


def _decode(reader: ObjectReader, facts: Ranges, namespace: str) -> Iterator[RangeHashes]:
    files = reader.get_many([METADATA + range_id for range_id in facts])
    try:
        yield from decode(files, facts, namespace)
    except NotFoundError as error:
        raise RefusedError(
            f"a range of an active commit is missing: {error}. Its objects cannot be told from garbage."
            " Nothing was deleted. Restore the file (a backup, an older version of the bucket), then start"
            " a new run."
        ) from None


def _decode_leniently(reader: ObjectReader, facts: Ranges, namespace: str) -> Iterator[RangeHashes]:
    for range_id in facts:
        key = METADATA + range_id
        try:
            yield from list(decode([(key, reader.get(key))], facts, namespace))
        except DredgeError as error:
            log.info("range %s of an expired commit cannot be read: %s", range_id, error)


def _sort(sinks: dict[str, _Sink], sums: _Sums, roles: dict[str, str], ranges: Iterable[RangeHashes]) -> int:
    """Put ranges where their role wants them; gives the active records that lie outside the namespace."""
    outside = 0
    for item in ranges:
        role = roles[item.range_id]
        if role in ("expired", "let go"):
            sinks[EXPIRED].add(item.addresses)
        if role in _DROPPED_ROLES:
            sums.take_away(item.addresses)
        if role in ("active", "head"):
            outside += item.outside
            sums.add(item.addresses)
        if role in _HEAD_ROLES:
            sinks[SIZES].add(item.sizes)
    return outside


class _Sink:
    """Collects values in bounded memory: distinct ones only, from time to time."""

    def __init__(self) -> None:
        self._pieces: list[Hashes] = []
        self._values = 0

    def add(self, values: Hashes) -> None:
        self._pieces.append(values)
        self._values += len(values)
        if self._values > _SINK_VALUES and len(self._pieces) > 1:
            self._pieces = [unite(self._pieces)]
            self._values = len(self._pieces[0]) // 2  # grow by as much again before the next time

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[tuple[int, PartInfo]]:
        for shard, values in enumerate(split(unite(self._pieces), bits)):
            if len(values):
                yield shard, write_hashes(folder, f"{name}-{shard:04d}.u64", values)


class _Sums:
    """Counts in how many ranges each hash is, in bounded memory."""

    def __init__(self) -> None:
        self._signed: dict[int, list[Hashes]] = {1: [], -1: []}
        self._values = 0
        self._summed = Counted()

    def add(self, values: Hashes) -> None:
        self._take(values, 1)

    def take_away(self, values: Hashes) -> None:
        self._take(values, -1)

    def write(self, folder: RunFolder, name: str, bits: int) -> Iterator[tuple[int, PartInfo]]:
        self._sum_up()
        for shard, counted in enumerate(self._summed.split(bits)):
            if len(counted.hashes):
                yield shard, write_counted(folder, f"{name}-{shard:04d}.counts", counted)

    def _take(self, values: Hashes, sign: int) -> None:
        self._signed[sign].append(values)
        self._values += len(values)
        if self._values > max(_SINK_VALUES, len(self._summed.hashes) // 2):
            self._sum_up()

    def _sum_up(self) -> None:
        found = [Counted.of(pieces, sign) for sign, pieces in self._signed.items()]
        self._summed = Counted.sum([self._summed, *found])
        self._signed, self._values = {1: [], -1: []}, 0


def merge_shards(config: Json, task: Json) -> Json:
    """Merge the files of some shards. A partition function.

    Args:
        config: doors, `where`, `bits`, `is_difference` (counts are no live set by themselves),
            `keep_counts`, `count_here`.
        task: `merges`: kind, shard, `parts` of that shard, and `whole` files of which only the shard counts.

    Returns:
        `parts` in the run folder, and `counted` in the folder of lease and index, or in the run folder.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    state = RunFolder(open_writer(config["state_uri"]), config["run_id"])
    parts, counted = [], []
    for merge in task["merges"]:
        files = [PartInfo.from_json(part) for part in merge["parts"]]
        if merge["kind"] != COUNTS:
            name = f"{config['where']}/{merge['kind']}-{merge['shard']:04d}.u64"
            united = unite([read_hashes(folder, part) for part in files])
            parts.append(write_hashes(folder, name, united).to_json())
            continue
        total = Counted.sum([read_counted(folder, part) for part in files])
        if config["count_here"] and len(total.hashes):
            name = f"{config['where']}/{COUNTS}-{merge['shard']:04d}.counts"
            counted.append(write_counted(folder, name, total).to_json())
        elif config["keep_counts"] and len(total.hashes):
            name = f"{COUNTED}/{folder.label}-{config['where'].replace('/', '-')}-{merge['shard']:04d}.counts"
            counted.append(write_counted(state, name, total).to_json())
        live = [] if config["is_difference"] else [total.hashes[total.counts > 0]]
        for part in merge["whole"]:
            live.append(split(read_hashes(folder, PartInfo.from_json(part)), config["bits"])[merge["shard"]])
        name = f"{config['where']}/{LIVE}-{merge['shard']:04d}.u64"
        parts.append(write_hashes(folder, name, unite(live)).to_json())
    return {"parts": parts, "counted": counted}
