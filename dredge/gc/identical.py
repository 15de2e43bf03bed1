"""Identical content uploaded again: live on its branch, and in no answer about uncommitted objects.

lakeFS compares a staged entry with the committed one by size, ETag, metadata and content type. When they are
equal it does not count as a change, so prepare_uncommitted leaves it out; yet the branch reads the new
address until it is committed or reset. Such an object looks like garbage in every respect but one: its
content is also in the head of some branch.

    suspects → ranges of branch heads with that content → paths → ask each branch that has the path what it
    serves served → live · asked everywhere and not served → cleared · too many to ask → held

Whatever is not cleared is not deleted.

Source: pkg/catalog/entry.go, pkg/graveler/uncommitted_diff_iterator.go
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import FormatError, NotFoundError
from dredge.gc.context import Context
from dredge.gc.decoding import HeadEntries, entries_of
from dredge.gc.hashes import Hashes, contains, read_hashes, unite, write_hashes
from dredge.gc.index import CommittedIndex, IndexPart, read_part
from dredge.gc.ranges import METADATA, facts_of
from dredge.graveler.addresses import AddressType, address_readings
from dredge.graveler.committed.metaranges import read_metarange
from dredge.runs.folder import RunFolder
from dredge.runs.perform import StepRecord
from dredge.runs.progress import Progress
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner, cut
from dredge.storage import ObjectReader, open_reader

STEP = "guard"
CLEARED = f"{STEP}/cleared.u64"
_STAT_THREADS = 16


@dataclass(slots=True)
class Resolution:
    """What became of the suspects.

    Attributes:
        suspects: how many there were.
        live: address, branch and path of those that a branch serves.
        cleared: hashes of those that no branch serves.
        cleared_bytes: their length together.
        asked: questions to the server.
        why_held: sentence, when some were not looked into.
    """

    suspects: int
    live: list[tuple[str, str, str]] = field(default_factory=list)
    cleared: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    cleared_bytes: int = 0
    asked: int = 0
    why_held: str = ""

    @property
    def held(self) -> int:
        """How many were neither cleared nor found to live."""
        return self.suspects - len(self.cleared) - len({address for address, _, _ in self.live})


@dataclass(frozen=True, slots=True)
class _Suspect:
    address: str
    hash: int
    content: int | None
    size: int


type _Question = tuple[str, str]
"""Branch and path."""


def resolve(context: Context, runner: TaskRunner, record: StepRecord) -> Resolution:
    """Look into the suspects, and write the hashes of the cleared ones.

    Args:
        context: of the run.
        runner: spreads the search for their paths.
        record: of the guard step; its inputs are the candidates and what is committed.
    """
    safety = context.plan.config.safety
    candidates, committed = record.inputs["candidates"], record.inputs["committed"]
    resolution = Resolution(candidates.counts["suspects"])
    if resolution.suspects > safety.identical_suspects_max:
        resolution.why_held = f"more than {safety.identical_suspects_max:,} objects are suspect"
    elif resolution.suspects:
        _look_into(context, runner, record, _suspects(context, candidates), committed, resolution)
    record.parts.append(write_hashes(context.folder, CLEARED, resolution.cleared))
    return resolution


def _suspects(context: Context, candidates: StepSummary) -> list[_Suspect]:
    found = []
    columns = ["address", "hash", "content", "size", "suspect"]
    for rows in context.folder.read_parts(candidates.parts_below("candidates/part-"), columns):
        for row in rows.filter(pc.not_equal(rows["suspect"], "")).to_pylist():
            content = row["content"] if row["suspect"] == "content" else None
            found.append(_Suspect(row["address"], row["hash"], content, row["size"]))
    return found


def _look_into(
    context: Context,
    runner: TaskRunner,
    record: StepRecord,
    suspects: list[_Suspect],
    committed: StepSummary,
    resolution: Resolution,
) -> None:
    most = context.plan.config.safety.identical_stats_max
    paths, complete = _find_paths(context, runner, record, suspects, committed, most)
    if not complete:
        resolution.why_held = f"more than {most:,} paths have the content of some suspect"
        return
    branches = _branches_of_ranges(context, committed, {range_id for range_id, _, _, _ in paths})
    by_content: dict[int, set[_Question]] = defaultdict(set)
    by_size: dict[int, set[_Question]] = defaultdict(set)
    for range_id, path, content, size in paths:
        questions = {(branch, path) for branch in branches[range_id]}
        by_content[content] |= questions
        by_size[size] |= questions
    asked: set[_Question] = set()
    chosen: list[_Suspect] = []
    wanted = {
        suspect: by_size[suspect.size] if suspect.content is None else by_content[suspect.content]
        for suspect in suspects
    }
    for suspect in sorted(suspects, key=lambda item: (len(wanted[item]), item.address)):
        if len(asked | wanted[suspect]) > most:
            resolution.why_held = f"more than {most:,} questions to lakeFS would be needed"
            continue
        asked |= wanted[suspect]
        chosen.append(suspect)
    served = _ask(context, asked)
    resolution.asked = len(asked)
    resolution.live = [(item.address, *served[item.address]) for item in chosen if item.address in served]
    clear = [item for item in chosen if item.address not in served]
    resolution.cleared = unite([np.array([item.hash for item in clear], np.uint64)])
    resolution.cleared_bytes = sum(item.size for item in clear)


def _find_paths(
    context: Context,
    runner: TaskRunner,
    record: StepRecord,
    suspects: list[_Suspect],
    committed: StepSummary,
    most: int,
) -> tuple[list[tuple[str, str, int, int]], bool]:
    """Range, path, content and size of every head entry that a suspect may be a copy of; False: too many."""
    contents = unite([np.array([item.content for item in suspects if item.content is not None], np.uint64)])
    sizes = unite([np.array([item.size for item in suspects if item.content is None], np.uint64)])
    folder = context.folder
    config = {
        "contents": write_hashes(folder, f"{STEP}/contents.u64", contents).to_json(),
        "sizes": write_hashes(folder, f"{STEP}/sizes.u64", sizes).to_json(),
        "most": most,
    }
    table = folder.read_part(committed.part("committed/ranges-00000.parquet"))
    facts = {range_id: found for range_id, found in facts_of(table) if found.head}
    index = CommittedIndex.load(context.state, context.plan.namespace)
    groups: dict[str, list[str]] = defaultdict(list)
    for range_id in facts:
        groups[index.places[range_id][0]].append(range_id)
    jobs = [
        {
            "part": index.parts[name].to_json(),
            "ranges": ranges,
            "counts": [facts[item].count for item in ranges],
        }
        for name, ranges in sorted(groups.items())
    ]
    hands = cut(jobs, context.hands(runner, len(jobs)))
    tasks = [{"index": number, "jobs": hand} for number, hand in enumerate(hands)]
    results = context.spread(runner, STEP, match_paths, config, tasks, "ranges", len(facts))
    parts = [PartInfo.from_json(result["part"]) for result in results]
    record.parts.extend(parts)
    if sum(part.rows for part in parts) > most or not all(result["complete"] for result in results):
        return [], False
    rows: list[tuple[str, str, int, int]] = []
    for table in folder.read_parts(parts):
        columns = [table[name].to_pylist() for name in ("range_id", "path", "content", "size")]
        rows.extend(zip(*columns, strict=True))
    return rows, True


def match_paths(config: Json, task: Json) -> Json:
    """Find the paths of branch heads that have one of some contents. A partition function.

    Args:
        config: doors, `contents` and `sizes` (files of hashes), `most` (rows after which it gives up),
            `progress`.
        task: `index`, and `jobs`: a part of the committed index with the ranges in it that belong to heads.

    Returns:
        `part` with the rows, and `complete`.
    """
    folder = RunFolder.of_task(config)
    progress = Progress(folder, config["progress"], f"paths-{task['index']:05d}")
    reader, state = open_reader(config["namespace"]), open_reader(config["state_uri"])
    contents = read_hashes(folder, PartInfo.from_json(config["contents"]))
    sizes = read_hashes(folder, PartInfo.from_json(config["sizes"]))
    tables: list[pa.Table] = []
    rows, complete = 0, True
    for job in task["jobs"]:
        counts = dict(zip(job["ranges"], job["counts"], strict=True))
        for range_id in _with_content(state, IndexPart.from_json(job["part"]), counts, contents, sizes):
            key = METADATA + range_id
            found = entries_of(reader.get(key), key, counts[range_id])
            hit = contains(contents, found.contents) | contains(sizes, found.sizes)
            tables.append(found.table(range_id).filter(pa.array(hit)))
            rows += tables[-1].num_rows
            progress.add(1)
            if rows > config["most"]:
                complete = False
                break
    table = pa.concat_tables(tables) if tables else HeadEntries.schema.empty_table()
    part = folder.write_table(STEP, task["index"], table.slice(0, config["most"] + 1), "paths")
    return {"part": part.to_json(), "complete": complete}


def _with_content(
    state: ObjectReader, part: IndexPart, counts: dict[str, int], contents: Hashes, sizes: Hashes
) -> Iterator[str]:
    """The ranges of a part of the index that name some of the contents; all of them when the part is
    damaged."""
    try:
        ranges = read_part(state, part, counts.__contains__)
    except FormatError:
        yield from counts
        return
    for item in ranges:
        same = contains(contents, item.contents).any() or contains(sizes, item.sizes).any()
        if same and item.range_id in counts:
            yield item.range_id


def _branches_of_ranges(context: Context, committed: StepSummary, ranges: set[str]) -> dict[str, list[str]]:
    """The branches whose head has each of some ranges."""
    table = context.folder.read_part(committed.part("committed/branches-00000.parquet"))
    branches: dict[str, list[str]] = defaultdict(list)
    for branch, metarange in zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True):
        if metarange:
            branches[metarange].append(branch)
    found: dict[str, list[str]] = {range_id: [] for range_id in ranges}
    for key, data in context.reader.get_many([METADATA + metarange for metarange in branches]):
        for item in read_metarange(data, key).ranges:
            if item.id in found:
                found[item.id].extend(branches[key.removeprefix(METADATA)])
    return found


def _ask(context: Context, questions: set[_Question]) -> dict[str, _Question]:
    """Ask what branches serve; gives branch and path by address."""
    served: dict[str, _Question] = {}
    with ThreadPoolExecutor(_STAT_THREADS, thread_name_prefix="stat") as pool:
        for question, addresses in pool.map(lambda item: (item, _served(context, item)), sorted(questions)):
            served.update((address, question) for address in addresses)
    return served


def _served(context: Context, question: _Question) -> Iterable[str]:
    branch, path = question
    try:
        stats = context.client.stat(context.plan.repository, branch, path)
    except NotFoundError:
        return ()  # deleted on that branch, or the branch is gone
    return address_readings(stats.address, AddressType.FULL, context.plan.namespace)
