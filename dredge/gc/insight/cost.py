"""Storage cost of a repository's objects, from one clean run: the counts, the prices and the text.

    commits → owners of ranges → labels of addresses → listed objects, each counted once in every table

Objects are never held as rows, only as hashes of one shard at a time. The figures are as old as the run.

Owners: commit → metarange → range. For several commits, kinds are united, and owners become an interval from the least
to the greatest. An interval of one is a single owner.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from dredge.errors import ConfigError
from dredge.gc.bulk_delete import BulkDeleteOutput
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.index.ranges import PATHS, read_facts
from dredge.gc.index.store import addresses_of
from dredge.gc.insight.base_run import Amount, BaseRun, History, listed_shards
from dredge.gc.retention import Line, find_lines
from dredge.runs import ledger
from dredge.runs.payload import to_json
from dredge.runs.report import size_text
from dredge.sets.hashes import read_hashes
from dredge.sets.labels import LabelledSets, Labels

# Bits for the references to an object: a branch head, staging, an active commit behind a head, a commit without a ref,
# a commit of a tag, a commit or path of a policy, another repository. Tag and policy are set only for commits expired
# under the rules.
HEAD, STAGED, OLD, DANGLING, TAGS, POLICY, REFERRED = (1 << bit for bit in range(7))

HEADS, STAGING, HISTORY, NO_REF = "heads", "staged", "history", "no_ref"
TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY = "tags", "policy", "tags_and_policy"
REFERRING = "referring"
GARBAGE, HELD, YOUNG, DELETED = "garbage", "held", "young", "deleted"

# Every kind, with its text. The first eight are live.
KINDS = {
    HEADS: "in the head of a branch",
    STAGING: "staged on a branch, in no head",
    HISTORY: "only in older commits kept by the rules",
    NO_REF: "only in commits without a branch or tag, kept by the rules",
    TAGS_ONLY: "only because a tag names its commit",
    POLICY_ONLY: "only because of the retention policy",
    TAGS_AND_POLICY: "only because of a tag and of the retention policy",
    REFERRING: "only because another repository uses it",
    GARBAGE: "garbage: the next deleting run may delete it",
    HELD: "garbage, but held",
    DELETED: "garbage deleted by this run",
    YOUNG: "too young to be judged",
}
LIVE = (HEADS, STAGING, HISTORY, NO_REF, TAGS_ONLY, POLICY_ONLY, TAGS_AND_POLICY, REFERRING)


def kind_of(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The index in `LIVE` of the kind of each object, by its bits; -1 for none."""
    return np.select(
        [
            bits & HEAD > 0,
            bits & STAGED > 0,
            bits & OLD > 0,
            bits & DANGLING > 0,
            bits & (TAGS | POLICY) == TAGS,
            bits & (TAGS | POLICY) == POLICY,
            bits & (TAGS | POLICY) > 0,
            bits & REFERRED > 0,
        ],
        list(range(len(LIVE))),
        -1,
    )


# Least owner of a range without an owner; its greatest is -1.
NOBODY = np.iinfo(np.int32).max

# Rows of least and greatest owner.
type Spans = npt.NDArray[np.int32]


class Owners(Struct, frozen=True):
    """The owners of ranges."""

    kinds: npt.NDArray[np.uint8]
    branches: Spans  # interval of branch indices; a single one only for ranges of one branch alone
    commits: Spans  # interval of indices into `dates`
    branch_names: list[str]
    dates: list[datetime | None]  # of the active commits, oldest first; None for an unknown date


