"""The readable objects, by an independent model: a mirror of the records in the key-value store, and plain sets.

    truth.readable()        addresses of branches, or of commits kept by a rule
    truth.since[address]    since when without a gap

It follows the store record by record, so it is always up to date. It shares the decoding of records and tables with the
servers, and nothing with the collector.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.files.addresses import canonical_address
from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.catalog.garbage import Rules
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.store import RangeReader
from lakefs_embedded.refs.records import Commit, Tag
from lakefs_embedded.staging.area import Staged
from tests.simulation.clock import instant
from tests.simulation.scheduler import Scheduler

SURE = timedelta(hours=1)
"""Clocks differ: a commit that expires within an hour may count as expired."""


@dataclass(frozen=True)
class Policy:
    """The only rule of a retention policy; a pattern is a name, or ends in `**`."""

    branches: tuple[str, ...]  # patterns of their names
    last: int | None  # commits of a branch's main line that count; None is all of them
    paths: tuple[str, ...] = ()  # patterns of paths; none is every path

    def names(self, branch: str) -> bool:
        return any(_matches(pattern, branch) for pattern in self.branches)

    def has(self, path: bytes) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        return not self.paths or any(_matches(pattern, text) for pattern in self.paths)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-2]) if pattern.endswith("**") else name == pattern


@dataclass
class Truth:
    repository: Repository  # its record
    scheduler: Scheduler  # gives the true time
    ranges: RangeReader  # reads tables, past all doors
    branches: dict[str, Branch] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    tags: dict[str, Tag] = field(default_factory=dict)
    staged: dict[str, dict[bytes, str | None]] = field(default_factory=dict)
    # versions of the retention rules, with the times since when
    rules: list[tuple[float, Rules | None]] = field(default_factory=lambda: [(0.0, None)])
    # beginning of an address's readability without a gap; only readable ones
    since: dict[str, float] = field(default_factory=dict)
    head_since: dict[str, float] = field(default_factory=dict)  # the same for what a branch's head names
    # the same for what any token of a branch names
    named_since: dict[str, float] = field(default_factory=dict)
    following: bool = False
    moved: float = 0.0  # when a branch, commit, tag or staging record changed last
    # active commits missing in the database after its restore to an earlier day. Their content counts as readable
    # until a person releases them: they can be made known again
    lost: dict[str, Commit] = field(default_factory=dict)
    was_put_back: bool = False  # whether it was, ever
    given_up: set[str] = field(default_factory=set)  # addresses of lost commits that a person gave up
    _entries: dict[str, dict[bytes, str]] = field(default_factory=dict)

    def changed(self, partition: bytes, key: bytes, value: bytes | None) -> None:
        if partition == self.repository.partition:
            if not self._ref(key, value):
                return
        elif partition.startswith(f"{self.repository.name}-".encode()):
            self._stage(partition.decode(), key, value)
        else:
            return
        self.moved = self.scheduler.now
        if self.following:
            self.look()

    def follow(self) -> None:
        self.following = True
        self.look()

    @contextmanager
    def losing(self) -> Iterator[None]:
        """The database is restored to an earlier day within the block."""
        self.was_put_back = True
        following, self.following = self.following, False
        active = {commit: self.commits[commit] for commit in self.active()}
        yield
        self.lost |= {name: commit for name, commit in active.items() if name not in self.commits}
        self.following = following
        if following:
            self.look()

    def give_up(self) -> None:
        """A person has released the content lost with the database."""
        self.given_up |= {address for commit in self.lost for address in self.entries(commit).values()}
        self.lost.clear()

    def look(self) -> None:
        """Bring `since` up to date."""
        now = self.scheduler.now
        for since, found in (
            (self.since, self.readable()),
            (self.head_since, self.by_heads()),
            (self.named_since, self.by_all_tokens()),
        ):
            for address in [address for address in since if address not in found]:
                del since[address]
            for address in found:
                since.setdefault(address, now)

    def readable(self, since: float | None = None, sure: timedelta = SURE) -> set[str]:
        """Addresses readable now: staged on branches, in commits kept by a rule, in commits lost with the database."""
        found = self.by_staging()
        for commit in (*self.active(since, sure), *self.lost):
            found.update(self.entries(commit).values())
        return found

    def by_staging(self) -> set[str]:
        """Addresses read by branches from staging: of every path the newest change of all tokens."""
        found: set[str] = set()
        for branch in self.branches.values():
            changes: dict[bytes, str | None] = {}
            for token in reversed(branch.tokens):
                changes |= self.staged.get(token, {})
            found.update(address for address in changes.values() if address is not None)
        return found

    def is_unseen(self, address: str, is_like: Callable[[str], bool]) -> bool:
        """Whether a branch has an address staged over an equal entry of its head: no answer shows it."""
        for branch in self.branches.values():
            head = self.entries(branch.commit_id)
            for token in branch.tokens:
                for path, staged in self.staged.get(token, {}).items():
                    if staged == address and path in head and is_like(head[path]):
                        return True
        return False

    def unnamed(self, tables: Iterable[str]) -> set[str]:
        """Addresses of metaranges without a ref."""
        waiting = [branch.commit_id for branch in self.branches.values()]
        waiting += [tag.commit_id for tag in self.tags.values()]
        reached: set[str] = set()
        while waiting:
            commit = waiting.pop()
            if commit in self.commits and commit not in reached:
                reached.add(commit)
                waiting += self.commits[commit].parents
        named = {self.commits[commit].metarange_id for commit in reached}
        found: set[str] = set()
        for table in tables:
            if table not in named:
                with suppress(FormatError, NotFoundError):  # a range, or a table that was lost
                    found.update(self.entries_in(table).values())
        return found

    def by_heads(self) -> set[str]:
        heads = {branch.commit_id for branch in self.branches.values()}
        return {address for commit in heads for address in self.entries(commit).values()}

    def active(self, since: float | None = None, sure: timedelta = SURE) -> set[str]:
        versions = [rules for _, rules in self.rules[-1:]]
        if since is not None:
            last = max(number for number, (at, _) in enumerate(self.rules) if at <= since or number == 0)
            versions = [rules for _, rules in self.rules[last:]]
        now = instant(self.scheduler.now) + sure
        found = [self._active(rules, now) for rules in versions]
        return set.intersection(*found) | {tag.commit_id for tag in self.tags.values()} & set(self.commits)

    def _active(self, rules: Rules | None, now: datetime) -> set[str]:
        if rules is None:
            return set(self.commits)
        heads = {branch.commit_id for branch in self.branches.values()} & set(self.commits)
        mains = {commit.main_parent for commit in self.commits.values()}
        starts = [
            (branch.commit_id, rules.threshold(now, branch.name))
            for branch in self.branches.values()
            if branch.commit_id in self.commits
        ]
        found = set(heads)
        default = rules.threshold(now, None)
        for leaf in self.commits.keys() - mains - heads:
            starts.append((leaf, default))
            if self.commits[leaf].creation_date > default:
                found.add(leaf)
        for start, threshold in starts:
            at: str | None = start
            while at is not None and at in self.commits:
                commit = self.commits[at]
                at = commit.main_parent
                if at is not None and commit.creation_date > threshold:
                    found.add(at)
        return found & set(self.commits)

    def kept(self, policy: Policy) -> set[str]:
        """Addresses kept by the user's retention policy now."""
        found: set[str] = set()
        for branch in self.branches.values():
            at: str | None = branch.commit_id if policy.names(branch.name) else None
            left = policy.last
            while at is not None and at in self.commits and left != 0:
                entries = self.entries(at)
                found.update(address for path, address in entries.items() if policy.has(path))
                at, left = self.commits[at].main_parent, None if left is None else left - 1
        return found

    def by_all_tokens(self) -> set[str]:
        """Addresses in any token of a branch, also below newer ones: staging records show all of them."""
        tokens = [token for branch in self.branches.values() for token in branch.tokens]
        return {
            address
            for token in tokens
            for address in self.staged.get(token, {}).values()
            if address is not None
        }

    def entries(self, commit_id: str) -> Mapping[bytes, str]:
        """A commit's addresses by path; addresses outside of the namespace are left out."""
        commit = self.commits.get(commit_id) or self.lost.get(commit_id)
        return {} if commit is None or not commit.metarange_id else self.entries_in(commit.metarange_id)

    def entries_in(self, metarange: str) -> Mapping[bytes, str]:
        known = self._entries.get(metarange)
        if known is None:
            known = {
                path: address
                for path, value in self.ranges.list_entries(metarange)
                if (address := self._address(value.data)) is not None
            }
            self._entries[metarange] = known
        return known

    def rules_changed(self, data: bytes) -> None:
        rules = Rules.decode(data) if data else None
        if rules is not None and not rules.default_days and not rules.branch_days:
            rules = None
        self.rules.append((self.scheduler.now, rules))
        if self.following:
            self.look()

    def _address(self, data: bytes) -> str | None:
        entry = Entry.decode(data, "an entry")
        return canonical_address(entry.address, entry.address_type, self.repository.storage_namespace)

    def _ref(self, key: bytes, value: bytes | None) -> bool:
        kind, _, name = key.decode("utf-8", "surrogateescape").partition("/")
        if kind == "branches":
            self.branches.pop(name, None)
            if value is not None:
                self.branches[name] = Branch.decode(value)
        elif kind == "commits":
            self.commits.pop(name, None)
            if value is not None:
                self.commits[name] = Commit.decode(value)
                self.lost.pop(name, None)
        elif kind == "tags":
            self.tags.pop(name, None)
            if value is not None:
                self.tags[name] = Tag.decode(value)
        else:
            return False
        return True

    def _stage(self, token: str, path: bytes, value: bytes | None) -> None:
        area = self.staged.setdefault(token, {})
        if value is None:
            area.pop(path, None)
            return
        staged = Staged.decode(path, value)
        area[path] = None if staged.value is None else self._address(staged.value.data)
