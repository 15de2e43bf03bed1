"""Step approve of a lakeFS collection: a person approves the candidates, if the run must ask (`dredge.approve`).

The request shows the largest folders and branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.approve import records
from dredge.approve.records import Asked
from dredge.approve.step import Approvals, Question, code, first_lines, kinds, plain, word_question
from dredge.errors import DredgeError
from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds
from dredge.gc.index.ranges import Ranges, with_metaranges
from dredge.gc.index.store import addresses_of
from dredge.gc.insight.base_run import Amount, History, read_history
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention import Line, find_lines
from dredge.gc.run import Run
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.lakefs import Commit, Rules
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json
from dredge.runs.report import size_text
from dredge.sets.hashes import Hashes, unite
from dredge.storage import ObjectReader


class ApproveOutput(records.ApproveOutput):
    """The request to a person about a lakeFS collection, and the answer."""

    INPUTS = (*CheckLimitsOutput.INPUTS, CheckLimitsOutput)
    GUARDS, CANDIDATES = CheckLimitsOutput, SubtractOutput
    COMMAND = "dredge gc"


_APPROVALS = Approvals(ApproveOutput)
approve, answer, find_question = _APPROVALS.approve, _APPROVALS.answer, _APPROVALS.find_question


_FOLDER = r"^(?P<folder>.*/)"


def _folders(run: Run, guards: CheckLimitsOutput) -> dict[str, Amount]:
    found: dict[str, Amount] = {}
    for rows in _free_rows(run.folder, guards, "address"):
        folders = pc.struct_field(pc.extract_regex(rows["address"], _FOLDER), "folder")
        table = pa.table({"folder": folders, "size": rows["size"]})
        for group in table.group_by("folder").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
            found.setdefault(group["folder"], Amount()).add(group["size_count"], group["size_sum"])
    return found


def _free_rows(folder: RunFolder, guards: CheckLimitsOutput | None, *columns: str) -> Iterator[pa.Table]:
    """The candidates that are not held, file by file; all candidates without guards."""
    found = folder.read_output(SubtractOutput)
    holds = None if guards is None else Holds.of(folder, guards.hold_files)
    for part in () if found is None else found.candidates:
        rows = folder.read_part(part, [*columns, *HOLD_COLUMNS])
        yield rows if holds is None else rows.filter(holds.codes_of(rows).is_null())


_LARGEST = 10


def make_question(run: Run, report: str) -> Question:
    """Format the request of a run that awaits an answer, with the URI of its report's page, and keep the lease for
    the wait."""
    asked = find_question(run)
    repository = f"lakeFS repository {run.plan.repository}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    guards = run.folder.read_output(CheckLimitsOutput)
    if guards is None:  # the step is being repeated, and will ask again
        return
    yield from first_lines(run, asked, run.plan.repository, guards, report)
    yield from kinds("What would be deleted", guards.would_delete, words=REASONS)
    yield from _largest(_folders(run, guards))
    yield from _by_branch(by_branch(run, guards))
    yield from kinds("Held, not deleted", guards.held, words={})


def _largest(folders: dict[str, Amount]) -> Iterator[str]:
    if folders:
        yield f"\n### Largest of {len(folders):,} folders in the store\n"
        for name in sorted(folders, key=lambda name: (-folders[name].size_bytes, name))[:_LARGEST]:
            yield f"- {code(name)}: {folders[name].objects:,} objects, {size_text(folders[name].size_bytes)}"


def _by_branch(found: ByBranch) -> Iterator[str]:
    yield "\n### By the branch of the last commit with the object\n"
    named = sorted(found.named.items(), key=lambda item: (-item[1].size_bytes, item[0]))
    for names, amount in named[:_LARGEST]:
        whose = ", ".join(code(name) for name in names) or "a deleted branch"
        yield f"- {whose}: {amount.objects:,} objects, {size_text(amount.size_bytes)}"
    if others := len(named[_LARGEST:]):
        yield f"- and {others:,} others"
    if found.unknown.objects:
        unknown = found.unknown
        yield (
            f"- unknown: {unknown.objects:,} objects, {size_text(unknown.size_bytes)}. They are in none of the expired"
            " commits read; lakeFS does not record the branch of objects staged and never committed"
        )
    yield from (f"- not read: {plain(text)}" for text in found.unread)


# Limit of expired commits with their metaranges.
_COMMITS_MAX = 64
# Limit of candidates; their hashes are held in memory.
CANDIDATES_MAX = 2_000_000

GONE = "(a deleted branch)"

# Names of branches with a commit in their line; the last one is "…" for further branches, and () is a deleted branch.
type Branches = tuple[str, ...]


class ByBranch(Struct):
    """Candidates by the branches of the newest expired commit with them."""

    named: dict[Branches, Amount] = field(default_factory=dict)
    unknown: Amount = field(default_factory=Amount)  # candidates in none of the commits read
    unread: list[str] = field(default_factory=list)  # limits and unreadable sources, as sentences


class _Candidates(Struct, frozen=True):
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
        found.unread.append(f"some commits or ranges could not be read ({error})")
    for number, names in enumerate(branches):
        _count(found.named.setdefault(names, Amount()), candidates, candidates.owners == number)
    _count(found.unknown, candidates, candidates.owners < 0)
    found.named = {names: amount for names, amount in found.named.items() if amount.objects}
    return found


class Owned(Struct, frozen=True):
    """Candidates by the branch of the newest expired commit with them; also held candidates."""

    hashes: dict[str, Hashes]  # sorted, by branch; deleted branches share a name
    unread: list[str]  # limits and unreadable sources, as sentences


def owned_by_branch(run: Run) -> Owned:
    """Find the candidates of any run, also a finished one, by branch. Raises DredgeError: an unreadable source."""
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
    hashes, sizes, count = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], 0
    for free in _free_rows(run.folder, guards):
        if count >= CANDIDATES_MAX:
            found.unread.append(f"candidates beyond the first {count:,}")
            break
        hashes.append(free["hash"].to_numpy())
        sizes.append(free["size"].to_numpy())
        count += free.num_rows
    all_hashes, all_sizes = np.concatenate(hashes), np.concatenate(sizes)
    order = np.argsort(all_hashes, kind="stable")
    return _Candidates(all_hashes[order], all_sizes[order], np.full(len(order), -1, np.int32))


def _look_up(run: Run, candidates: _Candidates, found: ByBranch) -> list[Branches]:
    """Assign each candidate to the newest expired commit with it; returns the branches of the commits by number."""
    committed = run.folder.read_output(ListCommittedOutput)
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
        for range_id in _names_of(run.reader, history, commit, found):
            if range_id in active or range_id in owners:
                continue
            if len(ranges) >= most:
                found.unread.append(f"ranges of expired commits beyond the first {most:,}")
                return ranges, owners
            owners[range_id], ranges[range_id] = number, history.metaranges.ranges[range_id]
    return ranges, owners


def _names_of(reader: ObjectReader, history: History, commit: Commit, found: ByBranch) -> Iterator[str]:
    if not commit.metarange_id:
        return
    try:
        known = with_metaranges(reader, history.metaranges, [commit.metarange_id])
    except DredgeError as error:
        found.unread.append(f"commit {commit.id[:12]} could not be read ({error})")
        return
    yield from known.select([commit.metarange_id])


def _branches_of(line: Line | None) -> Branches:
    if line is None:
        return ()
    more = ("…",) if line.num_branches > len(line.branches) else ()
    return (*sorted(line.branches), *more)
