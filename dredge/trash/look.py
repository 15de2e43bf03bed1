"""The rows of a store as the rules need them: `Look`, a value.

Only references in repository and branch records keep a partition alive, so an unreadable or unknown record ends the
run: its references are unknown. Keys and these records are read whole, values of staging partitions only if the
partition may be trash; only a digest of them is kept.

The order matters in a store without snapshots (DynamoDB): possible trash first, then repository records, branch
records, and the rest of the repositories. A partition that was referenced at the start and is not at the end was in
use, so this look does not classify it.

Source: docs/trash.md; L63, L64 of docs/lakefs-behaviour.md.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from msgspec import Struct

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.kv.rows import Entry, Row, RowReader, RowView, show_key
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch
from dredge.trash.names import (
    BRANCH_PREFIX,
    COMMIT_PREFIX,
    MARKERS,
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

_STOPPED = "Nothing more was removed. Check that this is lakeFS's store."
State = Literal["active", "in-deletion", "initial"]
_STATES: Mapping[int, State] = {
    messages.RepositoryState.ACTIVE: "active",
    messages.RepositoryState.IN_DELETION: "in-deletion",
    messages.RepositoryState.INITIAL: "initial",
}


@dataclass(frozen=True, slots=True)
class RepositoryRecord:
    """A repository's record."""

    name: str
    uid: str  # xid of this life of the name
    state: State  # initial: its creation has not ended (the design's step 2)
    created: datetime
    value: bytes = field(repr=False)

    @property
    def partition(self) -> bytes:
        """The partition of the instance's records."""
        return f"{self.name}-{self.uid}".encode()


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch's record."""

    name: str
    commit: str
    tokens: tuple[bytes, ...]  # staging partitions, current first, then all sealed tokens
    value: bytes = field(repr=False)


class References:
    """Repository and branch records at one point in time (in stores without snapshots: over one period). `branches`: by
    partition, then by name; of every repository partition, with or without a record. `tokens`: for each referenced
    token, the partitions of its branches. `lives`: partitions by repository name, with and without a record."""

    def __init__(
        self,
        repositories: Mapping[str, RepositoryRecord],
        branches: Mapping[bytes, Mapping[str, BranchRecord]],
    ) -> None:
        self.repositories = repositories
        self.branches = branches
        self.partitions = {record.partition: record for record in repositories.values()}
        self.tokens: dict[bytes, set[bytes]] = {}
        self.lives: dict[str, list[bytes]] = {}
        for partition, named in branches.items():
            for branch in named.values():
                for token in branch.tokens:
                    self.tokens.setdefault(token, set()).add(partition)
            instance = parse_instance(partition)
            if instance is not None:
                self.lives.setdefault(instance.repository, []).append(partition)


def read_references(view: RowView, others: Iterable[bytes] = ()) -> References:
    """Read repository records, then branch records. `others`: partitions with the shape of a repository and without a
    record; their branches are read too."""
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
            raise FormatError(f"{name}: the record has another repository id, or no instance id. {_STOPPED}")
        if record.state not in _STATES:
            raise RefusedError(f"{name}: state {record.state} is unknown. Use a newer version of Dredge.")
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
            raise FormatError(f"{name}: the record has another branch name. {_STOPPED}")
        tokens = tuple(token.encode() for token in branch.tokens)
        found[branch.name] = BranchRecord(branch.name, branch.commit_id, tokens, entry.value)
    return found


class Contents(Struct, frozen=True):
    """Summary of rows."""

    rows: int
    size_bytes: int
    digest: str  # SHA-256 over all keys and values in order, hex


class CommitLook(Struct, frozen=True):
    """Fields of a commit for the rules."""

    parents: tuple[str, ...]
    has_metarange: bool
    generation: int


