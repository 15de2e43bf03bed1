"""Candidates: what the store holds and no live thing names, older than the cutoff.

Each kind of object is listed in ranges of names that tile its folder exactly, at once; a range needs only
the live ids that fall into it. A name that is not the canonical spelling of an id is foreign: counted, never
touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError
from dredge.icechunk.collection import marking, sets
from dredge.icechunk.collection.overwritten import find_overwritten
from dredge.icechunk.collection.plan import Context
from dredge.icechunk.ids import ALPHABET, hashes_of_names
from dredge.icechunk.repository import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner
from dredge.storage import LISTING_SCHEMA, ObjectReader, open_reader

STEP = "candidates"
SCHEMA = pa.schema([LISTING_SCHEMA.field("key").with_name("address"), *list(LISTING_SCHEMA)[1:]])
"""Columns of the candidates; `address` is the key relative to the repository."""
KINDS = {"snapshots": SNAPSHOTS, "transactions": TRANSACTIONS, "manifests": MANIFESTS, "chunks": CHUNKS}
"""Folder by kind, in the order of deleting: what names something goes before what it names."""

ABSENT_MAX = 1000
"""Live objects that are not listed: so many of a kind are looked into."""

_BITS_A_CHAR = 5


def find_candidates(context: Context, runner: TaskRunner) -> StepSummary:
    """List the repository and write what may be deleted.

    Raises:
        FormatError: a live snapshot or manifest is not in the listing, so one of the two cannot be trusted.
    """
    return context.step_by_name(STEP, [marking.STEP], lambda record: _find(context, runner, record))


def _find(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    mark = record.inputs[marking.STEP]
    config = {
        "cutoff": context.plan.cutoff.isoformat(),
        "rows": context.plan.config.tuning.candidate_rows,
        "chunk_bits": mark.details["chunk_bits"],
        "live": [part.to_json() for part in mark.parts_below(f"{marking.STEP}/")],
        "kept": context.plan.config.kept_kinds,
    }
    tasks = _tasks(context, mark)
    results = context.spread_json(runner, STEP, list_range, config, tasks, "objects")
    totals: Counter[str] = Counter()
    samples: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    for task, result in zip(tasks, results, strict=True):
        record.parts += [PartInfo.from_json(part) for part in result["parts"]]
        totals.update({f"{task['kind']}_{name}": value for name, value in result["counts"].items()})
        samples.setdefault(task["kind"], []).extend(result["foreign"])
        absent.setdefault(task["kind"], []).extend(result["absent"])
    for kind in KINDS:
        record.counts.update({f"{kind}_{name}": totals[f"{kind}_{name}"] for name in _COUNTS})
    for kind in ("snapshots", "manifests"):
        if record.counts[f"{kind}_absent"]:
            raise FormatError(
                f"{context.plan.uri}: {record.counts[f'{kind}_absent']} live {kind} are not listed in"
                f" {KINDS[kind]}. Nothing was deleted. The repository is damaged, or the store lists wrongly."
            )
    record.details["absent"] = {kind: hashes[:ABSENT_MAX] for kind, hashes in absent.items() if hashes}
    for kind, names in samples.items():
        if names:
            shown = ", ".join(names[:3])
            record.warn(
                f"{totals[f'{kind}_foreign']:,} names in {kind} are no ids and are left alone: {shown}"
            )
    find_overwritten(context, record)


_COUNTS = (
    "listed_objects",
    "listed_bytes",
    "candidates_objects",
    "candidates_bytes",
    "young_objects",
    "young_bytes",
    "spared_objects",
    "spared_bytes",
    "foreign",
    "absent",
)


def _tasks(context: Context, mark: StepSummary) -> list[Json]:
    expected = {
        "snapshots": mark.counts["live_snapshots"],
        "transactions": mark.counts["live_snapshots"],
        "manifests": mark.counts["live_manifests"],
        "chunks": sum(part.rows for part in mark.parts_below(f"{marking.STEP}/chunks")),
    }
    tasks = []
    for kind, prefix in KINDS.items():
        cuts = _cuts(context, expected[kind])
        for number, (low, high) in enumerate(pairwise(cuts)):
            tasks.append(
                {"name": f"{kind}-{number:04d}", "kind": kind, "prefix": prefix, "low": low, "high": high}
            )
    return tasks


def _cuts(context: Context, expected: int) -> list[str]:
    """Choose where a folder's names are cut; the first and last range are open."""
    per_task = context.plan.config.tuning.keys_a_task
    # A local folder is read whole whatever the range, so cutting it only costs.
    if expected <= per_task or context.reader.uri.startswith("file:"):
        return ["", ""]
    firsts = list(ALPHABET[1:])
    if expected <= per_task * len(ALPHABET):
        return ["", *firsts, ""]
    return ["", *sorted(one + two for one in ALPHABET for two in ALPHABET)[1:], ""]