def owners_of(base: BaseRun, history: History) -> Owners:
    """Find the owners of the ranges of a run, in the order of `history.metaranges.ranges`."""
    now = base.plan.created_at
    lines = find_lines(history.graph, history.branches, base.rules, now)
    bits = _bits(base, history, lines)
    names = sorted(branch.id for branch in history.branches)
    place = {name: index for index, name in enumerate(names)}
    active = sorted(
        history.active, key=lambda item: _date(history, item) or datetime.min.replace(tzinfo=now.tzinfo)
    )
    count = len(history.metaranges.ranges)
    found = Owners(
        np.zeros(count, np.uint8),
        _nobody(count),
        _nobody(count),
        names,
        [_date(history, item) for item in active],
    )
    for index, commit_id in enumerate(active):
        metarange = history.active[commit_id]
        if metarange:
            rows = history.metaranges.named[metarange]
            found.kinds[rows] |= np.uint8(bits[commit_id])
            branch = _single(bits[commit_id], lines.get(commit_id), place)
            span(found.branches, rows, *((0, len(names)) if branch is None else (branch, branch)))
            span(found.commits, rows, index, index)
    # Ranges of metaranges that count as active commits.
    found.kinds[found.kinds == 0] = DANGLING
    return found


def span(spans: Spans, rows: Any, least: int, greatest: int) -> None:
    """Extend intervals by an owner, or by several."""
    spans[0, rows] = np.minimum(spans[0, rows], least)
    spans[1, rows] = np.maximum(spans[1, rows], greatest)


def _nobody(count: int) -> Spans:
    return np.stack([np.full(count, NOBODY, np.int32), np.full(count, -1, np.int32)])


def _single(bits: int, line: Line | None, place: Mapping[str, int]) -> int | None:
    """The index of the only branch with a commit; None for several owners or none."""
    if bits & (TAGS | POLICY) or line is None or line.keeper is None:
        return None
    return place[line.keeper]


def _bits(base: BaseRun, history: History, lines: Mapping[str, Line]) -> dict[str, int]:
    now = base.plan.created_at
    found = dict.fromkeys(history.active, 0)
    for commit_id in found:
        line = lines.get(commit_id)
        if commit_id in history.heads:
            found[commit_id] |= HEAD
        elif line is None:
            found[commit_id] |= DANGLING
        elif base.rules is None or line.is_active(now):
            found[commit_id] |= OLD
    if base.plan.config.keep_tags:
        _mark(found, (tag.commit_id for tag in history.tags), TAGS)
    policy = base.plan.config.policy
    for keep in policy.keeps(history.branches, history.graph) if policy is not None else ():
        if not keep.rule.paths:
            _mark(found, keep.commits, POLICY)
    # Within the tolerance for clocks, an expired commit is still active.
    return {commit_id: bits or OLD for commit_id, bits in found.items()}


def _mark(found: dict[str, int], commits: Any, bit: int) -> None:
    for commit_id in commits:
        if commit_id in found:
            found[commit_id] |= bit


def _date(history: History, commit_id: str) -> datetime | None:
    commit = history.graph.get(commit_id)
    return None if commit is None else commit.created_at


def monthly(size_bytes: int, price: float) -> float:
    """The price of bytes for a month, in US dollars, without requests and transfer; `price` is for a GiB."""
    return size_bytes / 2**30 * price


# Limits of the age groups of commits, in days.
AGES = (7, 30, 90, 180, 365)


type Table = dict[str, Amount]


def _table() -> Table:
    return defaultdict(Amount)


class Cost(Struct):
    """The objects of a repository, by the reason for keeping them."""

    run_id: str
    as_of: datetime  # time of its plan, by the store's clock
    kinds: Table = field(default_factory=_table)
    # objects kept by a single branch, by branch; they become garbage with the branch once no rule keeps its
    # commits
    branches: Table = field(default_factory=_table)
    # live objects outside heads and staging, by the age of the newest commit with them
    ages: Table = field(default_factory=_table)
    alone: Table = field(default_factory=_table)  # the part of them in a single commit, by its age
    notes: list[str] = field(default_factory=list)

    def tables(self) -> dict[str, Any]:
        """All figures as a JSON object; tables are lists, the largest row first except for ages."""
        return {
            "run_id": self.run_id,
            "as_of": self.as_of.isoformat(),
            "kinds": [
                {"kind": kind, "why": why, **to_json(self.kinds[kind])}
                for kind, why in KINDS.items()
                if kind in self.kinds and self.kinds[kind].objects
            ],
            "branches": _rows(self.branches, "branch"),
            "ages": [
                {"age": age, **to_json(self.ages[age]), "alone": to_json(self.alone[age])}
                for age in age_names()
                if age in self.ages
            ],
            "notes": self.notes,
        }