@dataclass(frozen=True, slots=True)
class InstanceLook:
    """A repository's partition."""

    contents: Contents
    # by id; empty for an active repository, which may have millions
    commits: Mapping[str, CommitLook] = field(repr=False)
    dangling: tuple[str, ...]  # commits of an active repository that no branch or tag reaches
    tags: Mapping[str, str] = field(repr=False)
    # all keys but branches, commits and tags, with their values
    others: Mapping[bytes, bytes] = field(repr=False)
    # every key with the size of its row, in order; empty for an active repository
    names: Mapping[bytes, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a store at one time."""

    references: References
    partitions: frozenset[bytes]
    instances: Mapping[bytes, InstanceLook]  # every partition with the shape or the record of a repository
    # every partition with the shape of a token, or referenced as a token; the contents are None if only
    # active branches reference it
    staging: Mapping[bytes, Contents | None]
    small: Mapping[bytes, Mapping[bytes, bytes]]  # rows of the partitions classified key by key
    unknown: tuple[bytes, ...]  # unreferenced partitions of unknown shape
    unsure: frozenset[bytes]  # partitions referenced at the start of the look, and not at its end
    # commits of branches with a record, by the partition of an active repository
    heads: Mapping[bytes, frozenset[str]] = field(default_factory=dict)
    # the noted commits without a record now, by partition
    lost_commits: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)


def read_look(reader: RowReader, noted: Mapping[bytes, Collection[str]] | None = None) -> Look:
    """Read a store. `noted`: commits to look up, by the partition of their repository."""
    with reader.view() as view:
        return look_through(view, noted)


def look_through(view: RowView, noted: Mapping[bytes, Collection[str]] | None = None) -> Look:
    """Read a store through an open view; see `read_look`."""
    partitions = list(view.partitions())
    check_schema(view, partitions)
    present = frozenset(partitions)
    shaped = [name for name in partitions if parse_instance(name)]
    early = read_references(view, shaped)
    unrecorded = [name for name in shaped if name not in early.partitions]
    unnamed = [name for name in partitions if is_token(name) and name not in early.tokens]

    # Possible trash, before the references that decide.
    instances = {name: _read_instance(view, name) for name in unrecorded}
    staging: dict[bytes, Contents | None] = {name: contents_of(view.scan(name)) for name in unnamed}
    small = {name: {row.key: row.value for row in view.scan(name)} for name in SMALL if name in present}

    references = early if view.consistent else read_references(view, shaped)
    unsure = (set(early.partitions) - set(references.partitions)) | (
        set(early.tokens) - set(references.tokens)
    )
    markers = small.get(MARKERS, {})
    for name in present & set(references.tokens):
        # Staging of an inactive repository, and queued staging, is reported with its size.
        reported = name in markers or not _all_active(references, name)
        staging[name] = contents_of(view.scan(name)) if reported else None
    heads: dict[bytes, frozenset[str]] = {}
    lost: dict[bytes, tuple[str, ...]] = {}
    for name, record in references.partitions.items():
        # Partitions without rows are read too: their rows may be lost.
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


def check_schema(view: RowView, partitions: Collection[bytes]) -> None:
    """Refuse a store with rows and another schema version than 4."""
    if not partitions:
        return
    found = next(
        (row.value for row in view.scan(METADATA, SCHEMA_VERSION_KEY) if row.key == SCHEMA_VERSION_KEY), None
    )
    if found != SCHEMA_VERSION:
        version = "missing" if found is None else repr(found.decode("ascii", "replace"))
        raise RefusedError(
            f"the store's schema version is {version}; this Dredge supports {SCHEMA_VERSION.decode()}."
            " Nothing was removed. Migrate lakeFS, or use a newer Dredge."
        )


def value_digest(value: bytes) -> str:
    """Digest of a single row's value, hex."""
    return hashlib.sha256(value).hexdigest()


def contents_of(rows: Iterable[Entry | Row]) -> Contents | None:
    """Summarise rows in key order; None for no rows."""
    digest, count, size = hashlib.sha256(), 0, 0
    for row in rows:
        count += 1
        digest.update(b"%d:%d:" % (len(row.key), len(row.value)) + row.key + row.value)
        size += len(row.key) + len(row.value)
    return Contents(count, size, digest.hexdigest()) if count else None


def dangling_commits(commits: Mapping[str, CommitLook], heads: Iterable[str]) -> tuple[str, ...]:
    """The commits without a path from any head, sorted."""
    unreached = set(commits)
    waiting = list(heads)
    while waiting:
        commit = waiting.pop()
        if commit in unreached:
            unreached.remove(commit)
            waiting.extend(commits[commit].parents)
    return tuple(sorted(unreached))


def _of_record(instance: InstanceLook, partition: bytes, references: References) -> InstanceLook:
    if references.partitions[partition].state != "active":
        return instance
    heads = [branch.commit for branch in references.branches[partition].values()]
    dangling = dangling_commits(instance.commits, [*heads, *instance.tags.values()])
    return replace(instance, commits={}, dangling=dangling, names={})


def _read_instance(view: RowView, partition: bytes) -> InstanceLook:
    commits: dict[str, CommitLook] = {}
    tags: dict[str, str] = {}
    others: dict[bytes, bytes] = {}
    names: dict[bytes, int] = {}

    def read() -> Iterator[Entry]:
        for row in view.scan(partition):
            key, value = row.key, row.value
            names[key] = len(key) + len(value)
            if key.startswith(COMMIT_PREFIX):
                commits[tail(key, COMMIT_PREFIX)] = _read_commit(partition, key, value)
            elif key.startswith(TAG_PREFIX):
                tag = messages.decode(messages.TagData, value, show_key(partition, key))
                tags[tail(key, TAG_PREFIX)] = tag.commit_id
            elif not key.startswith(BRANCH_PREFIX):
                others[key] = value
            yield row

    contents = contents_of(read()) or Contents(0, 0, hashlib.sha256().hexdigest())
    return InstanceLook(contents, commits, (), tags, others, names)


def _read_commit(partition: bytes, key: bytes, value: bytes) -> CommitLook:
    name = show_key(partition, key)
    record = messages.decode(messages.CommitData, value, name)
    if record.id != tail(key, COMMIT_PREFIX):
        raise FormatError(f"{name}: the record has another commit id. {_STOPPED}")
    return CommitLook(tuple(record.parents), bool(record.meta_range_id), record.generation)


def _all_active(references: References, token: bytes) -> bool:
    records = [references.partitions.get(partition) for partition in references.tokens[token]]
    return all(record is not None and record.state == "active" for record in records)
