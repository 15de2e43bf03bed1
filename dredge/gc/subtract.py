"""Subtract: what is listed and nothing live names. Reads numbers for the many, rows for the few.

    candidates = { listed rows : hash not in live }

A row carries the reason why it is garbage, as far as anything tells, and whether it is *suspect*: its content
is also the content of some branch head. The server says nothing of an object that was uploaded again over an
equal one, although the branch then reads the new copy; a suspect is therefore looked into before it may be
deleted (`identical`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.gc import reasons
from dredge.gc.collect import EXPIRED, HEADS, LIVE, SIZES
from dredge.gc.context import Context
from dredge.gc.decoding import ODD_ETAG
from dredge.gc.etags import etags_are_contents
from dredge.gc.hashes import Hashes, unite, write_hashes
from dredge.gc.listing import SCHEMA as LISTED
from dredge.gc.lookup import ShardedSet
from dredge.gc.slices import DATA
from dredge.hashing import content_hash, hash64
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, deal
from dredge.storage import ObjectReader, open_reader, open_writer
from dredge.storage.parallel import ordered_map

STEP = "candidates"
SCHEMA = pa.schema(
    [
        *LISTED,
        pa.field("reason", pa.string(), nullable=False),
        pa.field("suspect", pa.string(), nullable=False),
        pa.field("content", pa.uint64(), nullable=False),
    ]
)
"""`suspect` is "" (nothing like it in any head), "content" (`content` is in some head) or "size" (only that
is known)."""

_SIGNED = r",[A-Za-z0-9_-]{43}$"
_MD5_BYTES_MAX = 64 << 20
_WHOLE_BYTES_MAX = 1 << 20


def subtract(context: Context, runner: TaskRunner) -> StepSummary:
    """Write the listed objects that nothing live names, each with a reason."""
    return context.step(
        STEP, ["listing", "staged", "committed"], lambda record: _subtract(context, runner, record)
    )


def _subtract(context: Context, runner: TaskRunner, record: StepRecord) -> None:
    tuning = context.plan.config.tuning
    committed = record.inputs["committed"]
    bits = committed.details["bits"]
    parts = list(record.inputs["listing"].parts)
    sets = {
        kind: ShardedSet.of(committed.parts_below(f"committed/{kind}-"), bits)
        for kind in (LIVE, HEADS, SIZES, EXPIRED)
    }
    if record.inputs["staged"].details.get("kv", {}).get("exact"):
        # Everything that any branch has staged was read and is live, whatever its content: nobody is suspect.
        sets |= {kind: ShardedSet(bits, {}) for kind in (HEADS, SIZES)}
    comparable = etags_are_contents(context, committed)
    config = {
        "sets": {kind: found.to_json() for kind, found in sets.items()},
        "comparable": comparable,
        "candidate_rows": tuning.candidate_rows,
        "threads": tuning.threads,
    }
    hands = deal([part.to_json() for part in parts], context.hands(runner, len(parts)))
    tasks = [{"name": f"{index:05d}", "parts": hand} for index, hand in enumerate(hands)]
    rows = sum(part.rows for part in parts)
    results = context.spread(runner, STEP, subtract_parts, config, tasks, "objects", rows)
    totals: Counter[str] = Counter()
    for result in results:
        totals.update(result["counts"])
        record.parts.extend(PartInfo.from_json(part) for part in result["parts"])
    if totals["rows"] != rows:
        raise FormatError(f"{totals['rows']} rows were compared, {rows} were listed. Nothing was deleted.")
    record.counts.update(
        listed_objects=rows,
        live_objects=rows - totals["objects"],
        candidates_objects=totals["objects"],
        candidates_bytes=totals["bytes"],
        suspects=totals["suspects"],
        suspects_bytes=totals["suspects_bytes"],
    )
    record.details["reasons"] = {
        reason: {"objects": totals[f"{reason}_objects"], "bytes": totals[f"{reason}_bytes"]}
        for reason in reasons.REASONS
        if totals[f"{reason}_objects"]
    }
    record.details["etags_are_contents"] = comparable


def subtract_parts(config: Json, task: Json) -> Json:
    """Compare some parts of the listing with the live set. A partition function.

    Args:
        config: doors, `sets`, `comparable` (ETags are hashes of the content), `candidate_rows`,
            `threads` (objects read at once), `progress`.
        task: `name` and `parts`.
    """
    folder = RunFolder(open_writer(config["run_uri"]), config["run_id"])
    progress = Progress(folder, config["progress"], task["name"])
    sets = {kind: ShardedSet.from_json(value) for kind, value in config["sets"].items()}
    parts = [PartInfo.from_json(part) for part in task["parts"]]
    hashes = [folder.read_part(part, ["hash"])["hash"].to_numpy() for part in parts]
    live = sets[LIVE].find(folder, hashes)
    judge = _Judge(folder, open_reader(config["namespace"]), sets, config["comparable"], config["threads"])
    counts: Counter[str] = Counter(rows=sum(map(len, hashes)))
    written: list[PartInfo] = []
    for index, table in enumerate(_chunks(folder, parts, live, config["candidate_rows"], progress)):
        rows = judge.describe(table)
        _count(rows, counts)
        written.append(folder.write_table(STEP, index, rows, f"part-{task['name']}"))
        name = f"{STEP}/hashes-{task['name']}-{index:05d}.u64"
        plain = rows.filter(pc.equal(rows["suspect"], ""))["hash"].to_numpy()
        written.append(write_hashes(folder, name, unite([plain])))
    return {"parts": [part.to_json() for part in written], "counts": dict(counts)}


def _chunks(
    folder: RunFolder,
    parts: list[PartInfo],
    live: list[npt.NDArray[np.bool_]],
    rows_max: int,
    progress: Progress,
) -> Iterator[pa.Table]:
    """The rows that are not live, in tables of bounded length."""
    waiting: list[pa.Table] = []
    count = 0
    for part, answer in zip(parts, live, strict=True):
        progress.add(part.rows)
        if answer.all():
            continue
        rows = folder.read_part(part).filter(pa.array(~answer))
        waiting.append(rows)
        count += rows.num_rows
        while count >= rows_max:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, rows_max).combine_chunks()
            waiting, count = [whole.slice(rows_max)], count - rows_max
    if count:
        yield pa.concat_tables(waiting).combine_chunks()


def _count(rows: pa.Table, counts: Counter[str]) -> None:
    counts["objects"] += rows.num_rows
    counts["bytes"] += pc.sum(rows["size"]).as_py()
    suspects = rows.filter(pc.not_equal(rows["suspect"], ""))
    counts["suspects"] += suspects.num_rows
    counts["suspects_bytes"] += pc.sum(suspects["size"]).as_py() or 0
    for group in rows.group_by("reason").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        counts[f"{group['reason']}_objects"] += group["size_count"]
        counts[f"{group['reason']}_bytes"] += group["size_sum"]


class _Judge:
    """Tells reasons and suspects of rows that are not live."""

    def __init__(
        self,
        folder: RunFolder,
        reader: ObjectReader,
        sets: dict[str, ShardedSet],
        comparable: bool,
        threads: int,
    ) -> None:
        self._folder = folder
        self._reader = reader
        self._sets = sets
        self._comparable = comparable
        self._threads = threads

    def describe(self, rows: pa.Table) -> pa.Table:
        addresses = rows["address"]
        hashes = rows["hash"].to_numpy()
        strays = pc.invert(pc.starts_with(addresses, DATA))
        if pc.any(strays).as_py():
            stray = addresses.filter(strays)[0].as_py()
            raise FormatError(f"{stray!r} is not below {DATA} and can be no candidate. Nothing was deleted.")
        if not np.array_equal(hash64(addresses), hashes):
            raise FormatError(
                "hashes of the listing do not fit its addresses. Nothing was deleted. Start a new run."
            )
        signed = pc.match_substring_regex(addresses, _SIGNED).to_numpy()
        expired = self._sets[EXPIRED].find(self._folder, [hashes])[0]
        why = np.where(expired, reasons.EXPIRED, np.where(signed, reasons.NEVER_LINKED, reasons.UNREFERENCED))
        suspects, contents = self._suspects(rows, signed)
        columns = [rows[name] for name in LISTED.names]
        columns += [pa.array(why, pa.string()), pa.array(suspects, pa.string()), pa.array(contents)]
        return pa.Table.from_arrays(columns, schema=SCHEMA)

    def _suspects(self, rows: pa.Table, signed: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.str_], Hashes]:
        sizes = rows["size"].to_numpy()
        plain = sizes.astype(np.uint64)
        etags = pc.fill_null(rows["etag"], "")
        contents = content_hash(sizes, etags)
        same_size, odd_size = self._sets[SIZES].find(self._folder, [plain, plain | ODD_ETAG])
        # Some entry of that size has a checksum that is no MD5, or the uploader of a linked object claimed
        # any: then only the size says something.
        by_size = odd_size | (signed & same_size)
        # Where the store's ETag is the MD5 of the content, as on S3 but for multipart and encrypted objects,
        # it tells. Elsewhere the bytes themselves are read, but only of objects that are as long as some
        # entry.
        whole = pc.match_substring_regex(etags, "^[0-9a-f]{32}$").to_numpy()
        unsure = np.flatnonzero(same_size & ~by_size & ~(whole & self._comparable))
        objects = list(zip(rows["address"].take(unsure).to_pylist(), sizes[unsure].tolist(), strict=True))
        for place, found in zip(unsure, ordered_map(self._md5, objects, self._threads), strict=True):
            if found is None:
                by_size[place] = True
            else:
                contents[place] = content_hash(sizes[place : place + 1], pa.array([found]))[0]
        (same_content,) = self._sets[HEADS].find(self._folder, [contents])
        return np.where(by_size, "size", np.where(same_content, "content", "")), contents

    def _md5(self, found: tuple[str, int]) -> str | None:
        """MD5 of the bytes of an object of that size; None when it is too long to be read for this."""
        address, size = found
        if size > _MD5_BYTES_MAX:
            return None
        digest = hashlib.md5(usedforsecurity=False)
        try:
            if size <= _WHOLE_BYTES_MAX:
                digest.update(self._reader.get(address))
            else:
                with self._reader.open_read(address) as stream:
                    for chunk in stream:
                        digest.update(chunk)
        except NotFoundError:
            return ""  # gone meanwhile: there is nothing to delete
        return digest.hexdigest()
