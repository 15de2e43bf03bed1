"""The records of one repository in lakeFS's key-value store, as a collection reads them.

    graveler                repos/<name>          which partition is the repository's
    <repository partition>  branches/<name>       head, staging token, sealed tokens; hidden ones are among them
                            tags/<name>           commit
                            commits/<id>          parents, date, metarange; dangling ones are among them
                            copies/<xid>          an address that two paths share (only the embedded lakeFS has these)
    <staging token>         <path>                what is staged; a tombstone has no identity

A record with a field that this version does not know was written by a newer server, which may keep something alive in
a way that is not known here. It is read all the same, and noted, so that nobody takes the records for everything.

Source: lakeFS pkg/graveler/graveler.proto, pkg/graveler/model.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from dredge.errors import FormatError, RefusedError
from dredge.gc.namespaces import Keys, canonical_namespace
from dredge.kv.rows import RowView, show_key
from dredge.lakefs import Commit, CommitText, Ref
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType, address_readings
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Branch, Repository, repository_key

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BRANCHES, _TAGS, _COMMITS, _COPIES = b"branches/", b"tags/", b"commits/", b"copies/"
_SCHEMA = (b"kv-internal-metadata", b"kv/schema/version")
_SCHEMA_VERSION = b"4"


class Target(Protocol):
    """Names a repository; a plan of any run does."""

    @property
    def repository(self) -> str:
        """Name in lakeFS."""

    @property
    def namespace(self) -> str:
        """URI of its storage namespace, as the server says."""


class RepositoryRecords:
    """Reads the records of a repository; each call reads them anew.

    Args:
        plan: names the repository.
        view: on the store.
        location: the store, without credentials.

    Attributes:
        location: the store, without credentials.
        heads: commit by branch, as each was read last.
        unknown: names of records with fields that this version does not know; a few of them.
        keys: that are looked for in entries; the repository's own, unless they are set.

    Raises:
        RefusedError: it is not the store of this repository.
    """

    def __init__(self, plan: Target, view: RowView, location: str) -> None:
        self.location = location
        self.heads: dict[str, str] = {}
        self.unknown: list[str] = []
        self.keys = Keys(namespace=plan.namespace)
        self._plan = plan
        self._view = view
        self._check_schema()
        self._partition = self._repository().partition

    @property
    def consistent(self) -> bool:
        """Whether all is read as of one moment."""
        return self._view.consistent

    def branches(self) -> list[Branch]:
        """All branches, hidden ones too, in name order."""
        found = []
        for name, value in self.rows(_BRANCHES):
            self._note_unknown(messages.BranchData, _BRANCHES + name, value)
            branch = Branch.decode(value)
            if branch.name.encode() != name:
                raise FormatError(
                    f"{show_key(self._partition, _BRANCHES + name)}: the record names another branch."
                )
            found.append(branch)
        self.heads |= {branch.name: branch.commit_id for branch in found}
        return found

    def tags(self) -> list[Ref]:
        """All tags, in name order."""
        found = []
        for name, value in self.rows(_TAGS):
            record = self._note_unknown(messages.TagData, _TAGS + name, value)
            found.append(Ref(record.id, record.commit_id))
        return found

    def commits(self) -> dict[str, Commit]:
        """Every commit by id, whether or not a ref leads to it."""
        found = {}
        for name, value in self.rows(_COMMITS):
            record = self._note_unknown(messages.CommitData, _COMMITS + name, value)
            if record.id.encode() != name:
                raise FormatError(
                    f"{show_key(self._partition, _COMMITS + name)}: the record names another commit."
                )
            found[record.id] = Commit(
                record.id,
                tuple(record.parents),
                messages.from_timestamp(record.creation_date),
                record.meta_range_id,
                record.version,
                CommitText(record.committer, record.message, dict(record.metadata), record.generation),
            )
        return found

    def staged(self, token: str) -> Iterator[tuple[str, ...]]:
        """The keys that each entry of a staging token may mean; tombstones are passed over."""
        partition = token.encode()
        for row in self._view.scan(partition):
            record = self._note_unknown(messages.StagedEntryData, row.key, row.value, partition)
            if record.identity:
                yield self._keys(self._note_unknown(messages.Entry, row.key, record.data, partition))

    def copies(self) -> Iterator[tuple[str, ...]]:
        """The keys of recorded copies that share their bytes with something staged.

        A rename stages the new path before it deletes the old one, so these are read after everything staged.
        """
        for name, value in self.rows(_COPIES):
            yield self._keys(self._note_unknown(messages.Entry, _COPIES + name, value))

    def _keys(self, entry: messages.Entry) -> tuple[str, ...]:
        if not self.keys.own and int(entry.address_type) == AddressType.RELATIVE:
            return ()
        return address_readings(entry.address, entry.address_type, self.keys.namespace)

    def _check_schema(self) -> None:
        found = self._one(*_SCHEMA)
        if found is not None and found != _SCHEMA_VERSION:
            raise RefusedError(
                f"{self.location} has schema version {found.decode('ascii', 'replace')}; this version reads"
                f" {_SCHEMA_VERSION.decode()}. Nothing was deleted."
            )

    def _repository(self) -> Repository:
        name = self._plan.repository
        value = self._one(REPOSITORIES_PARTITION, repository_key(name))
        if value is None:
            raise RefusedError(
                f"{self.location} has no repository {name}: it is another installation's store. Nothing was deleted."
            )
        self._note_unknown(messages.RepositoryData, repository_key(name), value)
        repository = Repository.decode(value)
        if repository.in_deletion or canonical_namespace(repository.storage_namespace) != canonical_namespace(
            self._plan.namespace
        ):
            raise RefusedError(
                f"repository {name} is on {repository.storage_namespace} in {self.location}"
                f"{' and being deleted' if repository.in_deletion else ''}, and on {self._plan.namespace} on the"
                " server. Nothing was deleted. Name the server's own database."
            )
        return repository

    def rows(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rest of each key of the repository below a prefix, and its value."""
        for entry in self._view.scan(self._partition, prefix):
            if not entry.key.startswith(prefix):
                return
            yield entry.key.removeprefix(prefix), entry.value

    def _note_unknown[M: Message](self, kind: type[M], key: bytes, value: bytes, partition: bytes = b"") -> M:
        record = messages.decode(kind, value, lambda: show_key(partition, key))
        if messages.has_unknown_fields(record) and len(self.unknown) < 3:
            self.unknown.append(key.decode("utf-8", "backslashreplace"))
        return record

    def _one(self, partition: bytes, key: bytes) -> bytes | None:
        row = next(iter(self._view.scan(partition, key)), None)
        return row.value if row is not None and row.key == key else None