def _rows(table: Mapping[str, Amount], name: str) -> list[dict[str, Any]]:
    ordered = sorted(table.items(), key=lambda item: (-item[1].size_bytes, item[0]))
    return [{name: key, **to_json(amount)} for key, amount in ordered if amount.objects]


def age_names() -> list[str]:
    """The names of the age groups, youngest first."""
    names = [f"under {AGES[0]} days"]
    names += [f"{low} to {high} days" for low, high in pairwise(AGES)]
    return [*names, f"{AGES[-1]} days and more", "unknown"]


def cost_of(base: BaseRun) -> Cost:
    """Count the storage cost of a repository's objects. Raises ConfigError: the run listed only a part."""
    if not base.is_whole:
        raise ConfigError(f"{base.text} listed only the changes. Start a dry run with --mode clean.")
    cost = Cost(base.plan.run_id, base.plan.created_at)
    history = base.history()
    owners = owners_of(base, history)
    counter = _Counter(cost, owners)
    with _labelled(base, history, owners) as sets:
        for labelled, listed in listed_shards(base.folder, base.listing.listed, sets):
            found, places = labelled.find(listed.hashes)
            columns = [column[places[found]] for column in labelled.columns]
            counter.add(columns, listed.sizes[found])
            cost.kinds[GARBAGE].add(int(np.count_nonzero(~found)), int(listed.sizes[~found].sum()))
    _take_in_the_rest(base, cost)
    return cost


@contextmanager
def _labelled(base: BaseRun, history: History, owners: Owners) -> Iterator[LabelledSets]:
    ranges = history.metaranges.ranges
    staged, referred, policy, no_ref = range(len(ranges), len(ranges) + len(_WITHOUT_OWNER))
    row_of = {item: row for row, item in enumerate(ranges)}
    # Without rules, ranges without a known commit count as active.
    unnamed = {item: facts for item, facts in read_facts(history.ranges_table) if item not in ranges}
    every = ranges | unnamed
    with LabelledSets(_labels(owners), sum(facts.count for facts in every.values())) as sets:
        for part in base.staged.hashes:
            sets.add(staged, read_hashes(base.folder, part))
        for hashes in base.referred():
            sets.add(referred, hashes)
        for part in base.committed.parts(f"{PATHS}-"):
            if part.name.endswith(".u64"):
                sets.add(policy, read_hashes(base.folder, part))
        for item in addresses_of(base.reader, base.state, base.plan.namespace, every):
            sets.add(row_of.get(item.range_id, no_ref), item.addresses)
        yield sets


# Kinds of references without a single branch or commit, in the order of their rows after those of the ranges.
_WITHOUT_OWNER = (STAGED, REFERRED, POLICY, DANGLING)


def _labels(owners: Owners) -> Labels:
    """A row for each range, and one for each kind without an owner."""
    nobody = int(NOBODY)
    rows = [(bit, 0, len(owners.branch_names), nobody, -1) for bit in _WITHOUT_OWNER]
    columns = (owners.kinds, *owners.branches, *owners.commits)
    more = zip(*rows, strict=True)
    return Labels(
        tuple(
            np.append(column, np.array(values, column.dtype))
            for column, values in zip(columns, more, strict=True)
        ),
        (np.bitwise_or, np.minimum, np.maximum, np.minimum, np.maximum),
    )


class _Counter:
    def __init__(self, cost: Cost, owners: Owners) -> None:
        self._cost = cost
        self._owners = owners
        self._ages = _age_of_commits(owners.dates, cost.as_of)

    def add(self, columns: Sequence[npt.NDArray[Any]], sizes: npt.NDArray[np.int64]) -> None:
        bits, branch, branch_to, commit, commit_to = columns
        found = kind_of(bits)
        _count(self._cost.kinds, found, sizes, LIVE)
        one = branch == branch_to
        _count(self._cost.branches, branch[one], sizes[one], self._owners.branch_names)
        old = (bits & (HEAD | STAGED) == 0) & (commit_to >= 0)
        ages = self._ages[commit_to[old]]
        _count(self._cost.ages, ages, sizes[old], age_names())
        alone = commit[old] == commit_to[old]
        _count(self._cost.alone, ages[alone], sizes[old][alone], age_names())