def list_range(config: Json, task: Json) -> Json:
    """List one range of a folder and write its candidates. A partition function.

    Args:
        config: doors, `cutoff`, `rows`, `chunk_bits`, `live` (the parts of the mark), `kept` (kinds of which
            nothing is a candidate).
        task: `name`, `kind`, `prefix`, `low` (first name, inclusive; "" is open), `high` (exclusive; "" is
            open).

    Returns:
        `parts`, `counts`, some `foreign` names, and some `absent` ids that are live but not listed, as hex.
    """
    folder = RunFolder.of_task(config["run_uri"], config["run_id"], config.get("try"))
    progress = Progress(folder, config["progress"], task["name"])
    live = _live_in(folder, config, task)
    seen = np.zeros(len(live), dtype=np.bool_)
    cutoff = pa.scalar(datetime.fromisoformat(config["cutoff"]), pa.timestamp("us", tz="UTC"))
    counts: Counter[str] = Counter()
    foreign: list[str] = []
    chosen: list[pa.Table] = []
    for batch in _listed(open_reader(config["uri"]), task):
        hashes, right = hashes_of_names(pc.utf8_slice_codeunits(batch["key"], len(task["prefix"])))
        named = sets.contains(live, hashes) & right
        seen[np.searchsorted(live, hashes[named])] = True
        nothing = np.zeros(len(right), np.bool_)
        old = is_old_column(batch["last_modified"], cutoff)
        young = right & ~named & ~old
        dead = right & ~named & old
        spared, candidate = (dead, nothing) if task["kind"] in config["kept"] else (nothing, dead)
        sizes = batch["size"].to_numpy()
        counts.update(
            listed_objects=batch.num_rows,
            listed_bytes=int(sizes.sum()),
            young_objects=int(young.sum()),
            young_bytes=int(sizes[young].sum()),
            candidates_objects=int(candidate.sum()),
            candidates_bytes=int(sizes[candidate].sum()),
            spared_objects=int(spared.sum()),
            spared_bytes=int(sizes[spared].sum()),
            foreign=int((~right).sum()),
        )
        foreign += batch["key"].filter(pa.array(~right)).to_pylist()[: max(0, 3 - len(foreign))]
        if candidate.any():
            chosen.append(pa.Table.from_batches([batch]).filter(pa.array(candidate)))
        progress.add(batch.num_rows)
    absent = _required(folder, config, task, live[~seen])
    counts["absent"] = len(absent)
    parts = write_candidates(
        folder, f"{task['kind']}-{task['name'].rpartition('-')[2]}", chosen, config["rows"]
    )
    return {
        "parts": [part.to_json() for part in parts],
        "counts": dict(counts),
        "foreign": foreign,
        "absent": [f"{number:016x}" for number in absent[:ABSENT_MAX].tolist()],
    }


def is_old_column(times: pa.Array, cutoff: pa.Scalar) -> npt.NDArray[np.bool_]:
    """Tell which objects were written before the cutoff; see `roots.is_old`."""
    micros = times.cast(pa.int64()).to_numpy()
    micros = micros + np.where(micros % 1_000_000 == 0, 1_000_000, 0)
    found: npt.NDArray[np.bool_] = micros < cutoff.cast(pa.int64()).as_py()
    return found


