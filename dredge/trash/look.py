"""What the records of a store name: the only thing that keeps a partition alive.

Everything is fail-closed. A repository or branch record that cannot be read, or says something unknown,
ends the run: what it would have named cannot be known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.kv.model import Entry
from dredge.kv.rows import Row, RowReader, RowView, show_key
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch
from dredge.trash.names import (
    BRANCH_PREFIX,
    COMMIT_PREFIX,
    METADATA,
    OTHERS,
    REPOSITORIES,
    REPOSITORY_PREFIX,
    SCHEMA_VERSION,
    SCHEMA_VERSION_KEY,
    SMALL,
    TAG_PREFIX,
    is_token,
    parse_instance,
    tail,
)

State = Literal["active", "in-deletion", "initial"]
_STATES: Mapping[int, State] = {
    messages.RepositoryState.ACTIVE: "active",
    messages.RepositoryState.IN_DELETION: "in-deletion",
    messages.RepositoryState.INITIAL: "initial",
}


@dataclass(frozen=True, slots=True)
class RepositoryRecord:
    """A repository's record.

    Args:
        name: the repository's id.
        uid: xid of this life of the name.
        state: whether a deletion began, or a creation has not ended (the design's step 2).
        created: aware UTC.
        value: the record's bytes.
    """

    name: str
    uid: str
    state: State
    created: datetime
    value: bytes = field(repr=False)

    @property
    def partition(self) -> bytes:
        """Where the instance's records are."""
        return f"{self.name}-{self.uid}".encode()


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch's record.

    Args:
        name: the branch's id.
        commit: its head.
        tokens: staging partitions, current first, then all sealed ones.
        value: the record's bytes.
    """

    name: str
    commit: str
    tokens: tuple[bytes, ...]
    value: bytes = field(repr=False)


class References:
    """Repository and branch records of one moment (or, without snapshots, of one stretch of reading).

    Args:
        repositories: by name.
        branches: by partition, then by name; of every repository partition that exists, with a record or
            without.
    """

    def __init__(
        self,
        repositories: Mapping[str, RepositoryRecord],
        branches: Mapping[bytes, Mapping[str, BranchRecord]],
    ) -> None:
        self.repositories = repositories
        self.branches = branches
        self.partitions = {record.partition: record for record in repositories.values()}
        self.tokens: dict[bytes, set[bytes]] = {}
        """For every token that a branch names: the partitions of those branches."""
        for partition, named in branches.items():
            for branch in named.values():
                for token in branch.tokens:
                    self.tokens.setdefault(token, set()).add(partition)
        self.lives: dict[str, list[bytes]] = {}
        """Partitions by the repository's name: the recorded life and those without a record."""
        for partition in branches:
            instance = parse_instance(partition)
            if instance is not None:
                self.lives.setdefault(instance.repository, []).append(partition)


def read_references(view: RowView, others: Iterable[bytes] = ()) -> References:
    """Read repository records, then branch records.

    Args:
        view: the store.
        others: further partitions whose branches are read: those that look like a repository without a
            record.

    Raises:
        FormatError: a record cannot be read.
        RefusedError: a record is in a state that this version does not know.
    """
    repositories = {record.name: record for record in _repositories(view)}
    partitions = {record.partition for record in repositories.values()} | set(others)
    branches = {partition: _branches(view, partition) for partition in sorted(partitions)}
    return References(repositories, branches)


def _repositories(view: RowView) -> Iterator[RepositoryRecord]:
    for entry in view.scan(REPOSITORIES, REPOSITORY_PREFIX):
        if not entry.key.startswith(REPOSITORY_PREFIX):
            return
        name = show_key(REPOSITORIES, entry.key)
        record = messages.decode(messages.RepositoryData, entry.value, name)
        if record.id != tail(entry.key, REPOSITORY_PREFIX) or not xid.is_xid(record.instance_uid):
            raise FormatError(
                f"{name}: the record names another repository or no instance. Nothing is judged."
            )
        if record.state not in _STATES:
            raise RefusedError(f"{name}: state {record.state} is unknown to this version. Nothing is judged.")
        created = messages.from_timestamp(record.creation_date)
        yield RepositoryRecord(record.id, record.instance_uid, _STATES[record.state], created, entry.value)


def _branches(view: RowView, partition: bytes) -> dict[str, BranchRecord]:
    found: dict[str, BranchRecord] = {}
    for entry in view.scan(partition, BRANCH_PREFIX):
        if not entry.key.startswith(BRANCH_PREFIX):
            break
        name = show_key(partition, entry.key)
        try:
            branch = Branch.decode(entry.value)
        except FormatError as error:
            raise FormatError(f"{name}: {error}") from error
        if branch.name != tail(entry.key, BRANCH_PREFIX):
            raise FormatError(f"{name}: the record names another branch. Nothing is judged.")
        tokens = tuple(token.encode() for token in branch.tokens)
        found[branch.name] = BranchRecord(branch.name, branch.commit_id, tokens, entry.value)
    return found


@dataclass(frozen=True, slots=True)
class Contents:
    """What a set of rows amounts to.

    Args:
        rows: how many.
        size_bytes: of keys and values.
        digest: SHA-256 over all keys and values in order, hex.
    """

    rows: int
    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class CommitLook:
    """What the rules ask of a commit."""

    parents: tuple[str, ...]
    has_metarange: bool
    generation: int


@dataclass(frozen=True, slots=True)
class InstanceLook:
    """A repository's partition.

    Args:
        contents: all of its rows.
        commits: by id; not kept for an active repository, which may have millions.
        dangling: commits of an active repository that no branch and no tag leads to.
        tags: commit ids by tag.
        others: every other key but branches, with its value.
        names: every key with the size of its row, in order; not kept for an active repository.
    """

    contents: Contents
    commits: Mapping[str, CommitLook] = field(repr=False)
    dangling: tuple[str, ...]
    tags: Mapping[str, str] = field(repr=False)
    others: Mapping[bytes, bytes] = field(repr=False)
    names: Mapping[bytes, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a store.

    Args:
        references: all that records name.
        partitions: every partition that has a row.
        instances: every partition with the shape or the record of a repository.
        staging: every partition with the shape of a token, or named as one; those that live branches
            alone use have None for contents.
        small: rows of the partitions that are judged key by key.
        unknown: partitions of no known shape that nothing names.
        unsure: partitions that were named when the look began and were not any more when it ended.
        heads: commits of branches that have a record, by the partition of an active repository.
        lost_commits: of the commits that were noted before, those without a record now, by partition.
    """

    references: References
    partitions: frozenset[bytes]
    instances: Mapping[bytes, InstanceLook]
    staging: Mapping[bytes, Contents | None]
    small: Mapping[bytes, Mapping[bytes, bytes]]
    unknown: tuple[bytes, ...]
    unsure: frozenset[bytes]
    heads: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    lost_commits: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)


def read_look(reader: RowReader, noted: Mapping[bytes, Collection[str]] | None = None) -> Look:
    """Read a store.

    Args:
        reader: of the store.
        noted: commits whose records are looked for, by the partition of their repository.

    Raises:
        FormatError: a repository, branch, tag or commit record cannot be read; nothing may be judged.
        RefusedError: an unknown repository state or schema version.
        UnavailableError: the store did not answer.
    """
    with reader.view() as view:
        return look_through(view, noted)


def look_through(view: RowView, noted: Mapping[bytes, Collection[str]] | None = None) -> Look:
    """Read a store through a view that is already open; see `read_look`."""
    partitions = list(view.partitions())
    check_schema(view, partitions)
    present = frozenset(partitions)
    shaped = [name for name in partitions if parse_instance(name)]
    early = read_references(view, shaped)
    unrecorded = [name for name in shaped if name not in early.partitions]
    unnamed = [name for name in partitions if is_token(name) and name not in early.tokens]

    # What may be trash, before the references that count.
    instances = {name: _read_instance(view, name) for name in unrecorded}
    staging: dict[bytes, Contents | None] = {name: contents_of(view.scan(name)) for name in unnamed}
    small = {name: {row.key: row.value for row in view.scan(name)} for name in SMALL if name in present}

    references = early if view.consistent else read_references(view, shaped)
    unsure = (set(early.partitions) - set(references.partitions)) | (
        set(early.tokens) - set(references.tokens)
    )
    markers = small.get(b"cleanup-tokens", {})
    for name in present & set(references.tokens):
        # Who is judged by another partition, or is queued although a branch names it, is reported with
        # its size.
        told = name in markers or not _all_active(references, name)
        staging[name] = contents_of(view.scan(name)) if told else None
    heads: dict[bytes, frozenset[str]] = {}
    lost: dict[bytes, tuple[str, ...]] = {}
    for name, record in references.partitions.items():
        # A partition without any row is looked at too: its rows may be what was lost.
        instance = _read_instance(view, name)
        if record.state == "active":  # a deletion removes commits before the record
            named = {branch.commit for branch in references.branches[name].values()}
            heads[name] = frozenset(named & instance.commits.keys())
            if missing := set((noted or {}).get(name, ())) - instance.commits.keys():
                lost[name] = tuple(sorted(missing))
        if name in present:
            instances[name] = _of_record(instance, name, references)

    known = {REPOSITORIES, *OTHERS, *SMALL, *instances, *staging} | unsure
    return Look(
        references=references,
        partitions=present,
        instances=instances,
        staging=staging,
        small=small,
        unknown=tuple(name for name in partitions if name not in known),
        unsure=frozenset(unsure & present),
        heads=heads,
        lost_commits=lost,
    )


def check_schema(view: RowView, partitions: Iterable[bytes]) -> None:
    """Refuse a store whose layout these rules were not made for.

    Raises:
        RefusedError: the schema version is not 4.
    """
    if not list(partitions):
        return
    found = next(
        (row.value for row in view.scan(METADATA, SCHEMA_VERSION_KEY) if row.key == SCHEMA_VERSION_KEY), None
    )
    if found != SCHEMA_VERSION:
        version = "missing" if found is None else repr(found.decode("ascii", "replace"))
        raise RefusedError(
            f"the store's schema version is {version}, and these rules are for {SCHEMA_VERSION.decode()}."
            " Nothing was judged. Migrate lakeFS, or use a newer Dredge."
        )


def value_digest(value: bytes) -> str:
    """Digest of a single row's value, hex."""
    return hashlib.sha256(value).hexdigest()


class _Sum:
    """Adds rows up."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.rows = 0
        self.size_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        self._hash.update(b"%d:%d:" % (len(key), len(value)) + key + value)
        self.rows += 1
        self.size_bytes += len(key) + len(value)

    def contents(self) -> Contents:
        return Contents(self.rows, self.size_bytes, self._hash.hexdigest())


def contents_of(rows: Iterable[Entry | Row]) -> Contents | None:
    """Summarise rows in key order; None when there are none."""
    total = _Sum()
    for row in rows:
        total.add(row.key, row.value)
    return total.contents() if total.rows else None


def dangling_commits(commits: Mapping[str, CommitLook], heads: Iterable[str]) -> tuple[str, ...]:
    """Name the commits that none of the heads leads to, by any parent, in order."""
    unreached = set(commits)
    waiting = list(heads)
    while waiting:
        commit = waiting.pop()
        if commit in unreached:
            unreached.remove(commit)
            waiting.extend(commits[commit].parents)
    return tuple(sorted(unreached))


def _of_record(instance: InstanceLook, partition: bytes, references: References) -> InstanceLook:
    """Keep of a recorded instance what its state asks for."""
    if references.partitions[partition].state != "active":
        return instance
    heads = [branch.commit for branch in references.branches[partition].values()]
    dangling = dangling_commits(instance.commits, [*heads, *instance.tags.values()])
    return replace(instance, commits={}, dangling=dangling, names={})


def _read_instance(view: RowView, partition: bytes) -> InstanceLook:
    total = _Sum()
    commits: dict[str, CommitLook] = {}
    tags: dict[str, str] = {}
    others: dict[bytes, bytes] = {}
    names: dict[bytes, int] = {}
    for row in view.scan(partition):
        key, value = row.key, row.value
        total.add(key, value)
        names[key] = len(key) + len(value)
        if key.startswith(COMMIT_PREFIX):
            commits[tail(key, COMMIT_PREFIX)] = _read_commit(partition, key, value)
        elif key.startswith(TAG_PREFIX):
            tag = messages.decode(messages.TagData, value, show_key(partition, key))
            tags[tail(key, TAG_PREFIX)] = tag.commit_id
        elif not key.startswith(BRANCH_PREFIX):
            others[key] = value
    return InstanceLook(total.contents(), commits, (), tags, others, names)


def _read_commit(partition: bytes, key: bytes, value: bytes) -> CommitLook:
    name = show_key(partition, key)
    record = messages.decode(messages.CommitData, value, name)
    if record.id != tail(key, COMMIT_PREFIX):
        raise FormatError(f"{name}: the record names another commit. Nothing is judged.")
    return CommitLook(tuple(record.parents), bool(record.meta_range_id), record.generation)


def _all_active(references: References, token: bytes) -> bool:
    records = [references.partitions.get(partition) for partition in references.tokens[token]]
    return all(record is not None and record.state == "active" for record in records)
