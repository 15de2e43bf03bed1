"""Imports: a commit of objects outside the repository, without copying them.

    status record → sources listed → ranges and metarange → commit on the branch → status completed

Entries have the full addresses of the objects. An imported folder replaces the folder on the branch; other paths stay.

Source: lakeFS pkg/catalog/catalog.go (Import, importAsync), pkg/catalog/import.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from dredge.errors import DredgeError
from dredge.lakefs.files import messages
from dredge.lakefs.files.addresses import AddressType
from dredge.lakefs.files.ranges import Value
from dredge.lakefs.files.records import Repository
from dredge.storage import ObjectReader
from dredge.xid import new_xid
from lakefs_embedded.catalog.commits import CommitInfo, CommitWriter
from lakefs_embedded.catalog.entries import path_bytes
from lakefs_embedded.catalog.merges import STRATEGY_KEY
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs
from lakefs_embedded.catalog.repositories import RepositoryService
from lakefs_embedded.catalog.tasks import Background
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.committed.merge import Strategy
from lakefs_embedded.committed.writing import SplitRule, replace_below
from lakefs_embedded.errors import InvalidValueError, MergeConflictError, NotUniqueError, TaskNotFoundError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store
from lakefs_embedded.refs.records import Commit

log = logging.getLogger(__name__)

CANCELED = "Canceled"
DEFAULT_MESSAGE = "Import objects"
LAST_IMPORT_KEY = ".lakefs.last.import.timestamp"
"""Key in the repository's metadata: creation time of the last import's commit, in Unix seconds."""
_PROGRESS_EVERY = 10_000

type OpenSource = Callable[[str], ObjectReader]


@dataclass(frozen=True, slots=True)
class ImportPath:
    """One source of an import.

    Attributes:
        type: a single object, or all objects below the path as a prefix.
        destination: path on the branch for an object, folder for a prefix ("" is the root).
    """

    type: Literal["object", "common_prefix"]
    path: str
    destination: str


@dataclass(frozen=True, slots=True)
class ImportStatus:
    """The progress of an import: in the end a commit or an error."""

    id: str
    completed: bool
    update_time: datetime
    ingested_objects: int = 0
    metarange_id: str = ""
    commit: Commit | None = None
    error: str | None = None


class ImportCanceledError(MergeConflictError):
    """The import was cancelled while it ran."""

    default = CANCELED


class ImportCompletedError(NotUniqueError):
    """An import that has ended cannot be cancelled."""

    default = "conflict found"


class ImportService:
    """Starts, watches and cancels imports; `from_repositories` allows those from another repository's namespace."""

    def __init__(
        self,
        kv: Store,
        refs: Refs,
        repositories: RepositoryService,
        namespaces: Namespaces,
        commit_writer: CommitWriter,
        rule: SplitRule,
        background: Background,
        clock: Clock,
        from_repositories: bool = False,
    ) -> None:
        self._kv = kv
        self._refs = refs
        self._repositories = repositories
        self._namespaces = namespaces
        self._commit_writer = commit_writer
        self._rule = rule
        self._background = background
        self._clock = clock
        self._from_repositories = from_repositories

    def import_start(
        self,
        repository: str,
        branch: str,
        paths: Sequence[ImportPath],
        open_source: OpenSource,
        *,
        committer: str,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
        spelled: Callable[[str], str] = str,
    ) -> str:
        """Begin an import in the background. Returns its id.

        Args:
            branch: must have no uncommitted changes at the end of the import.
            paths: of two sources for one path the later one wins.
            open_source: opens a reader for a folder URI.
            message: commit message; "" for a generated one.
            spelled: normalises a URI, to compare sources and namespaces.

        Raises:
            InvalidValueError: 400; a source is inside the namespace of a repository, or contains it. A real server
                checks only the same repository; a collection of another one would delete the imported objects.
        """
        found = self._refs.repositories.writable(repository, force)
        self._refs.branches.current(found, branch)
        self._refs.protection.require_committable(found, branch)
        others = [
            each
            for each in self._refs.repositories.listed("")
            if each.name != found.name and not self._from_repositories
        ]
        for each in paths:
            for owner in (found, *others):
                _check(owner.storage_namespace, each)
                _check(spelled(owner.storage_namespace), replace(each, path=spelled(each.path)))
        info = CommitInfo(
            committer,
            message or DEFAULT_MESSAGE,
            {**(metadata or {}), STRATEGY_KEY: Strategy.SOURCE_WINS.value},
        )
        status = messages.ImportStatusData(id=new_xid(self._clock()))
        self._put_status(found, status)

        def work() -> None:
            try:
                self._import(found, branch, paths, open_source, info, status)
            except Exception as error:
                log.warning("import %s of %s failed: %s", status.id, found.name, error)
                if isinstance(error, ImportCanceledError):
                    return  # its record says so, with the time of the cancellation
                status.error = str(error) if isinstance(error, DredgeError) else "internal error"
                self._put_status(found, status)

        self._background.start(work)
        return status.id

    def import_status(self, repository: str, import_id: str) -> ImportStatus:
        """The progress of an import."""
        status, _ = self._status(self._refs.repositories.get(repository), import_id)
        commit = None
        if status.HasField("commit"):
            commit = Commit.decode(messages.encode(status.commit))
        return ImportStatus(
            id=status.id,
            completed=status.completed,
            update_time=messages.from_timestamp(status.updated_at),
            ingested_objects=status.progress,
            metarange_id=status.metarange_id,
            commit=commit,
            error=status.error or None,
        )

    def import_cancel(self, repository: str, import_id: str) -> None:
        """Cancel an import: it ends without a commit."""
        found = self._refs.repositories.get(repository)
        while True:
            status, raw = self._status(found, import_id)
            if status.completed:
                raise ImportCompletedError
            status.error = CANCELED
            status.updated_at.CopyFrom(messages.to_timestamp(self._clock()))
            try:
                self._kv.set_if(found.partition, _key(import_id), messages.encode(status), raw)
            except PredicateFailedError:
                continue  # it made progress meanwhile
            return

    def _import(
        self,
        repository: Repository,
        branch: str,
        paths: Sequence[ImportPath],
        open_source: OpenSource,
        info: CommitInfo,
        status: messages.ImportStatusData,
    ) -> None:
        records: dict[bytes, Value] = {}
        for each in paths:
            for path, entry in _entries(each, open_source):
                records[path_bytes(path)] = entry.value()
                if len(records) % _PROGRESS_EVERY == 0:
                    self._record_progress(repository, status, len(records))
        self._record_progress(repository, status, len(records))
        ordered = sorted(records.items())
        replaced = [_folder(each.destination).encode() for each in paths if each.type == "common_prefix"]

        def build(head: str) -> Commit:
            parent = self._refs.commits.get(repository, head)
            ranges = self._namespaces.of(repository).ranges
            made = replace_below(ranges, parent.metarange_id, replaced, ordered, self._rule)
            self._record_progress(repository, status, len(ordered))
            commit = self._commit_writer.make(info, made.id, (parent,))
            return self._commit_writer.write(repository, commit)

        commit = self._commit_writer.commit_tree(repository, branch, build)
        last = str(int(commit.creation_date.timestamp()))
        self._repositories.update_repository_metadata(repository.name, put={LAST_IMPORT_KEY: last})
        status.completed = True
        status.metarange_id = commit.metarange_id
        status.commit.ParseFromString(commit.encode())
        self._put_status(repository, status)

    def _record_progress(
        self, repository: Repository, status: messages.ImportStatusData, progress: int
    ) -> None:
        before, raw = self._status(repository, status.id)
        if before.error:
            raise ImportCanceledError
        status.progress = progress
        status.updated_at.CopyFrom(messages.to_timestamp(self._clock()))
        try:
            self._kv.set_if(repository.partition, _key(status.id), messages.encode(status), raw)
        except PredicateFailedError:
            raise ImportCanceledError from None

    def _put_status(self, repository: Repository, status: messages.ImportStatusData) -> None:
        status.updated_at.CopyFrom(messages.to_timestamp(self._clock()))
        self._kv.set(repository.partition, _key(status.id), messages.encode(status))

    def _status(self, repository: Repository, import_id: str) -> tuple[messages.ImportStatusData, bytes]:
        try:
            raw = self._kv.get(repository.partition, _key(import_id))
        except KeyNotFoundError:
            raise TaskNotFoundError from None
        return messages.decode(messages.ImportStatusData, raw, f"import {import_id}"), raw