def _count(table: Table, codes: npt.NDArray[Any], sizes: npt.NDArray[np.int64], names: Sequence[str]) -> None:
    objects = np.bincount(codes, minlength=len(names))
    size_bytes = np.bincount(codes, weights=sizes, minlength=len(names))
    for code in np.flatnonzero(objects).tolist():
        table[names[code]].add(int(objects[code]), int(size_bytes[code]))


def _age_of_commits(dates: Sequence[datetime | None], now: datetime) -> npt.NDArray[np.int64]:
    days = [None if date is None else (now - date).total_seconds() / 86_400 for date in dates]
    unknown = len(AGES) + 1
    found = [unknown if item is None else int(np.searchsorted(AGES, item, side="right")) for item in days]
    return np.array(found, np.int64)


def _take_in_the_rest(base: BaseRun, cost: Cost) -> None:
    """Add objects outside the live set: deleted and held garbage, and young objects."""
    counts = base.listing.counts
    cost.kinds[YOUNG].add(counts["young_objects"], counts["young_bytes"])
    if text := base.listing.unlisted_text:
        cost.notes.append(text)
    swept, guards = base.folder.read_output(BulkDeleteOutput), base.folder.read_output(CheckLimitsOutput)
    if swept is not None and swept.is_settled:
        for group in swept.groups:
            kind = {
                ledger.DELETED: DELETED,
                ledger.MISSING: DELETED,
                ledger.KEPT: HELD,
            }
            _move(cost, kind.get(group.outcome, GARBAGE), group.objects, group.size_bytes)
    elif guards is not None:
        for held in guards.held:
            _move(cost, HELD, held["objects"], held["bytes"])


def _move(cost: Cost, kind: str, objects: int, size_bytes: int) -> None:
    cost.kinds[GARBAGE].add(-objects, -size_bytes)
    cost.kinds[kind].add(objects, size_bytes)


_ROWS_MAX = 20


def cost_lines(
    cost: Mapping[str, Any], price: float | None = None, rows_max: int = _ROWS_MAX
) -> Iterator[str]:
    """Format the result of `Cost.tables`, with the price of a GiB for a month if given."""
    yield from _text_table("KIND", cost["kinds"], "kind", price, len(cost["kinds"]), "why")
    tables = (
        ("ONLY ON BRANCH", "branches", "branch", "kept by this branch alone: garbage without the branch"),
        ("NOT IN A HEAD, BY AGE", "ages", "age", "age of the newest commit with the object"),
    )
    for title, name, column, about in tables:
        if cost[name]:
            yield ""
            yield from _text_table(title, cost[name], column, price, rows_max, about=about)
    for note in cost["notes"]:
        yield f"* {note}"


def _text_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    column: str,
    price: float | None,
    rows_max: int,
    why: str = "",
    about: str = "",
) -> Iterator[str]:
    names = [row[column] for row in rows]
    width = max(len(name) for name in [title, *names[:rows_max]]) + 2
    yield (
        f"{title:<{width}}{'OBJECTS':>12}{'SIZE':>12}{'A MONTH':>12}  {about}".rstrip()
        if price
        else (f"{title:<{width}}{'OBJECTS':>12}{'SIZE':>12}  {about}".rstrip())
    )
    for name, row in list(zip(names, rows, strict=True))[:rows_max]:
        money = "" if price is None else f"{monthly(row['size_bytes'], price):>12,.2f}"
        more = row.get(why, "")
        if "alone" in row:
            more = f"{row['alone']['objects']:,} of them in one commit alone"
        yield f"{name:<{width}}{row['objects']:>12,}{size_text(row['size_bytes']):>12}{money}  {more}".rstrip()
    if len(rows) > rows_max:
        yield f"… and {len(rows) - rows_max:,} more"
