"""The effect of other retention rules: the candidates of a clean dry run under them, without such a run.

    proposals → for each the active commits → metaranges → ranges: a bit for each proposal
    ranges, staging, paths of policies → addresses, each with the bits of all its references
    listed objects without the bit of a proposal = freed by the proposal

Listing, staging and history are from one clean run, so the answer describes that time. The server is asked only for
dates of commits without a ref, and nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from dredge.errors import ConfigError, NotFoundError
from dredge.gc.index.ranges import (
    Metaranges,
    Ranges,
    decode,
    get_files,
    may_match,
    read_facts,
    with_metaranges,
)
from dredge.gc.index.store import addresses_of
from dredge.gc.insight.base_run import Amount, BaseRun, History, listed_shards
from dredge.gc.list_committed import Graph, active_by_rules
from dredge.gc.namespaces import Keys
from dredge.gc.retention import find_lines
from dredge.lakefs import Commit, Rules
from dredge.runs.report import number_of, size_text
from dredge.sets.hashes import read_hashes
from dredge.sets.labels import SHARD_VALUES, LabelledSets, Labels
from dredge.sets.live import in_any

PROPOSALS_MAX = 64
AT_MOST, AT_LEAST, ABOUT = "≤", "≥", "~"
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

# Returns a commit by its id; raises NotFoundError.
type AskCommit = Callable[[str], Commit]


class Proposal(Struct, frozen=True):
    """Proposed rules."""

    name: str
    rules: Rules
    days: int | None = None  # position on a curve; None for a proposal outside the curve


class WhatIf(Struct, frozen=True):
    """The effect of a proposal."""

    proposal: Proposal
    commits: int
    freed: Amount  # candidates of a clean dry run under it: garbage of any kind
    held: Amount  # the part of them with the size of an object in a branch head; a run may hold them
    more: Amount  # freed under it, and not garbage now
    less: Amount  # garbage now, and not under it
    bound: str = ""  # `AT_MOST`, `AT_LEAST` or `ABOUT` for an inexact `freed`; "" for an exact figure
    unknown: str = ""  # the reason; "" for an exact figure


def what_if(
    base: BaseRun,
    proposals: Sequence[Proposal],
    ask: AskCommit | None = None,
    known: Graph | None = None,
    shard_values: int = SHARD_VALUES,
) -> list[WhatIf]:
    """Count the objects freed by proposed rules.

    Args:
        proposals: at most 63.
        ask: returns commits without a ref; None keeps the active ones of them.
        known: every commit of the repository, from its key-value store, for exact figures without requests; None
            without them.
        shard_values: addresses in memory at a time.

    Raises:
        ConfigError: the run listed only a part, or too many proposals.
        RefusedError: a range or metarange is missing.
        FormatError: a file is damaged.
    """
    if not base.is_whole:
        raise ConfigError(f"{base.text} listed only the changes. Start a dry run with --mode clean.")
    if len(proposals) >= PROPOSALS_MAX:
        raise ConfigError(f"{len(proposals)} proposals were given; at most {PROPOSALS_MAX - 1} are allowed")
    history = base.history()
    dangling = _Dangling.read(base, history, ask) if known is None else _Dangling.of(history, known)
    active = [_active(base, history, dangling, proposal) for proposal in proposals]
    named = _name(
        base, history, dangling.commits, [set(history.active), *(found.commits for found in active)]
    )
    totals = _Totals(len(proposals))
    with named.sets(shard_values) as sets:
        named.fill(sets)
        for labelled, listed in listed_shards(base.folder, base.listing.listed, sets):
            found, places = labelled.find(listed.hashes)
            bits = np.where(found, labelled.columns[0][places] if len(labelled.hashes) else np.uint64(0), 0)
            same = np.zeros(len(bits), bool)
            if not base.staged.exact:
                (same,) = in_any(base.committed.sizes, [listed.sizes.astype(np.uint64)])
            totals.add(bits.astype(np.uint64), listed.sizes, same)
    return [
        WhatIf(proposal, len(made.commits), **totals.found[number], bound=made.bound, unknown=made.unknown)
        for number, (proposal, made) in enumerate(zip(proposals, active, strict=True))
    ]


class _Dangling(Struct, frozen=True):
    commits: Graph  # those with known dates, by id; also their known parents
    undated: set[str]  # ids of the others; they count as kept
    up_to_days: int | None  # rules with more days may have further active commits; None when unknown

    @classmethod
    def read(cls, base: BaseRun, history: History, ask: AskCommit | None) -> _Dangling:
        commits: Graph = {}
        undated: set[str] = set()
        for commit_id in sorted(history.dangling):
            try:
                commits[commit_id] = ask(commit_id) if ask is not None else _unknown()
            except NotFoundError:
                undated.add(commit_id)
        rules = base.rules
        return cls(commits, undated, None if rules is None else rules.default_retention_days)

    @classmethod
    def of(cls, history: History, known: Graph) -> _Dangling:
        commits = {item: commit for item, commit in known.items() if item not in history.graph}
        return cls(commits, history.dangling - commits.keys(), timedelta.max.days)

    def doubt(self, rules: Rules) -> tuple[str, str]:
        """The direction of a possible error of the figures, and its reason; empty for exact figures."""
        less = self._unseen(rules)
        if not self.undated:
            return (AT_MOST, less) if less else ("", "")
        more = f"{len(self.undated):,} commits without a branch or tag count as kept"
        return (ABOUT, f"{more}; {less}") if less else (AT_LEAST, more)

    def _unseen(self, rules: Rules) -> str:
        if self.up_to_days is None:
            return "commits without a branch or tag are not known without rules; young commits stay"
        if rules.default_retention_days > self.up_to_days:
            return (
                f"commits without a branch or tag, older than {self.up_to_days} days, are not"
                " known; some may stay"
            )
        return ""


def _unknown() -> Commit:
    raise NotFoundError("no server to ask")


class _Active(Struct, frozen=True):
    commits: set[str]
    bound: str
    unknown: str


def _active(base: BaseRun, history: History, dangling: _Dangling, proposal: Proposal) -> _Active:
    """The active commits of a run under a proposal: see `list_committed.active`."""
    rules, now = proposal.rules, base.plan.created_at
    own = active_by_rules(history.graph, history.branches, rules, now)
    server = {
        commit_id
        for commit_id, line in find_lines(
            history.graph | dangling.commits, history.branches, rules, now
        ).items()
        if line.is_active(now)
    }
    kept = own | server | dangling.undated | history.heads
    if base.plan.config.keep_tags:
        kept |= {tag.commit_id for tag in history.tags}
    policy = base.plan.config.policy
    for keep in policy.keeps(history.branches, history.graph) if policy is not None else ():
        if not keep.rule.paths:
            kept |= keep.commits
    return _Active(kept, *dangling.doubt(rules))


class _Named(Struct):
    base: BaseRun
    ranges: Ranges  # with their bits, one for each proposal, the first for the present rules
    bits: dict[str, np.uint64]
    # the patterns of each rule about paths, with its possible ranges; all proposals keep them
    paths: list[tuple[tuple[str, ...], Ranges]] = field(default_factory=list)

    def sets(self, shard_values: int) -> LabelledSets:
        """Empty sets with a row for each combination of bits; the first is for addresses kept by every proposal."""
        labels = Labels((np.array(self._rows, np.uint64),), (np.bitwise_or,))
        return LabelledSets(labels, sum(facts.count for facts in self.ranges.values()), shard_values)

    def fill(self, sets: LabelledSets) -> None:
        base, place = self.base, {bits: row for row, bits in enumerate(self._rows)}
        for part in base.staged.hashes:
            sets.add(0, read_hashes(base.folder, part))
        for hashes in base.referred():
            sets.add(0, hashes)
        for item in addresses_of(base.reader, base.state, base.plan.namespace, self.ranges):
            sets.add(place[int(self.bits[item.range_id])], item.addresses)
        for globs, ranges in self.paths:
            keys = Keys(namespace=base.plan.namespace, paths=globs)
            for item in decode(get_files(base.reader, list(ranges)), ranges, keys):
                sets.add(0, item.addresses)

    @property
    def _rows(self) -> list[int]:
        return [int(_ALL), *sorted({int(bits) for bits in self.bits.values()} - {int(_ALL)})]


def _name(base: BaseRun, history: History, dangling: Graph, active: Sequence[set[str]]) -> _Named:
    metaranges = [
        history.unnamed | {_metarange(history, dangling, commit) for commit in commits} for commits in active
    ]
    with_paths = list(_path_keeps(base, history))
    needed = set[str]().union(*metaranges, *(found for _, found in with_paths))
    named = with_metaranges(base.reader, history.metaranges, needed)
    bits = _bits(named, metaranges)
    if base.committed.all_commits:
        for item, _ in read_facts(history.ranges_table):
            bits[item] = bits.get(item, np.uint64(0)) | np.uint64(1)
    ranges = {item: named.ranges[item] for item in bits if item in named.ranges}
    ranges |= {
        item: facts for item, facts in read_facts(history.ranges_table) if item in bits and item not in ranges
    }
    found = _Named(base, ranges, bits)
    whole = np.uint64((1 << len(active)) - 1)
    for globs, kept in with_paths:
        some = {
            item: facts
            for item, facts in named.select(kept).items()
            if may_match(globs, facts.min_key, facts.max_key) and bits.get(item, np.uint64(0)) != whole
        }
        if some:
            found.paths.append((globs, some))
    return found


def _metarange(history: History, dangling: Graph, commit_id: str) -> str:
    return dangling[commit_id].metarange_id if commit_id in dangling else history.metarange_of(commit_id)


def _path_keeps(base: BaseRun, history: History) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    policy = base.plan.config.policy
    for keep in policy.keeps(history.branches, history.graph) if policy is not None else ():
        if keep.rule.paths:
            yield keep.rule.paths, {history.metarange_of(commit) for commit in keep.commits} - {""}


def _bits(named: Metaranges, active: Sequence[set[str]]) -> dict[str, np.uint64]:
    """A bit for each set of metaranges, by range id; no entry for unreferenced ranges."""
    bits = np.zeros(len(named.ranges), np.uint64)
    for number, metaranges in enumerate(active):
        for metarange in metaranges:
            if metarange:
                bits[named.named[metarange]] |= np.uint64(1 << number)
    ids = list(named.ranges)
    rows = np.flatnonzero(bits)
    return dict(zip((ids[row] for row in rows.tolist()), bits[rows], strict=True))


class _Totals:
    def __init__(self, num_proposals: int) -> None:
        kinds = ("freed", "held", "more", "less")
        self.found = [{kind: Amount() for kind in kinds} for _ in range(num_proposals)]

    def add(
        self, bits: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64], same: npt.NDArray[np.bool_]
    ) -> None:
        garbage = bits & np.uint64(1) == 0
        for number, amounts in enumerate(self.found):
            dead = bits & np.uint64(1 << (number + 1)) == 0
            masks = {"freed": dead, "held": dead & same, "more": dead & ~garbage, "less": garbage & ~dead}
            for kind, mask in masks.items():
                amounts[kind].add(int(np.count_nonzero(mask)), int(sizes[mask].sum()))


AS_NOW = "as now"


def by_days(rules: Rules | None, days: Iterable[int], branch: str | None = None) -> list[Proposal]:
    """Propose other retention days for a branch, or by default; branches with their own days keep them. Raises
    ConfigError: days of a branch in a repository without rules."""
    if branch is None:
        branches = {} if rules is None else rules.branches
        return [Proposal(number_of(item, "day"), Rules(item, branches), item) for item in days]
    if rules is None:
        raise ConfigError(
            f"the repository has no rules: with days for {branch} alone, the other branches would have none. Give a"
            " file of rules, or days without a branch."
        )
    default, branches = rules.default_retention_days, rules.branches
    return [
        Proposal(f"{branch}: {number_of(item, 'day')}", Rules(default, {**branches, branch: item}), item)
        for item in days
    ]


def as_now(rules: Rules | None) -> list[Proposal]:
    """Propose the rules in force; empty without rules."""
    return [] if rules is None else [Proposal(AS_NOW, rules)]


def from_file(text: str, name: str) -> Proposal:
    """Read rules in the format of `lakectl gc set-config`. Raises ConfigError: another format."""
    try:
        value: Any = json.loads(text)
        branches = {item["branch_id"]: _days(item["retention_days"]) for item in value.get("branches") or []}
        return Proposal(f"rules of {name}", Rules(_days(value["default_retention_days"]), branches))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{name} is not a file of rules such as"
            ' {"default_retention_days": 30, "branches": [{"branch_id": "main", "retention_days": 90}]}'
            f" ({type(error).__name__}: {error})"
        ) from None


def read_days(text: str) -> list[int]:
    """Read days such as `7,14,30`, each once, in ascending order. Raises ConfigError: an invalid number of days."""
    try:
        return sorted({_days(int(item)) for item in text.split(",")})
    except ValueError:
        raise ConfigError(f"{text!r} is not a list of days such as 7,14,30") from None


def _days(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of days")
    return value


_BAR_WIDTH = 24


def table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw the effect of proposals (JSON of `WhatIf`) as a table with bars."""
    most = max((item["freed"]["size_bytes"] for item in found), default=0)
    width = max([5, *(len(item["proposal"]["name"]) for item in found)]) + 2
    yield f"{'rules':<{width}}{'commits':>9}{'freed':>12}{'bytes':>11}{'more than now':>15}{'may be held':>13}"
    for item in found:
        name, freed = item["proposal"]["name"], item["freed"]
        about = item["bound"] and f"{item['bound']} "
        more = item["more"]["size_bytes"] - item["less"]["size_bytes"]
        yield (
            f"{name:<{width}}{item['commits']:>9,}{about + format(freed['objects'], ','):>12}"
            f"{size_text(freed['size_bytes']):>11}{('-' if more < 0 else '') + size_text(abs(more)):>15}"
            f"{item['held']['objects']:>13,}  {bar(freed['size_bytes'], most)}"
        )
    for item in {item["unknown"]: item for item in found if item["unknown"]}.values():
        yield f"{item['bound']} {item['unknown']}"


def bar(value: int, most: int) -> str:
    """A bar in proportion to the greatest value."""
    return "█" * round(_BAR_WIDTH * value / most) if most else ""