def _check(storage_namespace: str, source: ImportPath) -> None:
    namespace = storage_namespace.rstrip("/") + "/"
    if "://" not in source.path:
        raise InvalidValueError(f"import path {source.path!r} is not a URI: invalid import source")
    if source.path.startswith(namespace) or source.path == namespace[:-1]:
        raise InvalidValueError(
            f"import path ({source.path}) in repository namespace ({storage_namespace}) is "
            "prohibited: invalid import source"
        )
    if source.type == "common_prefix" and namespace.startswith(source.path):
        raise InvalidValueError(
            f"prefix ({source.path}) contains repository namespace: ({storage_namespace}), "
            "invalid import source"
        )
    if source.type == "object" and not source.destination:
        raise InvalidValueError("an object needs a destination: invalid value")


def _entries(source: ImportPath, open_source: OpenSource) -> Iterator[tuple[str, Entry]]:
    folder, _, rest = source.path.rpartition("/")
    reader = open_source(folder)
    if source.type == "object":
        info = reader.stat(rest)
        yield source.destination, _entry(source.path, info.size, info.etag, info.last_modified)
        return
    into = _folder(source.destination)
    for batch in reader.list(rest):
        for row in batch.to_pylist():
            if not row["key"].endswith("/"):
                address = f"{folder}/{row['key']}"
                yield into + row["key"], _entry(address, row["size"], row["etag"], row["last_modified"])


def _entry(address: str, size: int, etag: str | None, last_modified: datetime) -> Entry:
    return Entry(
        address=address,
        address_type=AddressType.FULL,
        size=size,
        etag=etag or "",
        last_modified=last_modified,
    )


def _folder(destination: str) -> str:
    return f"{destination}/" if destination and not destination.endswith("/") else destination


def _key(import_id: str) -> bytes:
    return f"imports/{import_id}".encode()
