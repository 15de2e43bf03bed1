"""Identical content uploaded again: live on its branch, and in no answer about uncommitted objects.

lakeFS compares a staged entry with the committed one by size, checksum, metadata and content type. When they are
equal it does not count as a change, so prepare_uncommitted leaves it out; yet the branch reads the new address
until it is committed or reset. Such an object looks like garbage in every respect but one: the head of its
branch has an entry of its size, at the very path under which the branch reads it.

    held for its size → entries of that size in branch heads → ask each branch that has such a path what it serves
        served → it stays · every path asked and not served → cleared · anything else → it stays

Only proof clears: a checksum that differs proves nothing, because checksums can be claimed, are kept by copies,
and those of an encrypted store say nothing of the content. Whatever is not cleared is not deleted.

A staged entry is hidden only while the head of its branch has the equal one, and it was hidden when staging was
read. So the heads of that time count.

Source: pkg/catalog/entry.go, pkg/graveler/uncommitted_diff_iterator.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dredge.gc.check_limits import codes
from dredge.gc.check_limits.asker import Answers, Asker
from dredge.gc.check_limits.heads import find_heads, heads_of_the_mark, weigh
from dredge.gc.check_limits.holds import COLUMNS, held_for_size
from dredge.gc.check_limits.output import CheckLimitsOutput
from dredge.gc.check_limits.places import Numbers, Places, find_places
from dredge.gc.check_limits.questions import choose
from dredge.gc.check_limits.verdicts import Verdicts
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.mark_uncommitted import MarkUncommittedOutput
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.runs.steps import StepRecord
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import TaskRunner
from dredge.sets.hashes import NONE, Hashes, contains, unite
from dredge.sets.live import in_any


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proved about the candidates that are held for their size.

    Attributes:
        objects: how many there are.
        verdicts: what may become of them.
        answers: of the branches.
    """

    objects: int
    verdicts: Verdicts = field(default_factory=lambda: Verdicts.make(NONE, {}, NONE))
    answers: Answers = field(default_factory=Answers)


def prove(run: Run, runner: TaskRunner, record: StepRecord) -> Proof:
    """Ask branches about the candidates that are held for their size.

    Args:
        run: this run.
        runner: spreads the search for their paths.
        record: of the step; its inputs are the candidates and what is committed.
    """
    wanted = _SameSize.read(run, record.input(SubtractOutput).with_holds)
    if not wanted.objects or not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects)
    return _ask(run, runner, record, wanted)


def ask_about(
    run: Run, runner: TaskRunner, record: StepRecord, hashes: Hashes, sizes: Hashes, where: str
) -> Proof:
    """Ask branches about objects that are no candidates of this run, as about candidates.

    Args:
        run: this run.
        runner: spreads the search for their paths.
        record: of the step; its inputs are the mark.
        hashes: of the addresses.
        sizes: of the objects, in the same order.
        where: folder of the files, relative to the run folder.

    Returns:
        The proof; of sizes that no entry of a branch head has, nothing is asked and nothing holds them.
    """
    if record.input(MarkUncommittedOutput).exact:
        return Proof(0)  # all staging records were read: no staged entry can be hidden
    (of_a_head,) = in_any(record.input(ListCommittedOutput).sizes, [sizes])
    distinct, counts = np.unique(sizes[of_a_head], return_counts=True)
    wanted = _SameSize(unite([hashes[of_a_head]]), distinct, counts)
    if not wanted.objects:
        return Proof(0)
    if not run.plan.config.safety.identical_suspects_max:
        return Proof(wanted.objects, Verdicts.make(distinct, {codes.TOO_MANY: distinct}, NONE))
    return _ask(run, runner, record, wanted, where)


@dataclass(frozen=True, slots=True)
class _SameSize:
    """Candidates that are held for their size.

    Attributes:
        hashes: of their addresses, sorted and distinct.
        sizes: sorted and distinct.
        counts: candidates of each size.
    """

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
        for rows in run.folder.read_parts(parts, COLUMNS):
            found = held_for_size(rows)
            hashes.append(found["hash"].to_numpy())
            sizes.append(found["size"].to_numpy().astype(np.uint64))
        distinct, counts = np.unique(np.concatenate([NONE, *sizes]), return_counts=True)
        return cls(unite(hashes), distinct, counts)


def _ask(
    run: Run,
    runner: TaskRunner,
    record: StepRecord,
    wanted: _SameSize,
    where: str = CheckLimitsOutput.STEP,
) -> Proof:
    plan, safety = run.plan, run.plan.config.safety
    places = find_places(run, runner, record, wanted.sizes, where)
    heads = find_heads(run, heads_of_the_mark(run, record.input(ListCommittedOutput)), places)
    no_path = _sizes_without_path(places)
    weights = weigh(wanted.sizes, places, heads)
    askable = ~contains(unite([no_path, places.skipped]), wanted.sizes)
    # Those that fewest paths could serve first, so that as many as possible are cleared.
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
    held = {codes.TOO_MANY: wanted.sizes[~contains(chosen, wanted.sizes)], codes.NO_PATH: no_path}
    for code in (codes.TOO_MANY, codes.NO_ANSWER):
        rows = [row for row, found in answers.unanswered.items() if found == code]
        held[code] = unite([held.get(code, NONE), places.sizes[np.array(rows, np.int64)]])
    return Verdicts.make(wanted.sizes, held, answers.served)


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
