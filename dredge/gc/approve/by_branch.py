"""The candidates by branch: the branches of the newest expired commit with each candidate, for the person deciding.

    expired commits, newest first → their ranges, each with its first commit → hashes from the index
        → each candidate is counted for the branches of that commit

The numbers of commits, ranges and candidates are limited; the rest is counted and reported. lakeFS does not record the
branch of objects staged and never committed, so it stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dredge.errors import DredgeError
from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds
from dredge.gc.index.ranges import Ranges
from dredge.gc.insight.addresses import Amount, addresses_of, with_metaranges
from dredge.gc.insight.base_run import History, read_history
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention.active import Line, find_lines
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs import Commit, Rules
from dredge.runs.payload import from_json
from dredge.sets.hashes import Hashes, unite

# Limit of expired commits with their metaranges.
_COMMITS_MAX = 64
# Limit of candidates; their hashes are held in memory.
CANDIDATES_MAX = 2_000_000

GONE = "(a deleted branch)"

# Names of branches with a commit in their line; the last one is "…" for further branches, and () is a deleted branch.
type Branches = tuple[str, ...]


@dataclass(slots=True)
class ByBranch:
    """Candidates by the branches of the newest expired commit with them.

    Attributes:
        unknown: candidates in none of the commits read.
        unread: limits and unreadable sources, as sentences.
    """

    named: dict[Branches, Amount] = field(default_factory=dict)
    unknown: Amount = field(default_factory=Amount)
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Sorted hashes, sizes, and the number of the newest commit with each; -1 for none."""

    hashes: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int32]

    def note(self, hashes: npt.NDArray[np.uint64], owner: int) -> None:
        """Assign candidates to a commit, unless a newer commit has them: numbers begin with the newest."""
        places = np.minimum(np.searchsorted(self.hashes, hashes), max(len(self.hashes) - 1, 0))
        found = places[self.hashes[places] == hashes] if len(self.hashes) else places[:0]
        before = self.owners[found]
        self.owners[found] = np.where(before < 0, owner, np.minimum(before, owner))


def by_branch(run: Run, guards: CheckLimitsOutput) -> ByBranch:
    """Count the candidates of a run by branch. Unreadable sources are noted, never raised."""
    found = ByBranch()
    candidates = _candidates(run, guards, found)
    branches: list[Branches] = []
    try:
        branches = _look_up(run, candidates, found)
    except DredgeError as error:
        found.unread.append(f"commits and ranges could not all be read ({error})")
    for number, names in enumerate(branches):
        _count(found.named.setdefault(names, Amount()), candidates, candidates.owners == number)
    _count(found.unknown, candidates, candidates.owners < 0)
    found.named = {names: amount for names, amount in found.named.items() if amount.objects}
    return found


@dataclass(frozen=True, slots=True)
class Owned:
    """Candidates by the branch of the newest expired commit with them; also held candidates.

    Attributes:
        hashes: sorted, by branch; deleted branches share a name.
        unread: limits and unreadable sources, as sentences.
    """

    hashes: dict[str, Hashes]
    unread: list[str]


def owned_by_branch(run: Run) -> Owned:
    """The candidates of a run by branch, for a filter by branch.

    Args:
        run: any run, also a finished one.

    Raises:
        DredgeError: an unreadable source.
    """
    found = ByBranch()
    candidates = _candidates(run, None, found)
    pieces: dict[str, list[Hashes]] = {}
    for number, names in enumerate(_look_up(run, candidates, found)):
        hashes = candidates.hashes[candidates.owners == number]
        for name in (names or (GONE,)) if len(hashes) else ():
            pieces.setdefault(name, []).append(hashes)
    return Owned({name: unite(hashes) for name, hashes in sorted(pieces.items())}, found.unread)


def _count(amount: Amount, candidates: _Candidates, mask: npt.NDArray[np.bool_]) -> None:
    amount.add(int(mask.sum()), int(candidates.sizes[mask].sum()))


def _candidates(run: Run, guards: CheckLimitsOutput | None, found: ByBranch) -> _Candidates:
    summary = run.folder.read_summary(SubtractOutput.STEP)
    holds = None if guards is None else Holds.of(run.folder, guards.hold_files)
    hashes, sizes, count = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], 0
    for part in SubtractOutput.of(summary).candidates if summary is not None else ():
        if count >= CANDIDATES_MAX:
            found.unread.append(f"candidates beyond the first {count:,}")
            break
        columns = list(dict.fromkeys(["hash", "size", *HOLD_COLUMNS]))
        rows = run.folder.read_part(part, columns)
        free = rows if holds is None else rows.filter(holds.codes_of(rows).is_null())
        hashes.append(free["hash"].to_numpy())
        sizes.append(free["size"].to_numpy())
        count += free.num_rows
    all_hashes, all_sizes = np.concatenate(hashes), np.concatenate(sizes)
    order = np.argsort(all_hashes, kind="stable")
    return _Candidates(all_hashes[order], all_sizes[order], np.full(len(order), -1, np.int32))


def _look_up(run: Run, candidates: _Candidates, found: ByBranch) -> list[Branches]:
    """Assign each candidate to the newest expired commit with it; returns the branches of the commits by number."""
    summary = run.folder.read_summary(ListCommittedOutput.STEP)
    committed = None if summary is None else ListCommittedOutput.of(summary)
    if committed is None or committed.rules is None:
        return []  # without rules no commit expires
    history = read_history(run.folder, committed)
    rules = from_json(Rules, committed.rules)
    lines = find_lines(history.graph, history.branches, rules, run.plan.created_at)
    expired = [commit for item, commit in history.graph.items() if item not in history.active]
    expired.sort(key=lambda commit: commit.created_at, reverse=True)
    if len(expired) > _COMMITS_MAX:
        found.unread.append(f"{len(expired) - _COMMITS_MAX:,} older expired commits")
    looked_at = expired[:_COMMITS_MAX]
    ranges, owners = _ranges_of(run, history, looked_at, found)
    for item in addresses_of(run.reader, run.state, run.plan.namespace, ranges):
        candidates.note(item.addresses, owners[item.range_id])
    return [_branches_of(lines.get(commit.id)) for commit in looked_at]


def _ranges_of(
    run: Run, history: History, commits: Sequence[Commit], found: ByBranch
) -> tuple[Ranges, dict[str, int]]:
    active = set(history.ranges_table["range_id"].to_pylist())
    most = run.plan.config.tuning.explain_ranges_max
    ranges: Ranges = {}
    owners: dict[str, int] = {}
    for number, commit in enumerate(commits):
        for range_id in _names_of(run, history, commit, found):
            if range_id in active or range_id in owners:
                continue
            if len(ranges) >= most:
                found.unread.append(f"ranges of expired commits beyond the first {most:,}")
                return ranges, owners
            owners[range_id], ranges[range_id] = number, history.metaranges.ranges[range_id]
    return ranges, owners


def _names_of(run: Run, history: History, commit: Commit, found: ByBranch) -> Iterator[str]:
    if not commit.metarange_id:
        return
    try:
        known = with_metaranges(run.reader, history.metaranges, [commit.metarange_id])
    except DredgeError as error:
        found.unread.append(f"commit {commit.id[:12]} could not be read ({error})")
        return
    yield from known.select([commit.metarange_id])


def _branches_of(line: Line | None) -> Branches:
    if line is None:
        return ()
    more = ("…",) if line.num_branches > len(line.branches) else ()
    return (*sorted(line.branches), *more)
