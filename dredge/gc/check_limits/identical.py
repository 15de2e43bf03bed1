"""Identical content uploaded again: live on its branch, and in no answer about uncommitted objects.

lakeFS compares a staged entry with the committed one by size, checksum, metadata and content type. When they are
equal it does not count as a change, so prepare_uncommitted leaves it out; yet the branch reads the new address
until it is committed or reset. Such an object looks like garbage in every respect but one: the head of its
branch has an entry of its size, at the very path under which the branch reads it.

    suspects → entries of their size in branch heads → ask each branch that has such a path what it serves
        served → it stays · every path asked and not served → cleared · anything else → held

Only proof clears: a checksum that differs proves nothing, because checksums can be claimed, are kept by copies,
and those of an encrypted store say nothing of the content. Whatever is not cleared is not deleted.

A staged entry is hidden only while the head of its branch has the equal one, and it was hidden when staging was
read. So the heads of that time count, together with those that were found later.

Source: pkg/catalog/entry.go, pkg/graveler/uncommitted_diff_iterator.go
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.check_limits.places import STEP, Numbers, Places, find_places
from dredge.gc.check_limits.questions import Answers, Asker, BranchQuestions, plan_questions
from dredge.gc.check_limits.verdicts import Verdicts
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.gc.sets.files import write_hashes
from dredge.gc.sets.hashes import NONE, Hashes, contains, unite
from dredge.gc.subtract import reasons
from dredge.gc.subtract.classify import SIZE
from dredge.graveler.committed.metaranges import read_metarange
from dredge.runs.perform import StepRecord
from dredge.runs.summary import PartInfo, StepSummary
from dredge.runs.tasks import Json, TaskRunner

CLEARED = f"{STEP}/cleared.u64"
_COLUMNS = ["address", "hash", "size", "reason", "suspect"]
_HASH_LENGTH = 64


@dataclass(slots=True)
class Held:
    """Candidates that stay for one reason.

    Attributes:
        objects: how many.
        size_bytes: their length together.
        examples: a few of them.
    """

    objects: int = 0
    size_bytes: int = 0
    examples: list[Json] = field(default_factory=list)


@dataclass(slots=True)
class Resolution:
    """What became of the suspects.

    Attributes:
        suspects: candidates as long as some entry of a branch head.
        held: candidates that stay, by code.
        held_reasons: objects and bytes that stay, by the reason why they would be garbage.
        cleared: hashes of suspects that no branch serves.
        cleared_bytes: their length together.
        examples: a few of the cleared ones, by the reason why they are garbage.
        answers: of the branches.
    """

    suspects: int
    held: dict[str, Held] = field(default_factory=lambda: defaultdict(Held))
    held_reasons: dict[str, Held] = field(default_factory=lambda: defaultdict(Held))
    cleared: Hashes = field(default_factory=lambda: NONE)
    cleared_bytes: int = 0
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    answers: Answers = field(default_factory=lambda: Answers(NONE))

    @property
    def undecided(self) -> int:
        """Suspects that reading the key-value store would settle."""
        return sum(self.held[code].objects for code in reasons.HELD_BY_SIZE if code in self.held)

    @property
    def live(self) -> int:
        """Suspects that a branch serves."""
        return self.held[reasons.SERVED].objects if reasons.SERVED in self.held else 0

    def to_json(self) -> list[Json]:
        """What is held, by code: `code`, `why`, `objects`, `bytes`, `examples`."""
        return [
            {
                "code": code,
                "why": reasons.KEPT_CODES[code],
                "objects": found.objects,
                "bytes": found.size_bytes,
                "examples": found.examples,
            }
            for code, found in sorted(self.held.items())
        ]


def resolve(run: Run, runner: TaskRunner, record: StepRecord) -> Resolution:
    """Look into the suspects, and write the hashes of the cleared ones.

    Args:
        run: of the run.
        runner: spreads the search for their paths.
        record: of the guard step; its inputs are the candidates and what is committed.
    """
    candidates, committed = record.inputs["subtract"], record.inputs["list_committed"]
    resolution = Resolution(candidates.counts["suspects"])
    parts = _parts_with_suspects(candidates)
    verdicts = Verdicts.of(NONE, {}, NONE)
    if resolution.suspects and run.plan.config.safety.identical_suspects_max:
        suspects = _Suspects.read(run, parts)
        verdicts = _look_into(run, runner, record, suspects, committed, resolution)
    cleared = [_tell(run, part, verdicts, resolution) for part in parts]
    resolution.cleared = unite(cleared)
    record.parts.append(write_hashes(run.folder, CLEARED, resolution.cleared))
    record.parts.extend(verdicts.write(run.folder, STEP))
    return resolution


def verdict_parts(guard: StepSummary) -> list[PartInfo]:
    """The files of the verdicts that the guard step wrote."""
    return [guard.part(f"{STEP}/sizes-00000.parquet"), guard.part(f"{STEP}/served.u64")]


def _parts_with_suspects(candidates: StepSummary) -> list[PartInfo]:
    """Parts of which not every row may go; their hashes file has fewer rows."""
    plain = {part.name: part.rows for part in candidates.parts_below("subtract/hashes-")}
    found = []
    for part in candidates.parts_below("subtract/part-"):
        stem = part.name.removeprefix("subtract/part-").removesuffix(".parquet")
        if plain[f"subtract/hashes-{stem}.u64"] != part.rows:
            found.append(part)
    return found


@dataclass(frozen=True, slots=True)
class _Suspects:
    """Candidates that are as long as some entry of a branch head.

    Attributes:
        hashes: of their addresses, sorted and distinct.
        sizes: sorted and distinct.
        counts: candidates of each size.
    """

    hashes: Hashes
    sizes: Hashes
    counts: Numbers

    @classmethod
    def read(cls, run: Run, parts: list[PartInfo]) -> _Suspects:
        hashes: list[Hashes] = []
        sizes: list[Hashes] = []
        for rows in run.folder.read_parts(parts, ["hash", "size", "suspect"]):
            found = rows.filter(pc.equal(rows["suspect"], SIZE))
            hashes.append(found["hash"].to_numpy())
            sizes.append(found["size"].to_numpy().astype(np.uint64))
        distinct, counts = np.unique(np.concatenate([NONE, *sizes]), return_counts=True)
        return cls(unite(hashes), distinct, counts)


def _look_into(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    suspects: _Suspects,
    committed: StepSummary,
    resolution: Resolution,
) -> Verdicts:
    plan, safety = run.plan, run.plan.config.safety
    places = find_places(run, runner, record, committed, suspects.sizes)
    heads = _heads(run, committed, places)
    no_path = _sizes_without_path(places)
    weights = _weights(suspects.sizes, places, heads)
    askable = ~contains(unite([no_path, places.skipped]), suspects.sizes)
    # Those that fewest paths could serve first, so that as many as possible are cleared.
    order = np.flatnonzero(askable)
    order = order[np.argsort(weights[order], kind="stable")]
    order = order[np.cumsum(suspects.counts[order]) <= safety.identical_suspects_max]
    chosen, wanted = _choose(places, heads, suspects.sizes[order], safety.identical_requests_max)
    asker = Asker(
        run.client,
        plan.repository,
        plan.namespace,
        places.paths,
        suspects.hashes,
        safety.identical_requests_max,
    )
    answers = resolution.answers = asker.ask(wanted)
    codes = {
        reasons.TOO_MANY: suspects.sizes[~contains(unite([chosen]), suspects.sizes)],
        reasons.NO_PATH: no_path,
    }
    for code in (reasons.TOO_MANY, reasons.NO_ANSWER):
        rows = [row for row, found in answers.unanswered.items() if found == code]
        codes[code] = unite([codes.get(code, NONE), places.sizes[np.array(rows, np.int64)]])
    return Verdicts.of(suspects.sizes, codes, answers.served)


@dataclass(frozen=True, slots=True)
class _Head:
    """What some branches have in common.

    Attributes:
        branches: names.
        ranges: those with wanted entries, in key order, and how many entries come before each.
    """

    branches: list[str]
    ranges: list[tuple[str, int]]

    def rows(self, places: Places, wanted: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """The wanted places, and their positions in the head."""
        rows, ranks = [], []
        for range_id, before in self.ranges:
            span = places.ranges[range_id]
            found = span.start + np.flatnonzero(wanted[span.start : span.stop])
            rows.append(found)
            ranks.append(places.ranks[found] + before)
        nothing = np.empty(0, np.int64)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *ranks])


def _heads(run: Run, committed: StepSummary, places: Places) -> list[_Head]:
    """Every head that a branch had when staging was read or later, and the branches that had it."""
    table = run.folder.read_part(ListCommittedOutput.of(committed).branches)
    branches: dict[str, list[str]] = defaultdict(list)
    for branch, metarange in zip(table["branch"].to_pylist(), table["metarange_id"].to_pylist(), strict=True):
        if metarange and branch not in branches[metarange]:
            branches[metarange].append(branch)
    heads = []
    for key, data in run.reader.get_many([METADATA + metarange for metarange in sorted(branches)]):
        ranges, before = [], 0
        for item in read_metarange(data, key).ranges:
            if item.id in places.ranges:
                ranges.append((item.id, before))
            before += item.count
        if ranges:
            heads.append(_Head(branches[key.removeprefix(METADATA)], ranges))
    return heads


def _sizes_without_path(places: Places) -> Hashes:
    """Sizes of entries whose path is not UTF-8: the API has no way to name it."""
    try:
        places.paths.cast(pa.large_string())
    except pa.ArrowInvalid:
        bad = [not _is_text(path) for path in places.paths.to_pylist()]
        return unite([places.sizes[np.array(bad)]])
    return NONE


def _is_text(path: bytes) -> bool:
    try:
        return bool(path.decode())
    except UnicodeDecodeError:
        return False


def _weights(sizes: Hashes, places: Places, heads: list[_Head]) -> Numbers:
    """How many paths of branches could serve an object of each size."""
    branches: dict[str, int] = defaultdict(int)
    for head in heads:
        for range_id, _ in head.ranges:
            branches[range_id] += len(head.branches)
    weights = np.zeros(len(sizes), np.int64)
    for range_id, span in places.ranges.items():
        found = np.searchsorted(sizes, places.sizes[span.start : span.stop])
        np.add.at(weights, found, branches[range_id])
    return weights


def _choose(
    places: Places, heads: list[_Head], order: Hashes, cost_max: int
) -> tuple[Hashes, list[BranchQuestions]]:
    """Choose as many sizes as may be asked about, from the first on, and plan the questions."""
    turn = np.full(len(places.sizes), len(order), np.int64)
    if len(order) and len(places.sizes):
        by_size = np.argsort(order)
        at = np.minimum(np.searchsorted(order[by_size], places.sizes), len(order) - 1)
        same = order[by_size][at] == places.sizes
        turn[same] = by_size[at[same]]
    low, plan = 0, list[BranchQuestions]()
    high = len(order)
    while low < high:
        # All of them first: as a rule they can all be asked.
        middle = high if high == len(order) else (low + high + 1) // 2
        found = _plan(places, heads, turn < middle, cost_max)
        if found is None:
            high = middle - 1
        else:
            low, plan = middle, found
    return order[:low], plan


def _plan(
    places: Places, heads: list[_Head], wanted: npt.NDArray[np.bool_], cost_max: int
) -> list[BranchQuestions] | None:
    """Questions about all wanted places to all branches; None when they cost too much."""
    left, found = cost_max, []
    for head in heads:
        rows, ranks = head.rows(places, wanted)
        questions = plan_questions(ranks, left // len(head.branches))
        if questions is None:
            return None
        left -= sum(question.cost for question in questions) * len(head.branches)
        if questions:
            found.append(BranchQuestions(head.branches, rows, ranks, questions))
    return found


def _tell(run: Run, part: PartInfo, verdicts: Verdicts, resolution: Resolution) -> Hashes:
    """Count what is held of a part, with examples; gives the hashes of suspects that are cleared."""
    rows = run.folder.read_part(part, _COLUMNS)
    rows = rows.filter(pc.not_equal(rows["suspect"], ""))
    codes = verdicts.codes_of(rows)
    sizes = rows["size"].to_numpy()
    why = np.array(rows["reason"].to_pylist(), object)
    for code in np.unique(codes).tolist():
        of_code = codes == code
        if not code:
            resolution.cleared_bytes += int(sizes[of_code].sum())
            for reason in np.unique(why[of_code].astype(str)).tolist():
                _add_examples(resolution.examples[reason], rows, of_code & (why == reason))
            continue
        held = resolution.held[code]
        held.objects += int(of_code.sum())
        held.size_bytes += int(sizes[of_code].sum())
        for row in _first(of_code, reasons.EXAMPLES - len(held.examples)):
            held.examples.append(_example(rows["address"][row].as_py(), int(sizes[row]), resolution.answers))
    for reason in np.unique(why.astype(str)).tolist():
        stays = (why == reason) & (codes != "")
        resolution.held_reasons[reason].objects += int(stays.sum())
        resolution.held_reasons[reason].size_bytes += int(sizes[stays].sum())
    found: Hashes = rows["hash"].to_numpy()[codes == ""]
    return found


def _add_examples(examples: list[str], rows: pa.Table, which: npt.NDArray[np.bool_]) -> None:
    for row in _first(which, reasons.EXAMPLES - len(examples)):
        examples.append(rows["address"][row].as_py())


def _first(which: npt.NDArray[np.bool_], count: int) -> Iterator[int]:
    yield from np.flatnonzero(which)[: max(0, count)].tolist()


def _example(address: str, size: int, answers: Answers) -> Json:
    found = {"address": address, "size": size}
    if address in answers.shown:
        branch, path = answers.shown[address]
        return {**found, "branch": branch, "path": path}
    return found
