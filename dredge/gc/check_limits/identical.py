"""Identical content uploaded again: live on its branch, and missing in every answer about uncommitted objects.

lakeFS compares a staged entry with the committed one by size, checksum, metadata and content type. An equal entry is no
change: prepare_uncommitted omits it; yet the branch reads the new address until it is committed or reset. Such an
object differs from garbage in a single point: the head of its branch has an entry of its size, at its path.

    held for its size → entries of that size in branch heads → each branch with such a path is asked for its entry
        served → it stays · every path asked and not served → cleared · otherwise → it stays

A differing checksum is no proof: checksums can be claimed, copies keep them, and those of an encrypted store are not
hashes of the content. A staged entry is hidden only while the head of its branch has an equal entry, and it was hidden
when staging was read, so the heads of that time count.

Source: pkg/catalog/entry.go, pkg/graveler/uncommitted_diff_iterator.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dredge.gc.check_limits.asker import Answers, Asker, choose
from dredge.gc.check_limits.holds import (
    HOLD_COLUMNS,
    NO_ANSWER,
    NO_PATH,
    TOO_MANY,
    CheckLimitsOutput,
    Verdicts,
    held_for_size,
)
from dredge.gc.check_limits.places import Numbers, Places, find_heads, find_places, heads_of_the_mark, weigh
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs.run import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite
from dredge.sets.live import in_any


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof about candidates held for their size; `objects` is their number."""

    objects: int
    verdicts: Verdicts = field(default_factory=lambda: Verdicts.make(NONE, {}, NONE))
    answers: Answers = field(default_factory=Answers)


def prove(run: Run, runner: TaskRunner, record: StepRecord) -> Proof:
    """Ask branches about the candidates held for their size."""
    wanted = _SameSize.read(run, record.input(SubtractOutput).with_holds)
    if not wanted.objects or not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects)
    return _ask(run, runner, record, wanted)


def ask_about(
    run: Run, runner: TaskRunner, record: StepRecord, hashes: Hashes, sizes: Hashes, where: str
) -> Proof:
    """Ask branches about other objects of the mark than candidates of this run, given by hash and size. Sizes without
    an entry in a branch head are not asked about and hold no object."""
    if record.input(MarkUncommittedOutput).exact:
        return Proof(0)  # all staging records were read: no staged entry is hidden
    (of_a_head,) = in_any(record.input(ListCommittedOutput).sizes, [sizes])
    distinct, counts = np.unique(sizes[of_a_head], return_counts=True)
    wanted = _SameSize(unite([hashes[of_a_head]]), distinct, counts)
    if not wanted.objects:
        return Proof(0)
    if not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects, Verdicts.make(distinct, {TOO_MANY: distinct}, NONE))
    return _ask(run, runner, record, wanted, where)


@dataclass(frozen=True, slots=True)
class _SameSize:
    """Candidates held for their size: sorted hashes, sorted distinct sizes, and the number of each size."""

    hashes: Hashes
    sizes: Hashes
    counts: Numbers

    @property
    def objects(self) -> int:
        return int(self.counts.sum())

    @classmethod
    def read(cls, run: Run, parts: Sequence[PartInfo]) -> _SameSize:
        hashes: list[Hashes] = []
        sizes: list[Hashes] = []
        for rows in run.folder.read_parts(parts, HOLD_COLUMNS):
            found = held_for_size(rows)
            hashes.append(found["hash"].to_numpy())
            sizes.append(found["size"].to_numpy().astype(np.uint64))
        distinct, counts = np.unique(np.concatenate([NONE, *sizes]), return_counts=True)
        return cls(unite(hashes), distinct, counts)


def _ask(
    run: Run, runner: TaskRunner, record: StepRecord, wanted: _SameSize, where: str = CheckLimitsOutput.STEP
) -> Proof:
    plan, safety = run.plan, run.plan.config.safety
    places = find_places(run, runner, record, wanted.sizes, where)
    heads = find_heads(run, heads_of_the_mark(run, record.input(ListCommittedOutput)), places)
    no_path = _sizes_without_path(places)
    weights = weigh(wanted.sizes, places, heads)
    askable = ~contains(unite([no_path, places.skipped]), wanted.sizes)
    # Sizes with the fewest paths first: this clears the most candidates.
    order = np.flatnonzero(askable)
    order = order[np.argsort(weights[order], kind="stable")]
    order = order[np.cumsum(wanted.counts[order]) <= safety.identical_suspects_max]
    chosen, questions = choose(places, heads, wanted.sizes[order], safety.identical_requests_max)
    asker = Asker(
        run.client,
        plan.repository,
        plan.namespace,
        places.paths,
        wanted.hashes,
        safety.identical_requests_max,
    )
    answers = asker.ask(questions)
    verdicts = _verdicts(wanted, unite([chosen]), no_path, places, answers)
    return Proof(wanted.objects, verdicts, answers)


def _verdicts(
    wanted: _SameSize, chosen: Hashes, no_path: Hashes, places: Places, answers: Answers
) -> Verdicts:
    held = {TOO_MANY: wanted.sizes[~contains(chosen, wanted.sizes)], NO_PATH: no_path}
    for code in (TOO_MANY, NO_ANSWER):
        rows = [row for row, found in answers.unanswered.items() if found == code]
        held[code] = unite([held.get(code, NONE), places.sizes[np.array(rows, np.int64)]])
    return Verdicts.make(wanted.sizes, held, answers.served)


def _sizes_without_path(places: Places) -> Hashes:
    """Sizes of entries with a path in another encoding than UTF-8: the API cannot ask for it."""
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
