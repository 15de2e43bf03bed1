"""What the records of a store name: the only thing that keeps a partition alive.

Everything is fail-closed. A repository or branch record that cannot be read, or says something unknown,
ends the run: what it would have named cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from dredge import xid
from dredge.errors import FormatError, RefusedError
from dredge.kv.rows import RowView, show_key
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Branch
from dredge.trash.names import BRANCH_PREFIX, REPOSITORIES, REPOSITORY_PREFIX, parse_instance, tail

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