def write_candidates(folder: RunFolder, name: str, tables: Sequence[pa.Table], rows: int) -> list[PartInfo]:
    """Write candidates as parts of bounded size."""
    if not tables:
        return []
    whole = (
        pa.concat_tables(tables).select(LISTING_SCHEMA.names).rename_columns(SCHEMA.names).combine_chunks()
    )
    return [
        folder.write_table(STEP, number, whole.slice(start, rows), name)
        for number, start in enumerate(range(0, whole.num_rows, rows))
    ]


def _listed(reader: ObjectReader, task: Json) -> Iterator[pa.RecordBatch]:
    # Both bounds of a listing are exclusive. A name equal to a cut is too short for an id, so the range
    # above may leave it out; the zero byte makes the range below take it in, so that foreign names are
    # counted once.
    prefix, low, high = task["prefix"], task["low"], task["high"]
    yield from reader.list(
        prefix,
        start_after=prefix + low if low else "",
        stop_before=prefix + high + "\0" if high else "",
    )


def _live_in(folder: RunFolder, config: Json, task: Json) -> sets.Ids:
    """Read the live ids of a task's range."""
    parts = [PartInfo.from_json(part) for part in config["live"]]
    if task["kind"] != "chunks":
        wanted = [part for part in parts if part.name == f"{marking.STEP}/{task['kind']}.ids"]
        return _between(sets.unite([sets.read_ids(folder, part) for part in wanted]), task)
    first, last = (_shard(bound, config["chunk_bits"]) for bound in _bounds(task))
    pieces: list[list[sets.Ids]] = [[] for _ in range(first, last + 1)]
    for part in parts:
        shard = _chunk_shard(part.name)
        if first <= shard <= last:
            pieces[shard - first].append(sets.read_ids(folder, part))
    return _between(np.concatenate(list(sets.unite_by_shard(pieces))), task)


def _required(folder: RunFolder, config: Json, task: Json, absent: sets.Ids) -> sets.Ids:
    """Leave out what need not be there: the log of a snapshot, which roots of spec 1 have not."""
    if task["kind"] != "transactions" or not len(absent):
        return absent
    name = f"{marking.STEP}/{marking.PRUNED}.ids"
    parts = [part for part in map(PartInfo.from_json, config["live"]) if part.name == name]
    pruned = sets.unite([sets.read_ids(folder, part) for part in parts])
    return absent[sets.contains(pruned, absent)]


def _chunk_shard(name: str) -> int:
    if not name.startswith(f"{marking.STEP}/chunks-"):
        return -1
    return int(name.removesuffix(".ids").rpartition("-")[2])


def _bounds(task: Json) -> tuple[int, int]:
    """Give the smallest and the largest 64-bit number that a range can hold."""
    low = _number(task["low"]) if task["low"] else 0
    high = _number(task["high"]) - 1 if task["high"] else (1 << 64) - 1
    return low, high


def _number(prefix: str) -> int:
    value = 0
    for char in prefix:
        value = value << _BITS_A_CHAR | ALPHABET.index(char)
    return value << (64 - _BITS_A_CHAR * len(prefix))


def _shard(number: int, bits: int) -> int:
    return number >> (64 - bits) if bits else 0


def _between(ids: sets.Ids, task: Json) -> sets.Ids:
    low, high = _bounds(task)
    start = int(np.searchsorted(ids, np.uint64(low)))
    stop = int(np.searchsorted(ids, np.uint64(high), side="right"))
    return ids[start:stop]


def candidate_parts(summary: StepSummary, kind: str) -> list[PartInfo]:
    """Give the parts with the candidates of a kind."""
    return summary.parts_below(f"{STEP}/{kind}-")


def candidate_keys(folder: RunFolder, summary: StepSummary, kind: str) -> list[str]:
    """Read the keys of all candidates of a kind: for kinds of which there are few."""
    keys: list[Any] = []
    for table in folder.read_parts(candidate_parts(summary, kind), ["address"]):
        keys += table["address"].to_pylist()
    return keys
